"""Rules that change under their name: numbers that could come again are refused, by a reload and by a start."""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from beanpole_ids.config import load
from beanpole_ids.errors import RuleError, RuleFailedError, StorageError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.fingerprint import Fingerprint, followed, merged, zone_shape
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Counter, Key
from tests.unit.test_service import World, in_a_world

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


def read(folder: Path, text: str) -> Rule:
    (folder / "r.lua").write_text(LUA)
    (folder / "wide.lua").write_text(LUA.replace("%06d", "%07d"))
    path = folder / "rules.toml"
    path.write_text(f'[[rule]]\nname = "r"\n{text}\n')
    return load(path).rules["r"]


class Node:
    """A counter whose ranges are durable in memory; it can crash."""

    def __init__(self, rule: Rule, now_s: int, mark: Mark | None = None) -> None:
        self.rule = rule
        self.counter: Counter = rule.counting.counter(KEY, mark, now_s)

    def take(self, count: int, now_s: int) -> list[str]:
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
    "another Lua": ('lua = "r.lua"', 'lua = "wide.lua"'),
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


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (PLAIN, PLAIN + "\nmaximum = 5000\nbatch = 7"),
        (PLAIN, PLAIN + '\ntime_zone = "Asia/Shanghai"'),
        (HOUR + SHANGHAI, HOUR + '\ntime_zone = "PRC"'),
        (PLAIN, 'template = "N{counter:06}"'),
        (DAY, HOUR),
        (DAY + SHANGHAI, DAY.replace(":06", ":07") + UTC_ZONE),
        ('lua = "r.lua"', 'lua = "r.lua"\nbatch = 7'),
    ],
)
def test_change_that_can_repeat_nothing_is_taken_over(tmp_path: Path, before: str, after: str) -> None:
    now_s = at("2026-11-21 15:59:30")
    for change in (Node.change, Node.crashed, Node.stopped):
        node = Node(read(tmp_path, before), now_s)
        seen = node.take(300, now_s)
        node = change(node, read(tmp_path, after), now_s) or node
        seen += node.take(30, now_s) + node.take(30, now_s + 60)
        assert len(set(seen)) == len(seen)


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
    assert node.counter.durable.fingerprints.startswith(".6 ")


def test_operator_accepts_one_change(tmp_path: Path) -> None:
    """Also a return to what numbers looked like before; each change by itself was safe, this one is not."""
    node = Node(read(tmp_path, PLAIN), 0)
    seen = node.take(1, 0)
    node.change(read(tmp_path, 'template = "{counter:07}"'), 0)
    node.change(read(tmp_path, 'template = "{counter:08}"'), 0)  # nobody has got a number in between
    seen += node.take(1, 0)
    hexadecimal = PLAIN + '\nalphabet = "0123456789ABCDEF"'
    for text in (PLAIN, hexadecimal):
        with pytest.raises(RuleError, match="accept = ") as error:
            node.change(read(tmp_path, text), 0)
        accept = "\n" + str(error.value).rpartition("write ")[2]
        node.change(read(tmp_path, text + accept), 0)
        seen += node.take(1, 0)
        node.crashed(read(tmp_path, text), 0)
    assert seen == ["000000", "00000001", "000002", "000003"]
    with pytest.raises(RuleError, match="another name"):
        node.change(read(tmp_path, PLAIN + '\nalphabet = "9876543210"' + accept), 0)


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
    assert dict(named[3])[at("2026-03-29 01:00")] == 7200, "to the second"
    zone: tzinfo = UTC
    assert zone_shape(zone) == named[4]
    with files("tzdata.zoneinfo.Asia").joinpath("Bangkok").open("rb") as file:
        assert zone_shape(ZoneInfo.from_file(file, key="local")) == named[2], "as /etc/localtime is read"


A, B, C = Fingerprint("a", 6), Fingerprint("b", 7), Fingerprint("c", 7)


