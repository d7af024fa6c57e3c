"""Cycles: counting starts again each year, month, week, day, hour or number of seconds, in a time zone.

A cycle is named by the second at which it starts. It is computed from the local time that a number shows, not from
seconds alone: where clocks go back, the local hour that comes twice belongs to the cycle that it named first. So two
moments whose numbers show the same time are never in two cycles. Pure: the time is an argument.
"""

import calendar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

UNITS: Final = ("never", "year", "month", "week", "day", "hour", "seconds")
"""What a cycle can be; `seconds` comes with their number. A week is that of ISO 8601: it begins on Monday."""

DAY_S: Final = 86_400
HOUR_S: Final = 3_600

LENGTHS_S: Final = {"week": 7 * DAY_S, "day": DAY_S, "hour": HOUR_S}
"""How long a unit is on the clock of the wall, where that is always the same."""


class Cycle:
    """A rule's cycle."""

    def __init__(self, unit: str, seconds: int, zone: tzinfo, kind: str = "") -> None:
        assert unit in UNITS, f"{unit} is no unit of a cycle"
        assert (seconds > 0) == (unit == "seconds"), "only a cycle of seconds has a number of them"
        self.unit = unit
        self.seconds = seconds
        self.zone = zone
        self.kind = kind or (f"{unit} {seconds} {zone}" if seconds else f"{unit} {zone}")
        self._cached = (-1, 0)

    def local(self, now_s: int) -> datetime:
        """Return the local time that a number of this moment shows."""
        return datetime.fromtimestamp(now_s, self.zone)

    def start_s(self, now_s: int) -> int:
        """Return the second at which the cycle of a moment started; 0 if counting never starts again."""
        if self.unit == "never":
            return 0
        if self._cached[0] == now_s:
            return self._cached[1]
        local = self.local(now_s)
        start = self._first_moment(self._floor(local.replace(tzinfo=None, fold=0)), now_s)
        self._cached = (now_s, start)
        return start

    def end_s(self, now_s: int) -> int | None:
        """Return the second at which the next cycle starts; None if there is none."""
        if self.unit == "never":
            return None
        floor = self._floor(self.local(now_s).replace(tzinfo=None, fold=0))
        if self.unit == "year":
            after = floor.replace(year=floor.year + 1)
        elif self.unit == "month":
            after = (floor + timedelta(days=32)).replace(day=1)
        else:
            after = floor + timedelta(seconds=LENGTHS_S.get(self.unit, self.seconds))
        return int(after.replace(tzinfo=self.zone).timestamp())

    def _floor(self, local: datetime) -> datetime:
        """Return the local time with which the cycle of a local time begins; both without their zone."""
        if self.unit == "year":
            return local.replace(month=1, day=1, hour=0, minute=0, second=0)
        if self.unit == "month":
            return local.replace(day=1, hour=0, minute=0, second=0)
        if self.unit in {"week", "day"}:
            begun = timedelta(days=local.weekday() if self.unit == "week" else 0)
            return local.replace(hour=0, minute=0, second=0) - begun
        if self.unit == "hour":
            return local.replace(minute=0, second=0)
        shown_s = calendar.timegm(local.timetuple())
        return datetime.fromtimestamp(shown_s - shown_s % self.seconds, UTC).replace(tzinfo=None, fold=0)

    def _first_moment(self, local: datetime, now_s: int) -> int:
        """Return when clocks showed a local time first; one that was skipped counts from before the gap."""
        first = int(local.replace(tzinfo=self.zone).timestamp())
        return first if first <= now_s else int(local.replace(tzinfo=self.zone, fold=1).timestamp())
