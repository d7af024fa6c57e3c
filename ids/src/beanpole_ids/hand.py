"""The part of a counter that every request touches: which number is next, how many are reserved, and taking them.

`rules.sequence.Counter` is a hand that also knows how to reserve. Fields of C, so that a request in C (`fast`) and one
in Python (`service`) work on the same counter. Numbers go up to ``2**63 - 1``, and what comes after such a one has no
sign, so that it is not less than the maximum. Pure: no I/O, no clock.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t


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
    """The numbers of a counter that may be handed out."""

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
