"""Which number is next: the part of the service that must never repeat one. Pure: no I/O, and the time is an argument.

A counter hands out numbers of ranges that are durably reserved. Its caller does this::

    time_s = counter.open(now_s)          the time that the number shows; begins a new cycle when one is due
    first, left = counter.offer()         the next number, and how many from it on may be handed out
    counter.need(count)                   if these are not enough; or ExhaustedError: wait for the next cycle
    counter.advance(first, used)          they are handed out
    wanted = counter.plan()               at the low-water mark: what to reserve next, or None
    counter.confirm(wanted)               it is durable. Or counter.fail(wanted): perhaps, so plan again

Invariants:

- A number is handed out only if a confirmed range has it. What is durable but not handed out is lost in a crash: a gap.
- (cycle, number) only moves forward, whatever the clock does; a number is never above the maximum.
- Every number is `offset` plus a multiple of `step`; a changed step or offset goes on above what is reserved.
- One range is under way at a time, so that the store sees them in order.
- A number is handed out only if its range says what its text looks like; see `fingerprint`.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from beanpole_ids import limits
from beanpole_ids.errors import ClockAheadError, ExhaustedError, RuleError, RuleFailedError
from beanpole_ids.hand import Bounds, Hand, Mark
from beanpole_ids.rules.cycle import Cycle
from beanpole_ids.rules.fingerprint import Fingerprint, followed


class Key(NamedTuple):
    """Whose counter it is. Bytes, so that no collation makes two names one."""

    rule: bytes
    app: bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """Which numbers a counter has."""

    minimum: int
    maximum: int
    step: int = 1  # distance of two numbers of one node: how many nodes there are
    offset: int = 0  # which of the `step` numbers is this node's: its number, from 0

    def __post_init__(self) -> None:
        if not 0 <= self.minimum < self.maximum <= limits.NUMBER_MAX:
            raise ValueError(f"minimum and maximum must be 0 <= minimum < maximum <= {limits.NUMBER_MAX}")
        if not 1 <= self.step <= limits.STEP_MAX:
            raise ValueError(f"step must be 1 to {limits.STEP_MAX}, not {self.step}")
        if not 0 <= self.offset < self.step:
            raise ValueError(f"offset must be 0 to {self.step - 1} with step {self.step}, not {self.offset}")
        if self.first > self.maximum:
            raise ValueError(f"no number of offset {self.offset} is between {self.minimum} and {self.maximum}")

    @property
    def first(self) -> int:
        """The first number. The minimum doesn't change whose a number is: another one may come with a reload."""
        return self.minimum + (self.offset - self.minimum) % self.step

    def after(self, value: int) -> int:
        """Return the first number above a value."""
        first = self.first
        return first if value < first else value + self.step - (value - first) % self.step

    def remaining(self, value: int) -> int:
        """Return how many numbers there are above a value."""
        return max(0, (self.maximum - self.after(value)) // self.step + 1)


@dataclass(frozen=True, slots=True)
class Counting:
    """How a rule counts."""

    shape: Shape
    cycles: Cycle
    batch: int = limits.BATCH_DEFAULT
    """Numbers of a range; with 1 no more are reserved than requests wait for, and a crash can lose only those."""
    fingerprint: Fingerprint = field(default=Fingerprint(), kw_only=True)  # what the numbers look like

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= limits.BATCH_MAX:
            raise ValueError(f"batch must be 1 to {limits.BATCH_MAX}, not {self.batch}")

    @property
    def layout_kind(self) -> str:
        """What numbers must have in common to be compared; empty for those that are only counted."""
        return ""

    @property
    def crash_cost(self) -> int:
        """How many numbers of a counter a crash leaves as a gap at the most, if each request is for one."""
        return self.batch + max(0, low_water(self.batch))

    def counter(self, key: Key, mark: Mark | None, now_s: float) -> "Counter":
        """Return a counter that counts so, and goes on from a mark."""
        return Counter(key, self, mark, int(now_s))

    def first(self, now_s: float) -> int:  # noqa: ARG002 - only some rules begin with the clock
        """Return the number with which a new counter begins."""
        return self.shape.after(self.shape.minimum - 1)


class Counter(Hand):
    """The numbers of one key on one node. The fields that every request touches are in `Hand`."""

    __slots__ = (
        "attempted", "counting", "durable", "fingerprints", "key", "under_way",
    )  # fmt: skip

    def __init__(self, key: Key, counting: Counting, mark: Mark | None, now_s: int) -> None:
        """Go on from a mark. Raises RuleFailedError: the rule has changed, and numbers could repeat."""
        self.key = key
        self._count(counting)
        self.cycle_s = mark.cycle_s if mark else -1
        self.time_s = mark.time_s if mark else 0
        self.last = self.reserved = mark.reserved if mark else self.shape.minimum - 1
        self.under_way: Mark | None = None  # the range that the store is asked for
        self.durable = mark
        self.attempted: Mark | None = None
        """A range that failed and may be durable nevertheless; the next one must not be below it."""

        try:
            self.fingerprints = self.fingerprints_with(counting)
        except RuleError as error:
            raise RuleFailedError(f"system error: {error}") from error
        if mark:
            self._follow(mark.kind, now_s)

    def fingerprints_with(self, counting: Counting) -> str:
        """Return what a range must say from which numbers of a changed rule are handed out.

        Raises RuleError: the rule must not be taken over, as numbers could repeat.
        """
        if counting.layout_kind != self.counting.layout_kind:
            raise RuleError("its kind has changed, and numbers could repeat; give it another name")
        durable = self.durable.fingerprints if self.durable else ""
        record = self.fingerprints if self.under_way or self.attempted else durable
        return intern(followed(record, counting.fingerprint))

    def change(self, counting: Counting, now_s: float) -> None:
        """Take over a changed rule, which `fingerprints_with` has accepted; numbers go on above what is handed out."""
        fingerprints = self.fingerprints_with(counting)
        if fingerprints != self.fingerprints:
            # What is reserved was so for the old text. The next range says the new one before a number shows it.
            self.fingerprints, self.reserved = fingerprints, self.last
        shape, old = counting.shape, self.shape
        assert (shape.step, shape.offset) == (old.step, old.offset), "a node keeps its numbers"
        kind = self.kind
        self._count(counting)
        self.opened_s = -1
        self._follow(kind, int(now_s))

    def _count(self, counting: Counting) -> None:
        self.counting = counting
        shape = counting.shape
        self.bounds = bounds(shape.first, shape.step, shape.maximum, low_water(counting.batch))
        self.form = self.block = None

    @property
    def shape(self) -> Shape:
        return self.counting.shape

    @property
    def cycles(self) -> Cycle:
        return self.counting.cycles

    @property
    def kind(self) -> str:
        return self.counting.cycles.kind

    def _follow(self, kind: str, now_s: int) -> None:
        """Go on from a cycle of a kind that the rule may have no more."""
        # Starts of two kinds of cycle can't be compared: a month's start is long before that of a day in it. So the
        # current cycle of the new kind inherits what is reserved, and no number of today comes again today.
        if kind != self.kind:
            self.time_s = max(now_s, self.time_s)
            self.cycle_s = self.cycles.start_s(self.time_s)
            for mark in (self.durable, self.attempted):
                if mark:
                    self._skip(mark)

    def open(self, now_s: float) -> int:
        """Begin a new cycle when one is due; return the time that numbers taken now must show.

        A clock that went back does not bring a cycle back: time stands still until it has caught up.
        """
        if (time_s := int(now_s)) == self.opened_s:
            return time_s
        time_s = max(time_s, self.time_s)
        start_s = self.cycles.start_s(time_s)
        if start_s < self.cycle_s:
            return self.time_s
        if start_s > self.cycle_s:
            self.cycle_s = start_s
            self.last = self.reserved = self.shape.minimum - 1
        self.time_s = self.opened_s = time_s
        return time_s

    def need(self, count: int) -> None:
        """Say that callers wait for `count` numbers. Raises ExhaustedError: the cycle has not that many left."""
        if self.shape.remaining(self.last) < count:
            raise ExhaustedError(self.shape.maximum, self.cycles.end_s(self.time_s))
        self.wanted = max(self.wanted, count)

    @property
    def available(self) -> int:
        """How many numbers are reserved and not handed out."""
        return self.offer()[1]

    def plan(self) -> Mark | None:
        """Return what to reserve now, which then is under way; None if nothing needs to be."""
        if self.under_way is not None:
            return None
        assert self.cycle_s >= 0, "open the counter first"
        available = self.available
        if available >= self.wanted and available > self.bounds.low_water:
            return None
        first = self.shape.after(max(self.last, self.reserved))
        if first > self.shape.maximum:
            return None
        count = max(self.counting.batch, self.wanted - available)
        upper = min(first + (count - 1) * self.shape.step, self.shape.maximum)
        for mark in (self.attempted, self.durable):
            if mark and (mark.cycle_s, mark.kind) == (self.cycle_s, self.kind):
                upper = max(upper, mark.reserved)
        self.under_way = Mark(self.cycle_s, upper, self.time_s, self.kind, self.fingerprints)
        return self.under_way

    def confirm(self, mark: Mark) -> None:
        """Use a range: it is durable now."""
        assert mark is self.under_way, "a range is confirmed once, in order"
        self.under_way = self.attempted = None
        self.durable = mark
        self.wanted = 0
        if (mark.cycle_s, mark.kind, mark.fingerprints) == (self.cycle_s, self.kind, self.fingerprints):
            self.reserved = max(self.reserved, mark.reserved)
        elif mark.kind != self.kind:
            self._skip(mark)

    def fail(self, mark: Mark) -> None:
        """Drop a range that may or may not be durable: it is planned again, and reserving it twice does no harm."""
        assert mark is self.under_way, "a range fails once"
        self.under_way = None
        self.attempted = mark
        if mark.kind != self.kind:
            self._skip(mark)

    def _skip(self, mark: Mark) -> None:
        """Go on above a range of another kind of cycle that the row may have."""
        self.last = self.reserved = max(self.last, self.reserved, mark.reserved)

    def final_mark(self) -> Mark | None:
        """Return the mark to write when no more numbers are handed out; None if it is durable. It leaves no gap."""
        assert self.under_way is None, "what is under way may become durable after the rest is given back"
        self.reserved = self.last  # whoever still has this counter gets nothing more of it
        durable = self.durable
        if durable is None or (durable.cycle_s, durable.kind) != (self.cycle_s, self.kind):
            return None
        return None if durable.reserved == self.last else durable.at(self.last, self.time_s)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.last <= max(self.reserved, self.shape.minimum - 1), "a number that is not reserved was handed out"
        self.check_range()

    def check_range(self) -> None:
        """Assert that what is in use is durable."""
        if self.last < self.reserved:
            assert self.durable, "a range is in use and nothing is durable"
            assert self.reserved <= self.durable.reserved, "a range is in use that is not durable"


@lru_cache(limits.COMMON_CACHED)
def bounds(first: int, step: int, maximum: int, low_water: int) -> Bounds:
    """Return the same bounds for the same numbers: many counters have them in common."""
    return Bounds(first, step, maximum, low_water)


def low_water(batch: int) -> int:
    """Return at how many numbers left to reserve more; a batch of 1 is reserved when it is asked for."""
    return batch * limits.LOW_WATER_PERCENT // 100 if batch > 1 else -1


class Clock:
    """Guards against wall clocks that jump.

    Back: time stands still until the clock has caught up; counters need no more. Ahead by more than `ahead_s_max`
    against the monotonic clock: refused, for every date that is printed too early is one that can't be printed again.
    """

    def __init__(self, wall_s: float, monotonic_s: float, ahead_s_max: float = limits.CLOCK_AHEAD_S_MAX) -> None:
        self.ahead_s_max = ahead_s_max
        self.back_count = 0  # readings that were before an earlier one
        self.latest_s = wall_s
        self._anchor_s = wall_s
        self._anchor_monotonic_s = monotonic_s

    def read(self, wall_s: float, monotonic_s: float) -> float:
        """Return the time to use. Raises ClockAheadError: the wall clock has jumped ahead."""
        expected_s = self._anchor_s + (monotonic_s - self._anchor_monotonic_s)
        if wall_s > expected_s + self.ahead_s_max:
            raise ClockAheadError(int(wall_s - expected_s))
        if wall_s < self.latest_s:
            self.back_count += 1
            return self.latest_s
        self._anchor_s, self._anchor_monotonic_s = wall_s, monotonic_s
        self.latest_s = wall_s
        return wall_s

    def accept(self, wall_s: float, monotonic_s: float) -> None:
        """Trust the wall clock, because an operator says that it is right; time still never goes back."""
        self._anchor_s, self._anchor_monotonic_s = wall_s, monotonic_s
        self.latest_s = max(self.latest_s, wall_s)
