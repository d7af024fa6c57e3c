"""Cron expressions: which minutes of which days they name, in local time, and what is none."""

from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from beanpole.errors import ArgumentError
from beanpole.schedules.cron import NEVER, Cron

START = datetime(2026, 1, 1, tzinfo=UTC)


def local_s(text: str) -> int:
    """Return the local seconds of a time."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def shown(local: int) -> str:
    return datetime.fromtimestamp(local, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("5 0 * * *", ["2026-01-01 00:05", "2026-01-02 00:05"]),
        ("15 14 1 * *", ["2026-01-01 14:15", "2026-02-01 14:15"]),
        ("0 22 * * 1-5", ["2026-01-01 22:00", "2026-01-02 22:00", "2026-01-05 22:00"]),
        ("23 0-23/2 * * *", ["2026-01-01 00:23", "2026-01-01 02:23"]),
        ("5 4 * * sun", ["2026-01-04 04:05", "2026-01-11 04:05"]),
        ("0 */4 1 * mon", ["2026-01-01 00:00", "2026-01-01 04:00"]),
        ("30 4 1,15 * 5", ["2026-01-01 04:30", "2026-01-02 04:30", "2026-01-09 04:30", "2026-01-15 04:30"]),
        ("0 0 */2 * 1", ["2026-01-05 00:00", "2026-01-19 00:00", "2026-02-09 00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 12 L * *", ["2026-01-31 12:00", "2026-02-28 12:00", "2026-03-31 12:00"]),
        ("0 12 15,L * *", ["2026-01-15 12:00", "2026-01-31 12:00", "2026-02-15 12:00"]),
        ("0 12 * * FRI#2", ["2026-01-09 12:00", "2026-02-13 12:00"]),
        ("0 12 * * MON#1,5L", ["2026-01-05 12:00", "2026-01-30 12:00", "2026-02-02 12:00"]),
        ("0 12 * * FRI-SUN", ["2026-01-02 12:00", "2026-01-03 12:00", "2026-01-04 12:00", "2026-01-09 12:00"]),
        ("0 0 * feb,Apr 7", ["2026-02-01 00:00", "2026-02-08 00:00"]),
        ("59 23 31 12 *", ["2026-12-31 23:59", "2027-12-31 23:59"]),
        ("@hourly", ["2026-01-01 00:00", "2026-01-01 01:00"]),
        ("@weekly", ["2026-01-04 00:00", "2026-01-11 00:00"]),
        ("@yearly", ["2026-01-01 00:00", "2027-01-01 00:00"]),
    ],
)
def test_expression_names_these_minutes(text: str, times: list[str]) -> None:
    cron = Cron(text)
    found = []
    local = local_s("2026-01-01T00:00:00") - 1
    for _ in times:
        local = cron.first_from(local + 1)
        found.append(shown(local))
    assert found == times


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a cron expression has 5 fields, this one has 0"),
        ("* * * * * *", "has 5 fields, this one has 6"),
        ("@reboot", "nothing of starts"),
        (f"{'1,' * 200}1 * * * *", "the lists of a cron expression have 200 parts at most"),
        ("@often", "it is none of @hourly"),
        ("60 * * * *", "minute: '60' is not a number from 0 to 59"),
        ("* 24 * * *", "hour: '24'"),
        ("* * 0 * *", "day: '0'"),
        ("* * 32 * *", "day: '32'"),
        ("* * * 13 *", "month: '13' is not a number from 1 to 12 or JAN, FEB"),
        ("* * * JUNE *", "month: 'JUNE'"),
        ("* * * * 8", "weekday: '8'"),
        ("5-1 * * * *", "minute: the range '5-1' ends before it begins"),
        ("*-5 * * * *", "minute: '*-5' is no number"),
        ("5/15 * * * *", "minute: a step is of * or of a range: '5/15'"),
        ("*/0 * * * *", "minute: a step is from 1 to 60"),
        ("*/90 * * * *", "minute: a step is from 1 to 60"),
        ("1,,2 * * * *", "minute: '' is no number"),
        ("* * * * FRI#6", "weekday: 'FRI#6' is no number"),
        ("* * * * L", "weekday: 'L' is not a number"),
        ("* * LW * *", "day: 'LW' is not a number"),
        ("٣ * * * *", "minute: '\\u0663' is not a number"),
        ("-1 * * * *", "minute: '-1' is no number"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, why: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        Cron(text)
    assert why in str(refused.value)


def test_an_expression_without_a_day_never_has_a_time() -> None:
    cron = Cron("30 2 30 2 *")
    assert cron.first_from(local_s("2026-01-01T00:00:00")) == NEVER
    assert cron.last_until(local_s("2026-01-01T00:00:00")) == NEVER


def test_only_each_second_week_and_not_on_holidays() -> None:
    first = local_s("2026-01-08T00:00:00") // 86_400  # a Thursday: its week counts
    holiday = local_s("2026-02-06T00:00:00") // 86_400
    cron = Cron("0 9 * * FRI", weeks=2, first_week=first, excepted=frozenset([holiday]))
    found = []
    local = local_s("2026-01-01T00:00:00")
    for _ in range(3):
        local = cron.first_from(local + 1)
        found.append(shown(local))
    assert found == ["2026-01-09 09:00", "2026-01-23 09:00", "2026-02-20 09:00"]


@pytest.mark.parametrize(
    ("text", "by_clock"),
    [("30 2 * * *", True), ("0-59 0-23 * * *", True), ("*/5 2 * * *", False), ("0 */2 * * *", False), ("@daily", True)],
)
def test_by_the_clock_or_by_the_interval(text: str, by_clock: bool) -> None:
    assert Cron(text).by_clock is by_clock


def fields() -> st.SearchStrategy[str]:
    """Return expressions that Debian's cron, cronsim and croniter read in the same way."""

    def field(least: int, most: int) -> st.SearchStrategy[str]:
        number = st.integers(least, most)
        span = st.tuples(number, number).filter(lambda pair: pair[0] < pair[1])
        part = st.one_of(
            number.map(str),
            span.map(lambda pair: f"{pair[0]}-{pair[1]}"),
            st.tuples(span, st.integers(1, 6)).map(lambda each: f"{each[0][0]}-{each[0][1]}/{each[1]}"),
        )
        listed = st.lists(part, min_size=1, max_size=3).map(",".join)
        return st.one_of(st.just("*"), st.integers(2, 6).map(lambda step: f"*/{step}"), listed)

    return st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 6)).map(" ".join)


