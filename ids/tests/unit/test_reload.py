"""A reload: what has not changed is not read again, and neither rules nor counters hold up the clients."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.errors import RuleError
from beanpole_ids.rules.config import Config
from beanpole_ids.rules.rule import cases, check_different
from beanpole_ids.rules.sequence import Key
from tests.unit.test_service import World, in_a_world, play, settle

CODE = (
    "function min_counter() return 0 end function max_counter() return 99 end function reset_seconds() return 0 end "
    "function create_id(counter) return 'L' .. counter:generate_counter() end"
)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def rule(name: str, text: str) -> str:
    return f'[[rule]]\nname = "{name}"\n{text}\n'


PLAIN = 'template = "{counter:06}"'


def write(folder: Path, text: str) -> Path:
    (folder / "rules.toml").write_text("offset = 0\n" + text)
    return folder / "rules.toml"


def read(folder: Path, text: str, known: Config | None = None) -> Config:
    path = write(folder, text)
    return load(path, known=known.rules) if known else load(path)


ALL = rule("a", PLAIN) + rule("b", PLAIN) + rule("s", 'kind = "snowflake"') + rule("l", 'lua = "l.lua"')


@pytest.mark.parametrize(
    ("text", "code", "changed"),
    [
        (ALL, CODE, ""),
        (ALL.replace('"b"\n', '"b"\nbatch = 7\n'), CODE, "b"),
        (ALL.replace('"b"\n', '"b"\napps = ["x"]\n'), CODE, "b"),
        (ALL.replace("kind", "reserve_s = 5\nkind"), CODE, "s"),
        (ALL, CODE.replace("99", "98"), "l"),
        ('time_zone = "Europe/Berlin"\n' + ALL, CODE, "abl"),
    ],
)
def test_only_rules_that_have_changed_are_read_again(tmp_path: Path, text: str, code: str, changed: str) -> None:
    (tmp_path / "l.lua").write_text(CODE)
    old = read(tmp_path, ALL).rules
    (tmp_path / "l.lua").write_text(code)
    new = load(write(tmp_path, text), known=old).rules
    assert "".join(name for name in old if new[name] is not old[name]) == changed


def test_rule_of_the_original_is_read_again_if_its_file_has_changed(tmp_path: Path) -> None:
    for path in EXAMPLES.iterdir():
        shutil.copy(path, tmp_path) if path.is_file() else None
    old = load(tmp_path / "config.json").rules
    assert all(each is old[name] for name, each in load(tmp_path / "config.json", known=old).rules.items())
    path = next(tmp_path.glob("task*.lua"))
    path.write_text(path.read_text() + "\n")
    new = load(tmp_path / "config.json", known=old).rules
    assert [name for name in old if new[name] is not old[name]] == ["task"]


def templates() -> Iterator[str]:
    for cycle, shown in (
        ("never", ""),
        ("month", "{year:04}{month:02}"),
        ("day", "{year:02}{yday:03}"),
        ("hour", "{year:02}{month:02}{day:02}{hour:02}"),
    ):
        for form in ('template = "{}{{counter:06}}"', 'template = "{}-{{counter:04}}-{{salt}}"\nalphabet = "01"'):
            yield form.format(shown) + f'\ncycle = "{cycle}"'
            yield form.format(shown) + f'\ncycle = "{cycle}"\ncheck = "luhn"'
    yield 'template = "{year:04}{month:02}{day:02}{hour:02}{minute:02}{counter:03}"\ncycle = 120'


@pytest.mark.parametrize("text", list(templates()))
def test_template_that_is_proven_would_pass_the_trial(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, rule("a", text)).rules["a"]
    wanted = list(cases(found))
    check_different(found, wanted, [found.make(value, 1, 1, time_s, salt)[0][0] for value, time_s, salt in wanted])


def test_counters_are_checked_some_at_a_time(tmp_path: Path) -> None:
    """A hundred thousand of them held up every client."""
    count = 5 * limits.RELOAD_TURN

    async def story(world: World) -> None:
        config = read(tmp_path, rule("a", PLAIN))
        await world.service.reload(config)
        counters = world.service.counters
        for number in range(count):
            key = Key(b"a", b"%d" % number)
            counters.loaded[key] = config.rules["a"].counting.counter(key, None, 0)
        turns = 0

        async def client() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(client())
        await world.service.reload(read(tmp_path, rule("a", PLAIN + "\nmaximum = 99999")))
        assert turns >= 5, "the client was served between them"
        task.cancel()
        assert {each.shape.maximum for each in counters.loaded.values()} == {999_999}, "they follow when they are used"
        assert (await world.ask(rule_name="a", app_name="7"))["data"] == "000000"
        assert counters.loaded[Key(b"a", b"7")].shape.maximum == 99_999

    play(tmp_path, story)


@in_a_world
async def test_counter_that_is_used_during_a_reload_is_checked_again(world: World, tmp_path: Path) -> None:
    """It was checked before it had a number, and got one of the old text: the new text could make it again."""
    config = read(tmp_path, rule("a", PLAIN) + rule("b", PLAIN))
    await world.service.reload(config)
    for number in range(3 * limits.RELOAD_TURN):
        key = Key(b"a", b"%d" % number)
        world.service.counters.loaded[key] = config.rules["a"].counting.counter(key, None, 0)
    other = 'template = "{counter:06}"\nalphabet = "01234567"'
    task = asyncio.create_task(world.service.reload(read(tmp_path, rule("a", PLAIN) + rule("b", other))))
    await asyncio.sleep(0)
    world.send(rule_name="b")
    with pytest.raises(RuleError, match="'b': its text"):
        await task
    await settle()
    assert [each["data"] for each in world.replies] == ["000000"]
    assert (await world.ask(rule_name="b"))["data"] == "000001", "nothing has changed"
    assert world.service.config is config


@in_a_world
async def test_range_that_comes_after_a_reload_says_the_new_text(world: World, tmp_path: Path) -> None:
    """A counter that nobody uses follows its rule at the next request, even after several reloads."""
    await world.service.reload(read(tmp_path, rule("a", PLAIN)))
    assert (await world.ask(rule_name="a"))["data"] == "000000"
    for text in ('template = "X{counter:06}"', 'template = "XY{counter:06}"', 'template = "XYZ{counter:06}"'):
        await world.service.reload(read(tmp_path, rule("a", text)))
    assert (await world.ask(rule_name="a"))["data"] == "XYZ000001"
    records = {mark.fingerprints for mark in world.store.marks.values()}
    assert [len(each.split()) for each in records] == [2], "the two that made numbers"
    with pytest.raises(RuleError, match="'a': its text"):
        await world.service.reload(read(tmp_path, rule("a", 'template = "A{counter:08}"')))