@pytest.mark.parametrize(
    ("record", "new", "after"),
    [
        ("", A, "a.6"),
        ("a.6", A, "a.6"),
        ("a.6", B, ".6 b.7"),
        (".6 b.7", A, None),  # as it was before
        (".6 b.7", C, None),
        (".6 b.7", C._replace(accept="c"), ".6 .7 c.7"),
        ("a.6", Fingerprint("d", 0), None),
        ("d.0", A, None),
        (merged(["a.6"], ["a.6", ".6 b.7"]), A, ".6 b.7 a.6"),  # another node has changed, this one not yet
        (merged(["a.6"], ["a.6", ".6 b.7"]), B, ".6 b.7"),  # as the other node before
        (merged(["a.6"], ["a.6", ".6 b.7"]), C, None),
        (merged(["a.6", "b.7"], ["a.6", "b.7"]), A, None),  # a new step: all nodes' numbers are this one's
        (merged(["", "a.6"], ["a.6"]), A, "a.6"),
        ("a.6.x", A, "a.6.x"),  # of an earlier version
        ("a.6.x b.7.x", A, None),
        ("a.6.x b.7.x", B, "a.6.x b.7.x"),
        (" ".join(f".{length}" for length in range(100, 160)), A, None),  # it has an end
    ],
)
def test_record(record: str, new: Fingerprint, after: str | None) -> None:
    if after is not None:
        assert followed(record, new) == after
        return
    with pytest.raises(RuleError):
        followed(record, new)


# --- Reload -----------------------------------------------------------------------------------------------------------


async def reload(world: World, folder: Path, **rules: str) -> None:
    path = folder / "rules.toml"
    path.write_text("offset = 0\n" + "".join(f'[[rule]]\nname = "{name}"\n{text}\n' for name, text in rules.items()))
    await world.service.reload(load(path))


@pytest.mark.parametrize("other", ['kind = "snowflake"\nsequence_bits = 10', PLAIN, 'kind = "uuid7"'])
@pytest.mark.parametrize("names", ["xs", "sx"])
@in_a_world
async def test_reload_that_is_refused_changes_nothing(world: World, tmp_path: Path, other: str, names: str) -> None:
    """A rule that was away for one reload came back as another: half of the reload was done, and it ended nowhere."""
    await reload(world, tmp_path, x=DAY, s='kind = "snowflake"')
    for name in names:
        await world.ask(rule_name=name)
    await reload(world, tmp_path, x=DAY)
    config, reader = world.service.config, world.service.reader
    with pytest.raises(RuleError, match="'s': its kind has changed"):
        await reload(world, tmp_path, x='template = "N{counter:06}"', s=other)
    assert (world.service.config, world.service.reader) == (config, reader)
    assert (await world.ask(rule_name="x"))["data"].endswith("000001")


@in_a_world
async def test_start_with_a_changed_rule_refuses_its_numbers_and_no_others(world: World, tmp_path: Path) -> None:
    await reload(world, tmp_path, x=DAY, y=DAY)
    for name in ("x", "y"):
        await world.ask(rule_name=name)
    world.service.counters.loaded.clear()  # as a crash does
    await reload(world, tmp_path, x=DAY + SHANGHAI, y=DAY)
    reply = await world.ask(rule_name="x")
    assert (reply["code"], reply["message"][:27]) == (-1, "system error: its text, cyc")
    assert (await world.ask(rule_name="x", app_name="new"))["code"] == 0, "a name that has no numbers yet"
    assert (await world.ask(rule_name="y"))["code"] == 0


@in_a_world
async def test_reload_while_the_store_fails(world: World, tmp_path: Path) -> None:
    """Nobody knows what a range that failed has made durable."""
    await reload(world, tmp_path, x=PLAIN)
    assert (await world.ask(rule_name="x"))["data"] == "000000"
    await reload(world, tmp_path, x='template = "N{counter:06}"')
    world.store.error = StorageError("storage: gone")
    assert (await world.ask(rule_name="x"))["code"] == -3
    with pytest.raises(RuleError, match="'x': its text"):
        await reload(world, tmp_path, x=PLAIN)
    world.store.error = None
