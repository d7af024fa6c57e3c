"""Numbers that begin with the time: what they are made of, and that no clock makes one come again."""

import asyncio
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from uuid import RFC_4122, UUID

import pytest

from beanpole_ids.config import load
from beanpole_ids.errors import ClockBehindError, NeedRangeError, RuleError, RuleFailedError
from beanpole_ids.hand import Mark
from beanpole_ids.rules.rule import Rule, preview
from beanpole_ids.rules.sequence import Counter, Key
from beanpole_ids.rules.timed import CROCKFORD, Timing
from tests.unit.counter import next_number
from tests.unit.test_service import World, settle

KEY = Key(b"r", b"")
NOW_S = datetime(2026, 11, 20, 4, 5, 6, 789_000, tzinfo=UTC).timestamp()
EPOCH_MS = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp() * 1000)
KINDS = ("snowflake", "uuid7", "ulid")


def read(folder: Path, text: str, more: str = "offset = 0") -> Rule:
    path = folder / "rules.toml"
    path.write_text(f'{more}\n[[rule]]\nname = "r"\n{text}\n')
    return load(path).rules["r"]


def timing(made_by: Rule) -> Timing:
    assert isinstance(made_by.counting, Timing)
    return made_by.counting


def some(made_by: Rule, count: int = 3, now_s: float = NOW_S, beyond: int = 0) -> list[str]:
    """The first numbers of a moment, or those `beyond` them."""
    numbers, _ = made_by.make(made_by.counting.first(now_s) + beyond, count, count, int(now_s), b"salt")
    return numbers


def ulid_value(text: str) -> int:
    value = 0
    for character in text:
        value = value * 32 + CROCKFORD.index(character)
    return value


# --- What they are made of --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "bits", "unit_ms", "epoch_ms"),
    [
        ("", (41, 10, 12), 1, EPOCH_MS),
        ("time_bits = 39\nnode_bits = 16\nsequence_bits = 8\nunit_ms = 10", (39, 16, 8), 10, EPOCH_MS),
        ("node_bits = 5\nsequence_bits = 7\nepoch = 1288834974657", (41, 5, 7), 1, 1_288_834_974_657),
        ("epoch = 2024-02-29", (41, 10, 12), 1, int(datetime(2024, 2, 29, tzinfo=UTC).timestamp() * 1000)),
    ],
)
def test_snowflake(tmp_path: Path, text: str, bits: tuple[int, int, int], unit_ms: int, epoch_ms: int) -> None:
    made_by = read(tmp_path, f'kind = "snowflake"\n{text}', "step = 32\noffset = 21")
    time_bits, node_bits, sequence_bits = bits
    for sequence, number in enumerate(map(int, some(made_by))):
        assert number < 2 ** sum(bits)
        assert number & (1 << sequence_bits) - 1 == sequence
        assert number >> sequence_bits & (1 << node_bits) - 1 == 21
        assert number >> sequence_bits + node_bits == (int(NOW_S * 1000) - epoch_ms) // unit_ms
    last = int(preview(made_by, int(NOW_S))["last"])
    assert last >> sequence_bits + node_bits == (1 << time_bits) - 1


def test_two_nodes_make_different_snowflakes(tmp_path: Path) -> None:
    nodes = [read(tmp_path, 'kind = "snowflake"', f"step = 2\noffset = {offset}") for offset in (0, 1)]
    given = [int(number) for node in nodes for number in some(node, 5000)]
    assert len(set(given)) == 10_000


def test_uuid7(tmp_path: Path) -> None:
    texts = some(read(tmp_path, 'kind = "uuid7"'), 5000)
    assert texts == sorted(set(texts))
    for position, text in enumerate(texts):
        made = UUID(text)
        assert (str(made), made.version, made.variant) == (text, 7, RFC_4122)
        assert made.int >> 80 == int(NOW_S * 1000) + position // 4096
        assert made.int >> 64 & 0xFFF == position % 4096
    chances = {UUID(text).int & (1 << 62) - 1 for text in texts}
    assert len(chances) == 5000
    assert max(chances) >> 61 == 1


