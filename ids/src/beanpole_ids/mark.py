"""What is durable of a counter. Each one in memory has a mark: its numbers are fields of C. Pure: no I/O, no clock."""

from functools import lru_cache

import cython
from cython.cimports.libc.stdint import int64_t

from beanpole_ids import limits

shared = lru_cache(limits.COMMON_CACHED)(lambda *texts: texts)
"""Returns some texts as one object, the same one each time: many marks have them in common."""


@cython.no_gc  # it refers to texts only
@cython.cclass
class Mark:
    """Every number up to `reserved` may have been handed out; time goes on from `time_s`. A mark does not change."""

    def __cinit__(
        self, cycle_s: int64_t, reserved: int64_t, time_s: int64_t, kind: str, fingerprints: str = ""
    ) -> None:
        self.cycle_s = cycle_s
        self.reserved = reserved
        self.time_s = time_s
        self.texts = shared(kind, fingerprints)

    @property
    def kind(self) -> str:
        """The kind of the cycle; see `Cycles.kind`."""
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
