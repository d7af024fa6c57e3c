"""The times of a schedule: the next one after a moment, and the latest one before.

Moments are nanoseconds of UTC since 1970. A cron expression speaks of local times, of which a change of the clocks
leaves some out and gives others twice. What becomes of these is Debian's rule (cron(8)), in both directions:

- *By the clock*, where minute and hour don't begin with `*`: what falls into a gap is due once, at the end of the gap;
  of a time that there is twice only the first counts.
- *By the interval*: real time goes on. What isn't there is not due, and what is there twice is due twice.

Within a stretch of one offset local time is real time and a constant, so a search looks for the next local time, and
then whether the offset changes before it is there. If it does, the search goes on from the change.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from beanpole.schedules.cron import NEVER, Cron

SECOND_NS = 1_000_000_000
DAY_S = 86_400
END_NS = 7_258_118_400 * SECOND_NS
"""2200-01-01, beyond which nothing is due: nanoseconds of 64 bits end in 2262."""


class Times(Protocol):
    """Some moments, each in nanoseconds."""

    def after(self, at_ns: int) -> int | None:
        """Return the first moment after one."""

    def until(self, at_ns: int) -> int | None:
        """Return the last moment that is not after one."""


@dataclass(frozen=True, slots=True)
class Once:
    """`at:`: one moment."""

    at_ns: int

    def after(self, at_ns: int) -> int | None:
        return self.at_ns if at_ns < self.at_ns else None

    def until(self, at_ns: int) -> int | None:
        return self.at_ns if at_ns >= self.at_ns else None


@dataclass(frozen=True, slots=True)
class Every:
    """`every:`: moments at one distance, of which one is known."""

    interval_ns: int
    origin_ns: int

    def after(self, at_ns: int) -> int | None:
        return at_ns + self.interval_ns - (at_ns - self.origin_ns) % self.interval_ns

    def until(self, at_ns: int) -> int | None:
        return at_ns - (at_ns - self.origin_ns) % self.interval_ns


@dataclass(frozen=True, slots=True)
class InUtc:
    """`cron:` in UTC, where no clock changes."""

    cron: Cron

    def after(self, at_ns: int) -> int | None:
        found = self.cron.first_from(at_ns // SECOND_NS + 1)
        return None if found == NEVER else found * SECOND_NS

    def until(self, at_ns: int) -> int | None:
        found = self.cron.last_until(at_ns // SECOND_NS)
        return None if found == NEVER else found * SECOND_NS


@dataclass(frozen=True, slots=True)
class InZone:
    """`cron:` in a zone. Within, moments are whole seconds."""

    cron: Cron
    zone: tzinfo

    def after(self, at_ns: int) -> int | None:
        cron, at = self.cron, at_ns // SECOND_NS + 1
        if cron.by_clock:  # the search may begin at the end of a gap, where what it swallowed is due
            before, behind = self.offset(at - 1), self.offset(at)
            if before < behind and cron.first_from(at + before) < at + behind:
                return at * SECOND_NS
        while True:
            offset, is_second = self.local(at)
            if is_second and cron.by_clock:
                change = self.change(at - DAY_S, at)
                at = change + self.offset(change - 1) - offset  # where local time goes on
                continue
            local = cron.first_from(at + offset)
            if local == NEVER:
                return None
            found = local - offset
            seen = min(found, at + DAY_S)
            if self.offset(seen) != offset:
                # No time of the expression stands before the change, for `seen` is not behind `found`.
                change = self.change(at, seen)
                if cron.by_clock and local < change + self.offset(change):
                    return change * SECOND_NS
                at = change
            elif seen == found:
                return found * SECOND_NS
            else:
                at = max(seen, found - DAY_S)  # nothing lies between, and a change is looked for within a day only

    def until(self, at_ns: int) -> int | None:
        cron, at = self.cron, at_ns // SECOND_NS
        while True:
            offset, is_second = self.local(at)
            if is_second and cron.by_clock:
                at = self.change(at - DAY_S, at) - 1
                continue
            local = cron.last_until(at + offset)
            if local == NEVER:
                return None
            found = local - offset
            seen = max(found, at - DAY_S)
            if self.offset(seen) != offset:
                change = self.change(seen, at)
                before = self.offset(change - 1)
                if cron.by_clock and before < offset and cron.last_until(change + offset - 1) >= change + before:
                    return change * SECOND_NS
                at = change - 1
            elif seen == found:
                if not (cron.by_clock and self.local(found)[1]):
                    return found * SECOND_NS
                at = found
            else:
                at = min(seen, found + DAY_S)

    def local(self, at: int) -> tuple[int, bool]:
        """Return the offset of local time at a moment, in seconds, and whether it shows a time for the second time."""
        shown = datetime.fromtimestamp(at, self.zone)
        return seconds(shown.utcoffset()), shown.fold == 1

    def offset(self, at: int) -> int:
        """Return the offset of local time at a moment, in seconds."""
        return seconds(datetime.fromtimestamp(at, self.zone).utcoffset())

    def change(self, first: int, last: int) -> int:
        """Return the first moment after `first` with the offset of `last`, which is another than that of `first`."""
        wanted = self.offset(last)
        while last - first > 1:
            middle = (first + last) // 2
            if self.offset(middle) == wanted:
                last = middle
            else:
                first = middle
        return last


def seconds(offset: timedelta | None) -> int:
    """Return an offset in seconds."""
    return 0 if offset is None else offset.days * DAY_S + offset.seconds


def moment_ns(local: datetime, zone: tzinfo) -> int:
    """Return the moment of a local time, by the clock: that of a gap is its end, of two the first counts."""
    before = seconds(local.replace(tzinfo=zone, fold=0).utcoffset())
    behind = seconds(local.replace(tzinfo=zone, fold=1).utcoffset())
    found = round((local - EPOCH) / MICROSECOND) * 1_000 - before * SECOND_NS
    if before < behind:  # a gap, which ends less than its length before
        at = found // SECOND_NS
        return InZone(EVERY_MINUTE, zone).change(at - (behind - before), at) * SECOND_NS
    return found


EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local time
MICROSECOND = timedelta(microseconds=1)
EVERY_MINUTE = Cron("* * * * *")


@dataclass(frozen=True, slots=True)
class Timing:
    """When a schedule is due: its moments from a start to an end, both of which may be moments themselves."""

    times: Times
    start_ns: int = 0
    end_ns: int = END_NS

    def after(self, at_ns: int) -> int | None:
        """Return the first moment after one; None: nothing is left."""
        found = self.times.after(max(at_ns, self.start_ns - 1))
        return None if found is None or found > self.end_ns else found

    def until(self, at_ns: int) -> int | None:
        """Return the last moment that is not after one; None: there was none yet."""
        found = self.times.until(min(at_ns, self.end_ns))
        return None if found is None or found < self.start_ns else found