def test_ulid(tmp_path: Path) -> None:
    made_by = read(tmp_path, 'kind = "ulid"')
    texts = some(made_by, 1000)
    assert texts == sorted(set(texts))
    values = [ulid_value(text) for text in texts]
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", text) for text in texts)
    assert {value >> 80 for value in values} == {int(NOW_S * 1000)}
    assert [after - value for value, after in pairwise(values)] == [1] * 999
    later = ulid_value(some(made_by, 1, NOW_S + 0.001)[0])
    assert later >> 80 == int(NOW_S * 1000) + 1
    assert later & (1 << 80) - 1 != values[0] & (1 << 80) - 1


def test_ulid_of_another_process_has_other_chance(tmp_path: Path) -> None:
    assert not set(some(read(tmp_path, 'kind = "ulid"'))) & set(some(read(tmp_path, 'kind = "ulid"')))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('kind = "cuid"', "there is no kind 'cuid'"),
        ('kind = "snowflake"\ntime_bits = 42', "63 at most"),
        ('kind = "snowflake"\nsequence_bits = -1', "none negative"),
        ('kind = "snowflake"\ntime_bits = 0', "63 at most"),
        ('kind = "snowflake"\nnode_bits = 0', "2 nodes need more than 0 node_bits"),
        ('kind = "snowflake"\nunit_ms = 0', "unit_ms"),
        ('kind = "snowflake"\nepoch = "2020-01-01"', "epoch must be a date"),
        ('kind = "snowflake"\nepoch = -1', "epoch must be a date"),
        ('kind = "snowflake"\ntime_bits = 30', "run out"),
        ('kind = "uuid7"\nepoch = 2020-01-01', "unknown key 'epoch'"),
        ('kind = "uuid7"\ntime_zone = "UTC"', "unknown key 'time_zone'"),
        ('kind = "uuid7"\nbatch = 10', "unknown key 'batch'"),
        ('kind = "ulid"\nreserve_s = 0', "reserve_s must be"),
        ('kind = "ulid"\ntemplate = "{counter:03}"', "unknown key 'template'"),
    ],
)
def test_rule_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(RuleError, match=re.escape(reason)):
        read(tmp_path, text, "step = 2")


# --- Clocks -----------------------------------------------------------------------------------------------------------


def reserve(counter: Counter) -> None:
    mark = counter.plan()
    assert mark
    counter.confirm(mark)


def test_before_the_epoch_there_is_no_number(tmp_path: Path) -> None:
    made_by = read(tmp_path, 'kind = "snowflake"\nepoch = 2030-01-01')
    counter = made_by.counting.counter(KEY, None, NOW_S)
    with pytest.raises(ClockBehindError, match="before the rule's epoch"):
        counter.open(NOW_S)
    with pytest.raises(RuleError, match="before the rule's epoch"):
        preview(made_by, int(NOW_S))


def test_restart_after_a_crash_goes_on_above_the_window(tmp_path: Path) -> None:
    """The clock of a machine may be set back while it is off."""
    counting = timing(read(tmp_path, 'kind = "snowflake"\nreserve_s = 2'))
    counter = counting.counter(KEY, None, NOW_S)
    counter.open(NOW_S)
    reserve(counter)
    again = counting.counter(KEY, counter.durable, NOW_S - 86_400)
    again.open(NOW_S - 86_400)
    with pytest.raises(ClockBehindError, match="too far ahead"):
        again.need(1)
    again.open(NOW_S + 0.1)
    again.need(1)
    reserve(again)
    assert next_number(again) > counter.reserved
    assert counting.layout.moment_ms(again.last) == int(NOW_S * 1000) + 2000
    assert again.reserved == counter.reserved + (100 << counting.layout.sequence_bits)


