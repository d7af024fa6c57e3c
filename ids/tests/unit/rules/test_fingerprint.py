"""Rules that change under their name: numbers that could come again are refused, by a reload and by a start."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from beanpole_ids import limits
from beanpole_ids.config import load
from beanpole_ids.errors import RuleError, RuleFailedError, StorageError
from beanpole_ids.mark import Mark
from beanpole_ids.rules.fingerprint import Fingerprint, followed, merged, zone_shape
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Counter, Key
from tests.unit.test_service import World

KEY = Key(b"r", b"a")
DAY = 'template = "{year:02}{month:02}{day:02}{counter:06}"\ncycle = "day"'
HOUR = 'template = "{year:02}{month:02}{day:02}{hour:02}{counter:06}"\ncycle = "hour"'
MONTH = 'template = "{year:02}{month:02}{counter:06}"\ncycle = "month"'
SHANGHAI, BANGKOK, UTC_ZONE = (f'\ntime_zone = "{name}"' for name in ("Asia/Shanghai", "Asia/Bangkok", "UTC"))
PLAIN = 'template = "{counter:06}"'
LUA = """
function min_counter() return 0 end
function max_counter() return 999999 end
function reset_seconds() return 86400 end
function create_id(counter, now, salt)
    return ("%04d%02d%02d%06d"):format(now:year(), now:month(), now:day(), counter:generate_counter())
