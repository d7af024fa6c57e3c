"""The times of a schedule in zones: what a change of the clocks leaves out and gives twice, forward and backward."""

import random
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim

from beanpole.schedules.cron import Cron
from beanpole.schedules.timing import END_NS, SECOND_NS, Every, InUtc, InZone, Once, Timing, moment_ns
from tests.seeds import seeds

DAY_S = 86_400


def moments(timing: Timing | InZone | InUtc | Every, first: str, zone: str, count: int) -> list[str]:
    """Return the next moments as a clock of the zone shows them."""
    where = ZoneInfo(zone)
    at: int | None = int(datetime.fromisoformat(first).replace(tzinfo=where).timestamp()) * SECOND_NS - 1
    found: list[str] = []
    while at is not None and len(found) < count:
        at = timing.after(at)
        if at is not None:
            found.append(datetime.fromtimestamp(at / SECOND_NS, where).isoformat(timespec="minutes"))
    return found


@pytest.mark.parametrize(
    ("text", "zone", "first", "expected"),
    [
        # A gap, 02:00 to 03:00 on 29 March: by the clock what it swallows is due once, at its end.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T03:00", "2026-03-29T03:00+02:00 2026-03-30T02:30+02:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T03:00", "2026-03-29T03:00+02:00 2026-03-30T02:30+02:00"),
        ("30 3 * * *", "Europe/Berlin", "2026-03-29T03:00", "2026-03-29T03:30+02:00 2026-03-30T03:30+02:00"),
        ("0,30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", "2026-03-29T03:00+02:00 2026-03-30T02:00+02:00"),
        ("0 2-3 * * *", "Europe/Berlin", "2026-03-29T00:00", "2026-03-29T03:00+02:00 2026-03-30T02:00+02:00"),
        # By the interval what is not there is not due.
        ("*/30 2 * * *", "Europe/Berlin", "2026-03-29T00:00", "2026-03-30T02:00+02:00"),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:30", "2026-03-29T01:30+01:00 2026-03-29T03:00+02:00"),
        # A fold, 03:00 to 02:00 on 25 October: by the clock the first counts, by the interval both.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00", "2026-10-25T02:30+02:00 2026-10-26T02:30+01:00"),
        (
            "*/30 2 * * *",
            "Europe/Berlin",
            "2026-10-25T02:30",
            "2026-10-25T02:30+02:00 2026-10-25T02:00+01:00 2026-10-25T02:30+01:00 2026-10-26T02:00+01:00",
        ),
        # Half an hour, at midnight, and a whole day.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-04T02:30+11:00 2026-10-05T02:15+11:00"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00", "2026-04-05T01:45+11:00 2026-04-06T01:45+10:30"),
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", "2026-09-06T01:00-03:00 2026-09-07T00:00-03:00"),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00", "2011-12-31T00:00+14:00 2012-12-30T12:00+14:00"),
        ("*/5 12 30 12 *", "Pacific/Apia", "2011-12-29T00:00", "2012-12-30T12:00+14:00"),
    ],
)
def test_what_a_change_of_the_clocks_does(text: str, zone: str, first: str, expected: str) -> None:
    wanted = expected.split()
    assert moments(InZone(Cron(text), ZoneInfo(zone)), first, zone, len(wanted)) == wanted


def by_definition(cron: Cron, zone: ZoneInfo, first: int, last: int) -> Iterator[int]:
    """Yield the moments from `first` to `last`, minute by minute as the rule says it."""
    before = offset(zone, first - 60)
    for at in range(first, last + 1, 60):
        now = offset(zone, at)
        is_second = datetime.fromtimestamp(at, zone).fold == 1
        named = cron.first_from(at + now) == at + now and not (cron.by_clock and is_second)
        swallowed = cron.by_clock and before < now and cron.first_from(at + before) < at + now
        if named or swallowed:
            yield at
        before = now


def offset(zone: ZoneInfo, at: int) -> int:
    found = datetime.fromtimestamp(at, zone).utcoffset()
    assert found is not None
    return int(found.total_seconds())


def some_expression(chance: random.Random) -> str:
    """Return an expression that often falls into the hours in which clocks change."""

    def field(least: int, most: int) -> str:
        first, last = sorted((chance.randint(least, most), chance.randint(least, most)))
        return chance.choice(["*", f"*/{chance.randint(2, 9)}", str(first), f"{first}-{last}", f"{first},{last}"])

    day = chance.choice(["*", "*", "*", str(chance.randint(1, 28)), "L"])
    weekday = chance.choice(["*", "*", str(chance.randint(0, 6)), f"{chance.randint(0, 6)}#2"])
    return f"{field(0, 59)} {field(0, 4)} {day} * {weekday}"


