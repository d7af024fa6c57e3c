"""The core of a counter, in C: its durable mark, which number is next, taking it, and the totals of many counters.

`rules.sequence.Counter` is a hand that also knows how to reserve. Fields of C, so that a request in C (`fast`) and one
in Python (`service`) work on the same counter, and a hundred thousand of them take little memory. Numbers go up to
``2**63 - 1``, and what comes after such a one has no sign, so that it is not less than the maximum. Pure: no I/O, and
the time is an argument.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole_ids import limits

if TYPE_CHECKING:
    from beanpole_ids.rules.sequence import Counter

shared = lru_cache(limits.COMMON_CACHED)(lambda *texts: texts)
"""Returns some texts as one object, the same one each time: many marks have them in common."""


@cython.no_gc  # it refers to texts only
@cython.cclass
class Mark:
    """What is durable of a counter. It does not change.

    Every number up to `reserved` may have been handed out; time goes on from `time_s`.
    """

    def __cinit__(
        self, cycle_s: int64_t, reserved: int64_t, time_s: int64_t, kind: str, fingerprints: str = ""
    ) -> None:
        self.cycle_s = cycle_s
        self.reserved = reserved
        self.time_s = time_s
        self.texts = shared(kind, fingerprints)

    @property
    def kind(self) -> str:
        """The kind of the cycle; see `Cycle.kind`."""
        return self.texts[0]

    @property
    def fingerprints(self) -> str:
        """What numbers have looked like so far; see `fingerprint`."""
        return self.texts[1]

    def __eq__(self, other: object, /) -> bool:
        return isinstance(other, Mark) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash(self.values())

    def __repr__(self) -> str:
        return f"Mark{self.values()}"

    def values(self) -> tuple[int, int, int, str, str]:
        """Return what it consists of, in the order in which it is made."""
        return self.cycle_s, self.reserved, self.time_s, self.kind, self.fingerprints

    def at(self, reserved: int64_t, time_s: int64_t) -> "Mark":
        """Return one that has reserved up to another number."""
        return Mark(self.cycle_s, reserved, time_s, self.kind, self.fingerprints)

    def may_follow(self, old: "Mark") -> bool:
        """Return whether this may be written over an older mark: (cycle, number) only moves forward.

        Starts of two kinds of cycle can't be compared, but a new cycle begins after all that the old mark has seen.
        """
        if self.kind == old.kind:
            return (self.cycle_s, self.reserved) >= (old.cycle_s, old.reserved)
        return self.reserved >= old.reserved or self.cycle_s > old.time_s


@cython.cclass
class Bounds:
    """Which numbers a counter has, and when it needs more. They don't change."""

    def __cinit__(self, first: int64_t, step: int64_t, maximum: int64_t, low_water: int64_t) -> None:
        self.first = first
        self.step = step
        self.maximum = maximum
        self.low_water = low_water


NOTHING = cython.declare(Bounds, Bounds(0, 1, 0, 0))


@cython.cclass
class Hand:
    """The numbers of a counter that may be handed out: the part of it that every request touches."""

    def __cinit__(self) -> None:
        self.bounds = NOTHING
        self.opened_s = -1

    def following(self):
        """Return the next number, whether it is reserved or not."""
        if self.last < self.bounds.first:
            return self.bounds.first
        last: uint64_t = self.last
        first: uint64_t = self.bounds.first
        step: uint64_t = self.bounds.step
        return last + step - (last - first) % step

    def left_from(self, first):
        """Return how many numbers from one on are reserved."""
        if self.reserved < 0:
            return 0
        upper: uint64_t = min(self.bounds.maximum, self.reserved)
        step: uint64_t = self.bounds.step
        return (upper - first) // step + 1 if first <= upper else 0

    def give(self, first, used, count):
        """Record that an answer has `count` numbers, which were made of `used` counters from `first` on."""
        self.last = cython.cast(int64_t, first) + (used - 1) * self.bounds.step
        self.answered_count += 1
        self.given_count += count

    def offer(self) -> tuple[int, int]:
        """Return the next number, and how many from it on are reserved: 0 if it is not reserved itself."""
        first: uint64_t = self.following()
        return first, self.left_from(first)

    def advance(self, first: int64_t, used: int64_t) -> None:
        """Record that numbers of an offer are handed out: the first one and those after it."""
        self.last = first + (used - 1) * self.bounds.step


@cython.cclass
class Totals:
    """What the counters of a rule have given and have left, all together: for metrics, and lists of rules.

    In C, as requests wait while they are added up.
    """

    def __init__(self, answered: int64_t = 0, given: int64_t = 0) -> None:
        """`answered`, `given`: those of counters that are in memory no more."""
        self.answered = answered
        self.given = given

    @property
    def least(self) -> int | None:
        """Numbers left in the cycle to the counter that has the fewest; None: there is no counter."""
        return self.least_left if self.counters else None

    def count(self, hand):
        """Add a counter. One that is unused in the present cycle has all its numbers left."""
        is_current: cython.bint = self.start_s <= hand.cycle_s
        following: uint64_t = hand.following() if is_current else hand.bounds.first
        maximum: uint64_t = hand.bounds.maximum
        left: uint64_t = 0
        if following <= maximum:
            left = (maximum - following) // cython.cast(uint64_t, hand.bounds.step) + 1
        self.answered += hand.answered_count
        self.given += hand.given_count
        if is_current:
            self.held += hand.left_from(following)
        self.exhausted += left == 0
        if not self.counters or left < self.least_left:
            self.least_left = left
        self.counters += 1
        return 0


def add(totals: dict[bytes, Totals], counters: "Iterable[Counter | None]", now_s: int64_t) -> None:
    """Add counters to the totals of their rules. All counters of a rule have the same cycles."""
    found: Totals
    for counter in counters:
        if counter is None:
            continue
        rule: bytes = counter.key.rule
        found = totals.get(rule)
        if found is None:
            found = totals[rule] = Totals()
        if not found.counters:
            found.start_s = counter.cycles.start_s(now_s)
        found.count(counter)