end
"""


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def read(folder: Path, text: str, lua: str = LUA, more: str = "") -> Rule:
    (folder / "r.lua").write_text(lua)
    path = folder / "rules.toml"
    path.write_text(f'{more}\n[[rule]]\nname = "r"\n{text}\n')
    return load(path).rules["r"]


class Node:
    """A counter whose ranges are durable in memory; it can crash."""

    def __init__(self, rule: Rule, now_s: int, mark: Mark | None = None) -> None:
        self.rule = rule
        self.counter: Counter = rule.counting.counter(KEY, mark, now_s)

    def take(self, count: int, now_s: int) -> list[str]:
        """Numbers of a moment."""
        time_s = self.counter.open(now_s)
        if self.counter.offer()[1] < count:
            self.counter.need(count)
            mark = self.counter.plan()
            assert mark
            self.counter.confirm(mark)
        first, left = self.counter.offer()
        made, used = self.rule.make(first, left, count, time_s, b"")
        self.counter.advance(first, used)
        self.counter.check()
        return made

    def change(self, rule: Rule, now_s: int) -> None:
        """A reload."""
        self.counter.change(rule.counting, now_s)
        self.rule = rule

    def crashed(self, rule: Rule, now_s: int) -> "Node":
        """The node after a crash and a start with another rule."""
        return Node(rule, now_s, self.counter.durable)

    def stopped(self, rule: Rule, now_s: int) -> "Node":
        """The node after a stop and a start with another rule."""
        return Node(rule, now_s, self.counter.final_mark() or self.counter.durable)


CHANGES = {
    "an hour to the west": (HOUR + SHANGHAI, HOUR + BANGKOK),
    "a day to the west": (DAY + SHANGHAI, DAY + UTC_ZONE),
    "a month to the west": (MONTH + SHANGHAI, MONTH + UTC_ZONE),
    "another alphabet": (PLAIN, PLAIN + '\nalphabet = "0123456789ABCDEF"'),
    "a check digit for a digit": (PLAIN + '\ncheck = "luhn"', 'template = "{counter:07}"'),
    "a check digit that is another": (PLAIN + '\ncheck = "luhn"', PLAIN + '\ncheck = "damm"'),
    "a day's cycle to an hour's": (DAY, HOUR.replace(":06", ":04")),
    "a cycle of text that stays": (HOUR.replace('"hour"', '"day"'), HOUR),
    "a text of any length": (PLAIN, 'template = "{salt}{counter:09}"'),
    "a template to Lua": (PLAIN, 'lua = "r.lua"'),
    "a template to a kind": (PLAIN, 'kind = "uuid7"'),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("restart", [Node.crashed, Node.stopped])
def test_change_that_could_repeat_a_number_is_refused(
    tmp_path: Path, name: str, restart: Callable[[Node, Rule, int], Node]
) -> None:
    """A counter that goes on above what is reserved is not enough: its text, or its cycle, was that of others."""
    before, after = (read(tmp_path, text) for text in CHANGES[name])
    now_s = at("2026-11-21 07:00:20")
    node = Node(before, now_s)
    node.take(3, now_s)
    with pytest.raises(RuleError, match="another name"):
        node.change(after, now_s)
    assert node.take(1, now_s), "the old rule stays"
    with pytest.raises(RuleFailedError, match="another name"):
        restart(node, after, now_s)


def test_changed_lua_is_refused(tmp_path: Path) -> None:
    before = read(tmp_path, 'lua = "r.lua"')
    node = Node(before, 100)
    node.take(1, 100)
    after = read(tmp_path, 'lua = "r.lua"', LUA.replace("%06d", "%07d"))
    with pytest.raises(RuleFailedError, match="another name"):
        node.crashed(after, 100)
    node.change(read(tmp_path, 'lua = "r.lua"'), 100)


def test_crash_and_a_clock_that_went_back_with_another_cycle(tmp_path: Path) -> None:
    """The row has the time of its reservation, not that of the last number: the hour of the new cycle began again."""
    text = 'template = "{year:02}{month:02}{day:02}{hour:02}{counter:06}"\ncycle = "day"'
    node = Node(read(tmp_path, text), at("2026-11-21 06:59:55"))
    node.take(10, at("2026-11-21 06:59:55"))
    node.take(100, at("2026-11-21 07:00:20"))
    assert node.counter.durable
    assert node.counter.durable.time_s < at("2026-11-21 07:00")
    with pytest.raises(RuleFailedError, match="cycle"):
        node.crashed(read(tmp_path, HOUR), at("2026-11-21 06:59:45"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PLAIN, PLAIN + "\nmaximum = 5000\nbatch = 7"),
        (PLAIN, PLAIN + '\ntime_zone = "Asia/Shanghai"'),
        (HOUR + SHANGHAI, HOUR + '\ntime_zone = "PRC"'),
        (PLAIN, 'template = "N{counter:06}"'),
        (DAY, HOUR),
        (DAY + SHANGHAI, DAY.replace(":06", ":07") + UTC_ZONE),
    ],
)
def test_change_that_can_repeat_nothing_is_taken_over(tmp_path: Path, before: str, after: str) -> None:
    now_s = at("2026-11-21 15:59:30")
    for change in (Node.change, Node.crashed, Node.stopped):
        node = Node(read(tmp_path, before), now_s)
        seen = node.take(300, now_s)
        changed = read(tmp_path, after)
        node = change(node, changed, now_s) or node
        seen += node.take(30, now_s) + node.take(30, now_s + 60)
        assert len(set(seen)) == len(seen)


def test_reload_leaves_no_gap(tmp_path: Path) -> None:
    node = Node(read(tmp_path, PLAIN), 0)
    assert node.take(1, 0) == ["000000"]
    node.change(read(tmp_path, 'template = "N{counter:06}"'), 0)
    assert node.counter.available == 0, "what is reserved does not say what it looks like now"
    assert node.take(1, 0) == ["N000001"]
    node = node.stopped(read(tmp_path, 'template = "N{counter:06}"'), 0)
    assert node.take(1, 0) == ["N000002"]


def test_range_that_comes_after_a_reload_is_not_used(tmp_path: Path) -> None:
    """Its row says nothing of the new text, which a start after a crash would then not know."""
    node = Node(read(tmp_path, PLAIN), 0)
    node.counter.open(0)
    node.counter.need(1)
    mark = node.counter.plan()
    assert mark
    node.change(read(tmp_path, 'template = "N{counter:06}"'), 0)
    node.counter.confirm(mark)
    assert node.counter.available == 0
    assert node.take(1, 0) == ["N000000"]
    assert node.counter.durable
    assert len(node.counter.durable.fingerprints.split()) == 2


def test_what_was_before_is_not_forgotten(tmp_path: Path) -> None:
    """Each change by itself is safe, the last one is not."""
    node = Node(read(tmp_path, PLAIN), 0)
    node.take(1, 0)
    node = node.crashed(read(tmp_path, 'template = "{counter:08}"'), 0)
    node.take(1, 0)
    with pytest.raises(RuleFailedError, match="another name"):
        node.crashed(read(tmp_path, PLAIN + '\nalphabet = "0123456789ABCDEF"'), 0)


def test_change_is_taken_back(tmp_path: Path) -> None:
    """The same text counts on, unless counting began again in another way since."""
    node = Node(read(tmp_path, PLAIN), 0)
    seen = node.take(1, 0)
    for text in ('template = "N{counter:06}"', PLAIN, 'template = "N{counter:06}"'):
        node = node.crashed(read(tmp_path, text), 0)
        seen += node.take(1, 0)
    assert len(set(seen)) == 4
    node = Node(read(tmp_path, DAY), at("2026-11-21 07:00"))
    node.take(1, at("2026-11-21 07:00"))
    node.change(read(tmp_path, HOUR), at("2026-11-21 07:00"))
    node.change(read(tmp_path, DAY), at("2026-11-21 07:00"))  # none was given meanwhile
    node.change(read(tmp_path, HOUR), at("2026-11-21 07:00"))
    node.take(1, at("2026-11-21 08:00"))
    with pytest.raises(RuleError, match="another name"):
        node.change(read(tmp_path, DAY), at("2026-11-21 08:00"))


def test_operator_accepts_one_change(tmp_path: Path) -> None:
    node = Node(read(tmp_path, PLAIN), 0)
    node.take(1, 0)
    hexadecimal, other = (PLAIN + f'\nalphabet = "{alphabet}"' for alphabet in ("0123456789ABCDEF", "9876543210"))
    with pytest.raises(RuleError, match="accept = ") as error:
        node.change(read(tmp_path, hexadecimal), 0)
    accept = "\n" + str(error.value).rpartition("write ")[2]
    node.change(read(tmp_path, hexadecimal + accept), 0)
    assert node.take(1, 0) == ["000001"]
    node.crashed(read(tmp_path, hexadecimal), 0)
    with pytest.raises(RuleError, match="another name"):
        node.change(read(tmp_path, other + accept), 0)


def test_row_of_an_older_version_is_taken_as_it_is(tmp_path: Path) -> None:
    mark = Mark(0, 41, 0, "never UTC")
    node = Node(read(tmp_path, PLAIN), 0, mark)
    assert node.take(1, 0) == ["000042"]
    assert node.counter.durable
    assert node.counter.durable.fingerprints == read(tmp_path, PLAIN).counting.fingerprint.digest + ".6." + _never(
        tmp_path
    )


def _never(folder: Path) -> str:
    return read(folder, PLAIN).counting.fingerprint.cycle


def test_zone_of_the_machine_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name stays `local`, in our configuration and in that of the original."""
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    text = DAY + '\ntime_zone = "local"'
    now_s = at("2026-11-21 15:59")
    node = Node(read(tmp_path, text), now_s)
    node.take(1, now_s)
    monkeypatch.setenv("TZ", "Asia/Bangkok")
    with pytest.raises(RuleFailedError, match="time zone"):
        node.crashed(read(tmp_path, text), now_s)