@settings(max_examples=60)
@given(fields(), st.integers(0, 10 * 366 * 1440))
def test_the_next_minute_is_that_of_cronsim(text: str, minutes: int) -> None:
    cron = Cron(text)
    at = START + timedelta(minutes=minutes)
    expected = CronSim(text, at)
    local = int(at.timestamp())
    for _ in range(5):
        local = cron.first_from(local + 1)
        assert local == int(next(expected).timestamp())


@settings(max_examples=60)
@given(fields().filter(lambda text: text.split()[2] == "*" or text.split()[4] == "*"), st.integers(0, 10 * 366 * 1440))
def test_the_next_minute_is_that_of_croniter(text: str, minutes: int) -> None:
    """Where both fields of days say something, croniter goes by another rule than Debian's cron."""
    cron = Cron(text)
    at = START + timedelta(minutes=minutes)
    expected = croniter(text, at)
    local = int(at.timestamp())
    for _ in range(5):
        local = cron.first_from(local + 1)
        assert local == int(expected.get_next(float))


@given(fields(), st.integers(0, 10 * 366 * 86_400))
def test_the_last_minute_is_found_by_walking(text: str, seconds: int) -> None:
    cron = Cron(text)
    until = int(START.timestamp()) + seconds
    found = cron.last_until(until)
    assert cron.first_from(found) == found <= until
    assert cron.first_from(found + 1) > until