def test_more_than_the_bits_have_is_never_given(tmp_path: Path) -> None:
    counting = timing(read(tmp_path, 'kind = "snowflake"\nsequence_bits = 0\nunit_ms = 1000'))
    counter = counting.counter(KEY, None, NOW_S)
    counter.open(NOW_S)
    with pytest.raises(RuleFailedError, match="count is too large: reserve_s has 10 numbers of this rule"):
        counter.need(11)
    counter.need(10)
    reserve(counter)
    for _ in range(10):
        next_number(counter)
    with pytest.raises(ClockBehindError, match="too far ahead"):
        counter.need(1)
    counter.open(NOW_S + 1)
    counter.need(1)


def test_what_nobody_waits_for_is_reserved_in_large_parts(tmp_path: Path) -> None:
    counting = timing(read(tmp_path, 'kind = "snowflake"'))
    counter = counting.counter(KEY, None, NOW_S)
    counter.open(NOW_S)
    reserve(counter)
    again = counting.counter(KEY, counter.durable, NOW_S)
    again.open(NOW_S + 1)
    again.need(1)
    reserve(again)
    commits = 0
    for ms in range(1_000, 11_000):
        again.open(NOW_S + ms / 1000)
        if mark := again.plan():
            again.confirm(mark)
            commits += 1
        assert again.available
        next_number(again)
    assert 2 <= commits <= 10


def test_graceful_restart_is_not_ahead(tmp_path: Path) -> None:
    counting = timing(read(tmp_path, 'kind = "ulid"'))
    counter = counting.counter(KEY, None, NOW_S)
    counter.open(NOW_S)
    reserve(counter)
    next_number(counter)
    again = counting.counter(KEY, counter.final_mark(), NOW_S)
    again.open(NOW_S)
    reserve(again)
    assert counting.layout.moment_ms(next_number(again)) == int(NOW_S * 1000) + 1


def test_idle_time_leaves_the_window_behind(tmp_path: Path) -> None:
    counter = timing(read(tmp_path, 'kind = "uuid7"\nreserve_s = 1')).counter(KEY, None, NOW_S)
    counter.open(NOW_S)
    reserve(counter)
    counter.open(NOW_S + 0.4)
    assert counter.available > counter.bounds.low_water
    counter.open(NOW_S + 0.6)
    assert 0 < counter.available < counter.bounds.low_water, "it is time to reserve more, before the window is over"
    counter.open(NOW_S + 60)
    with pytest.raises(NeedRangeError):
        next_number(counter)


def test_a_changed_layout_needs_another_name(tmp_path: Path) -> None:
    counting = timing(read(tmp_path, 'kind = "snowflake"'))
    mark = Mark(0, 17, 0, timing(read(tmp_path, 'kind = "snowflake"\nunit_ms = 10')).layout.kind)
    with pytest.raises(RuleFailedError, match="give it another name"):
        counting.counter(KEY, mark, NOW_S)


# --- Requests ---------------------------------------------------------------------------------------------------------


def test_requests(tmp_path: Path) -> None:
    """All applications of a rule share it; a layout stays what it is."""

    async def story() -> None:
        world = World(tmp_path)
        path = tmp_path / "rules.toml"
        rules = "".join(f'\n[[rule]]\nname = "{kind}"\nkind = "{kind}"\n' for kind in KINDS)
        path.write_text("offset = 0\n" + path.read_text() + rules)
        await world.service.reload(load(path))
        for kind in KINDS:
            given = [(await world.ask(rule_name=kind, app_name=app))["data"] for app in ("a", "b")]
            given += (await world.ask(rule_name=kind, count=1000))["data"]
            assert given == sorted(set(given))
            assert (await world.ask(rule_name=kind, action="monitor"))["data"]["resets_at"] is None
        assert len(world.store.reserves) == 3
        path.write_text(path.read_text().replace('kind = "ulid"', 'kind = "uuid7"'))
        with pytest.raises(RuleError, match="give it another name"):
            await world.service.reload(load(path))
        world.store.marks[Key(b"ulid", b"")] = Mark(0, 17, 0, "day UTC")
        world.service.counters.loaded.clear()
        reply = await world.ask(rule_name="ulid")
        assert (reply["code"], reply["message"][:40]) == (-1, "system error: the rule was 'day UTC' and")
        world.service.counters.begin_stop()
        await settle()
        await world.keeper

    asyncio.run(story())