def test_zone_is_what_it_does() -> None:
    named = [zone_shape(ZoneInfo(name)) for name in ("Asia/Shanghai", "PRC", "Asia/Bangkok", "Europe/Berlin", "UTC")]
    assert named[0] == named[1]
    assert len(set(named)) == 4
    assert len(named[3]) == 2 * 74 + 1
    assert dict(named[3])[at("2026-03-29 01:00")] == 7200, "to the second"
    zone: tzinfo = UTC
    assert zone_shape(zone) == zone_shape(ZoneInfo("UTC"))
    with files("tzdata.zoneinfo.Asia").joinpath("Bangkok").open("rb") as file:
        assert zone_shape(ZoneInfo.from_file(file, key="local")) == named[2], "as /etc/localtime is read"


A, B, C = Fingerprint("a", 6, "x"), Fingerprint("b", 7, "x"), Fingerprint("c", 7, "x")


def test_other_nodes_have_given_numbers_too() -> None:
    others = ["a.6.x b.7.x"]
    assert followed(merged(["a.6.x"], others), A) == "b.7.- a.6.x"
    assert followed(merged(["a.6.x"], others), B) == "a.6.x b.7.x", "as the other node before"
    assert followed(merged(["a.6.x"], ["b.7.y"]), B._replace(cycle="y")) == "a.6.x b.7.y", "a node after the other"
    with pytest.raises(RuleError):
        followed(merged(["a.6.x"], others), C)
    with pytest.raises(RuleError):
        followed(merged([], others), C)
    assert followed(merged(["", "a.6.x"], ["a.6.x"]), A) == "a.6.x"