def changes_of(zone: ZoneInfo) -> list[int]:
    """Return a moment shortly after each change of a zone's clocks in ten years."""
    steps = range(1_577_836_800, 1_577_836_800 + 3_653 * DAY_S, 6 * 3600)
    return [at for at in steps if offset(zone, at) != offset(zone, at - 6 * 3600)]


def compare(zone: ZoneInfo, text: str, change: int) -> None:
    """Search forward and backward over some days around a change, and compare with the definition and with cronsim."""
    cron = Cron(text)
    times = InZone(cron, zone)
    first, last = change - DAY_S, change + 2 * DAY_S
    expected = list(by_definition(cron, zone, first, last))
    forward, backward = [], []
    at = times.after(first * SECOND_NS - 1)
    while at is not None and at <= last * SECOND_NS:
        forward.append(at // SECOND_NS)
        at = times.after(at)
    at = times.until(last * SECOND_NS)
    while at is not None and at >= first * SECOND_NS:
        backward.append(at // SECOND_NS)
        at = times.until(at - 1)
    assert forward == expected, (zone, text, change)
    assert backward[::-1] == expected, (zone, text, change)
    if not any(sign in text for sign in "#L") and is_right_for_cronsim(zone, change):
        assert [
            int(each.timestamp()) for each in until(CronSim(text, datetime.fromtimestamp(first - 1, zone)), last)
        ] == (expected), (zone, text, change)


def until(times: Iterator[datetime], last: int) -> Iterator[datetime]:
    for each in times:
        if each.timestamp() > last:
            return
        yield each


def is_right_for_cronsim(zone: ZoneInfo, change: int) -> bool:
    """Whether cronsim goes by the same rule there.

    It doesn't where an hour is not what changes (Lord Howe, Chatham, Troll), nor at a midnight that is not there
    (Santiago, Beirut, Cairo, Havana, ...).
    """
    before = offset(zone, change - 6 * 3600)
    moved = offset(zone, change) - before
    at = InZone(Cron("* * * * *"), zone).change(change - 6 * 3600, change)
    of_day = (at + before) % DAY_S
    return abs(moved) == 3600 and before % 3600 == 0 and 3600 <= of_day <= 5 * 3600


@pytest.mark.parametrize("seed", seeds(8, "SCHEDULES_SEED"))
def test_every_change_of_clocks_by_the_definition(seed: int) -> None:
    chance = random.Random(seed)
    names = sorted(available_timezones())
    while True:
        zone = ZoneInfo(chance.choice(names))
        if changes := changes_of(zone):
            break
    for _ in range(3):
        compare(zone, some_expression(chance), chance.choice(changes))


@pytest.mark.long
@pytest.mark.parametrize("part", range(16))
def test_ten_years_of_every_zone(part: int) -> None:
    for name in sorted(available_timezones())[part::16]:
        chance = random.Random(name)
        for change in changes_of(ZoneInfo(name)):
            compare(ZoneInfo(name), some_expression(chance), change)


def test_every_counts_from_1970_or_from_its_start() -> None:
    assert Every(7 * SECOND_NS, 0).after(0) == 7 * SECOND_NS
    assert Every(7 * SECOND_NS, 0).after(13 * SECOND_NS + 1) == 14 * SECOND_NS
    assert Every(7 * SECOND_NS, 0).until(13 * SECOND_NS) == 7 * SECOND_NS
    timing = Timing(Every(10 * SECOND_NS, 103 * SECOND_NS), 103 * SECOND_NS, 123 * SECOND_NS)
    assert timing.after(0) == 103 * SECOND_NS
    assert timing.after(103 * SECOND_NS) == 113 * SECOND_NS
    assert timing.after(123 * SECOND_NS) is None
    assert timing.until(500 * SECOND_NS) == 123 * SECOND_NS
    assert timing.until(102 * SECOND_NS) is None


def test_once() -> None:
    timing = Timing(Once(5), 0, END_NS)
    assert [timing.after(4), timing.after(5), timing.until(4), timing.until(5)] == [5, None, None, 5]


@pytest.mark.parametrize(
    ("local", "moment"),
    [
        ("2026-03-29T02:30:00", "2026-03-29T03:00:00+02:00"),  # the end of the gap
        ("2026-10-25T02:30:00", "2026-10-25T02:30:00+02:00"),  # the first of two
        ("2026-07-01T12:00:00.25", "2026-07-01T12:00:00.25+02:00"),
    ],
)
def test_a_local_time_is_one_moment(local: str, moment: str) -> None:
    found = moment_ns(datetime.fromisoformat(local), ZoneInfo("Europe/Berlin"))
    assert found == round(datetime.fromisoformat(moment).timestamp() * 1000) * 1_000_000
