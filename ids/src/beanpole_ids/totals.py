"""What the counters of a rule have given and have left, all together: for metrics, and lists of rules.

In C, as there may be a hundred thousand of them, and requests wait while they are added up. Pure: the time is an
argument.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t

if TYPE_CHECKING:
    from beanpole_ids.rules.sequence import Counter


@cython.cclass
class Totals:
    """The totals of a rule's counters."""

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