def test_record_has_an_end() -> None:
    record = ""
    for number in range(1, 11):
        record = followed(record, Fingerprint(f"{number:012}", number, "cycles"))
    assert len(record) <= limits.RECORD_MAX
    with pytest.raises(RuleError, match="too often"):
        followed(record + " z.88.x" * 4, Fingerprint("a" * 12, 99, "cycles"))


# --- Reload -----------------------------------------------------------------------------------------------------------

Story = Callable[[World, Callable[[str], Awaitable[None]]], Coroutine[Any, Any, None]]


def play(folder: Path, story: Story) -> None:
    """Plays a test with a service, and with what reloads it with rules."""

    async def main() -> None:
        world = World(folder)

        async def reload(text: str) -> None:
            path = folder / "rules.toml"
            path.write_text("offset = 0\n" + text)
            await world.service.reload(load(path))

        await story(world, reload)
        world.service.counters.begin_stop()
        await world.keeper

    asyncio.run(main())


def rule(name: str, text: str) -> str:
    return f'[[rule]]\nname = "{name}"\n{text}\n'


@pytest.mark.parametrize("other", ['kind = "snowflake"\nsequence_bits = 10', PLAIN, 'kind = "uuid7"'])
@pytest.mark.parametrize("is_first", [True, False])
def test_reload_that_is_refused_changes_nothing(tmp_path: Path, other: str, is_first: bool) -> None:
    """A rule that was away for one reload came back as another: half of the reload was done, and it ended nowhere."""

    async def story(world: World, reload: Callable[[str], Awaitable[None]]) -> None:
        await reload(rule("x", DAY) + rule("s", 'kind = "snowflake"'))
        names = ("x", "s") if is_first else ("s", "x")
        for name in names:
            await world.ask(rule_name=name)
        await reload(rule("x", DAY))
        config, reader = world.service.config, world.service.reader
        with pytest.raises(RuleError, match="'s': its kind has changed"):
            await reload(rule("x", 'template = "N{counter:06}"') + rule("s", other))
        assert (world.service.config, world.service.reader) == (config, reader)
        assert (await world.ask(rule_name="x"))["data"].endswith("000001")
        world.now_s += 86_400
        assert (await world.ask(rule_name="x"))["data"].endswith("000000")

    play(tmp_path, story)


def test_start_with_a_changed_rule_refuses_its_numbers_and_no_others(tmp_path: Path) -> None:
    async def story(world: World, reload: Callable[[str], Awaitable[None]]) -> None:
        await reload(rule("x", DAY) + rule("y", DAY))
        for name in ("x", "y"):
            await world.ask(rule_name=name)
        world.service.counters.loaded.clear()  # as a crash does
        await reload(rule("x", DAY + SHANGHAI) + rule("y", DAY))
        reply = await world.ask(rule_name="x")
        assert (reply["code"], reply["message"][:27]) == (-1, "system error: its text, cyc")
        assert (await world.ask(rule_name="x", app_name="new"))["code"] == 0, "a name that has no numbers yet"
        assert (await world.ask(rule_name="y"))["code"] == 0

    play(tmp_path, story)


def test_reload_while_the_store_fails(tmp_path: Path) -> None:
    """Nobody knows what a range that failed has made durable."""

    async def story(world: World, reload: Callable[[str], Awaitable[None]]) -> None:
        await reload(rule("x", PLAIN))
        given = [(await world.ask(rule_name="x"))["data"]]
        await reload(rule("x", 'template = "N{counter:06}"'))
        world.store.error = StorageError("storage: gone")
        assert (await world.ask(rule_name="x"))["code"] == -3
        await reload(rule("x", PLAIN))
        world.store.error, world.seconds = None, world.seconds + 60
        given.append((await world.ask(rule_name="x"))["data"])
        assert given == ["000000", "000001"]
        (mark,) = (mark for key, mark in world.store.marks.items() if key.rule == b"x")
        assert len(mark.fingerprints.split()) == 2

    play(tmp_path, story)
