"""Cycles: where they begin and end in local time, and that no number comes twice over their ends."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.sequence import Key
from tests.unit.counter import next_number
from tests.unit.rules.test_reader import rule

FOLD_S = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp())
"""When clocks go back in Europe, and in Troll by two hours."""

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp())


@pytest.mark.parametrize(
    ("unit", "seconds", "now", "start", "end"),
    [
        ("day", 0, "2026-03-29 12:00", "2026-03-29 00:00", "2026-03-30 00:00"),
        ("day", 0, "2026-10-25 00:30", "2026-10-25 00:00", "2026-10-26 00:00"),
        ("month", 0, "2026-12-31 23:59:59", "2026-12-01 00:00", "2027-01-01 00:00"),
        ("year", 0, "2026-12-31 23:59:59", "2026-01-01 00:00", "2027-01-01 00:00"),
        ("year", 0, "2028-02-29 12:00", "2028-01-01 00:00", "2029-01-01 00:00"),
        ("week", 0, "2026-03-29 23:59:59", "2026-03-23 00:00", "2026-03-30 00:00"),
        ("week", 0, "2026-10-26 00:00", "2026-10-26 00:00", "2026-11-02 00:00"),
        ("week", 0, "2024-12-30 00:00", "2024-12-30 00:00", "2025-01-06 00:00"),
        ("week", 0, "2027-01-03 23:59:59", "2026-12-28 00:00", "2027-01-04 00:00"),
        ("hour", 0, "2026-03-29 03:10", "2026-03-29 03:00", "2026-03-29 04:00"),
        ("seconds", 600, "2026-03-29 03:19", "2026-03-29 03:10", "2026-03-29 03:20"),
        ("seconds", 86_400, "2026-07-01 00:30", "2026-07-01 00:00", "2026-07-02 00:00"),
    ],
)
def test_cycle_follows_local_time(unit: str, seconds: int, now: str, start: str, end: str) -> None:
    """Hole 8: the cycle followed standard time, and for an hour in summer the new date had the old day's counter."""
    cycle = Cycle(unit, seconds, BERLIN)
    assert cycle.start_s(at(now)) == at(start)
    assert cycle.end_s(at(now)) == at(end)


def test_hour_that_comes_twice_is_one_cycle() -> None:
    cycle = Cycle("hour", 0, BERLIN)
    assert cycle.start_s(at("2026-10-25 02:30", fold=1)) == at("2026-10-25 02:00")
    assert cycle.start_s(at("2026-10-25 02:30", fold=1)) == cycle.start_s(at("2026-10-25 02:30"))
    assert cycle.start_s(at("2026-10-25 03:00")) == at("2026-10-25 03:00")


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "Asia/Shanghai", "America/Havana", "Antarctica/Troll", "Asia/Kolkata"]
)
@settings(deadline=None)  # machines are shared
@given(
    unit=st.sampled_from(
        [("day", 0), ("hour", 0), ("year", 0), ("month", 0), ("week", 0), ("seconds", 60), ("seconds", 7000)]
    ),
    first=st.integers(1_700_000_000, 1_900_000_000) | st.integers(-90_000, 9_000).map(lambda each: FOLD_S + each),
    between=st.integers(0, 200_000),
)
def test_moments_that_look_alike_are_of_one_cycle(zone: str, unit: tuple[str, int], first: int, between: int) -> None:
    cycle = Cycle(*unit, ZoneInfo(zone))
    second = first + between
    if cycle.local(first).replace(tzinfo=None) == cycle.local(second).replace(tzinfo=None):
        assert cycle.start_s(first) == cycle.start_s(second)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Havana", "Pacific/Auckland"])
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ('template = "{year:04}-{counter:04}"\ncycle = "year"', lambda local: (local.month, local.day) == (1, 1)),
        ('template = "{week_year:04}W{week:02}-{counter:04}"\ncycle = "week"', lambda local: local.weekday() == 0),
        ('template = "{year:02}{yday:03}-{counter:04}"\ncycle = "week"', lambda local: local.weekday() == 0),
    ],
)
def test_long_cycles_begin_where_they_should_and_no_number_comes_twice(
    tmp_path: Path, text: str, begins: Callable[[datetime], bool], zone: str
) -> None:
    """An hour is a step, through the ends of all kinds of years: 52 and 53 weeks, leap years, clocks that change."""
    made_by = rule(tmp_path, f'{text}\ntime_zone = "{zone}"\nbatch = 1')
    seen: set[str] = set()
    counter = made_by.counting.counter(Key(b"r", b""), None, 0)
    for year in range(2024, 2038):
        first_s = int(datetime(year, 12, 20, tzinfo=UTC).timestamp())
        day = made_by.cycle.local(first_s).date()
        cycle_s = counter.open(first_s) and counter.cycle_s
        for now_s in range(first_s, first_s + 25 * 86_400, 3_600):
            local = made_by.cycle.local(now_s)
            time_s = counter.open(now_s)
            assert (counter.cycle_s != cycle_s) == (local.date() != day and begins(local)), local
            cycle_s, day = counter.cycle_s, local.date()
            counter.need(1)
            wanted = counter.plan()
            if wanted is not None:
                counter.confirm(wanted)
            value = next_number(counter)
            (made,), _ = made_by.make(value, 1, 1, time_s, b"")
            assert made not in seen
            seen.add(made)
