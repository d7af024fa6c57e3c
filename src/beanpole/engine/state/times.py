"""What is counted and timed, by tube and over all: how long jobs wait and are held, and what extensions did.

A histogram says how many numbers lie between fixed bounds, and the sum of all. What counts costs a few instructions: a
table says by the length of a number in bits which of the bounds come before it for certain, and one comparison says the
rest. Bounds in steps of 1, 2.5 and 5 allow that: no two of them have the same length. A number that is equal to a bound
counts below it, as Prometheus has it.

All of it counts since the process started, and nothing of it is kept in a log. What counts is in ``queue.pxd``, for
it happens with every job. A tube has times of its own from the first thing that is timed in it, while not too many
others have; the server's count every job besides, so that they never fall, whatever tube is forgotten.

Few tubes count what extensions do, so a tube has no place for it: the engine keeps a tally for those that do, for as
long as they live.
"""

import cython
from cython.cimports.beanpole.protocol.replies import put_number
from cython.cimports.libc.stdint import UINT64_MAX, uint64_t

from beanpole.engine import limits

SECOND_US = 1_000_000


def steps(first: int, last: int) -> tuple[int, ...]:
    """Return bounds from `first`, a power of ten, to `last`."""
    found = [first]
    while found[-1] < last:
        found += [found[-1] * 5 // 2, found[-1] * 5, found[-1] * 10]
    return tuple(each for each in found if each <= last)


BOUNDS = {
    "job": (*steps(100, 50_000 * SECOND_US), 86_400 * SECOND_US),
    "turn": steps(10, 10 * SECOND_US),
    "commands": tuple(1 << power for power in range(17)),
}
"""The bounds of each Unit, in its order: microseconds, and commands."""

scales = cython.declare(Scale[3])


def fill_scales():
    """Copy the bounds into C memory, and make the table of each scale."""
    unit: cython.int
    bits: cython.int
    i: cython.int
    for unit, bounds in enumerate(BOUNDS.values()):
        scales[unit].count = len(bounds)
        for i, bound in enumerate(bounds):
            scales[unit].bounds[i] = bound
        scales[unit].bounds[len(bounds)] = UINT64_MAX
        for bits in range(65):
            scales[unit].first[bits] = sum(1 for bound in bounds if bound.bit_length() < bits)


fill_scales()


def scale_of(unit):
    """Return the scale of a unit."""
    return cython.address(scales[cython.cast(cython.int, unit)])


def text_of(scale, bins):
    """Return a histogram as ``stats-histograms`` shows it: the count, the sum, and the count of each place."""
    text: cython.char[672]  # 31 numbers of 20 digits, with a space behind each
    at: cython.p_char = text
    count: uint64_t = 0
    i: cython.Py_ssize_t
    for i in range(scale.count + 1):
        count += bins.counts[i]
    at = put_number(at, count)
    at[0] = 32
    at = put_number(at + 1, bins.sum)
    for i in range(scale.count + 1):
        at[0] = 32
        at = put_number(at + 1, bins.counts[i])
    return text[: at - cython.cast(cython.p_char, text)]


def values_of(scale, bins):
    """Return what was counted at each place."""
    i: cython.Py_ssize_t
    return tuple([bins.counts[i] for i in range(scale.count + 1)])


@cython.no_gc
@cython.cclass
class Histogram:
    """One histogram, of numbers in a unit. The fields stand in ``times.pxd``."""

    def __cinit__(self, unit: Unit):
        if not 0 <= cython.cast(cython.int, unit) < cython.cast(cython.int, Unit.UNIT_COUNT):
            raise ValueError("there is no such unit")
        self.scale = scale_of(unit)

    def add(self, number: uint64_t) -> int:
        """Count a number."""
        count_in(cython.address(self.bins), place_of(self.scale, number), number)
        return 0

    def text(self):
        """Return it as ``stats-histograms`` shows it."""
        return text_of(self.scale, cython.address(self.bins))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many numbers lie up to each bound and beyond the one before; the last: beyond all."""
        return values_of(self.scale, cython.address(self.bins))

    @property
    def sum(self) -> int:
        """The sum of all numbers."""
        return self.bins.sum


TUBES_TIMED_MAX = cython.declare(cython.Py_ssize_t, limits.TUBES_TIMED_MAX)


@cython.no_gc
@cython.cclass
class TubeTimes:
    """How long the jobs of a tube took. The fields stand in ``times.pxd``."""

    def counts(self, what: JobTime) -> tuple[int, ...]:
        """What was counted of one of these times at each place."""
        return values_of(scale_of(Unit.JOB_TIME), cython.address(self.jobs[cython.cast(cython.int, what)]))

    def sum(self, what: JobTime) -> int:
        """The sum of one of these times, in microseconds."""
        return self.jobs[cython.cast(cython.int, what)].sum


@cython.no_gc
@cython.cclass
class ServerTimes:
    """What is timed over all tubes, and of the server. The fields stand in ``times.pxd``."""

    def __cinit__(self):
        self.scale = scale_of(Unit.JOB_TIME)[0]
        self.reserve_wait = Histogram(Unit.JOB_TIME)
        self.turn = Histogram(Unit.TURN_TIME)
        self.turn_commands = Histogram(Unit.COMMANDS)
        self.sync = Histogram(Unit.TURN_TIME)

    def times_of_a_tube(self):
        """Return times for one more tube; None: too many have their own."""
        if self.tube_count >= TUBES_TIMED_MAX:
            return None
        self.tube_count += 1
        return TubeTimes()

    def counts(self, what: JobTime) -> tuple[int, ...]:
        """What was counted of one of the times of jobs at each place."""
        return values_of(cython.address(self.scale), cython.address(self.jobs[cython.cast(cython.int, what)]))

    def sum(self, what: JobTime) -> int:
        """The sum of one of the times of jobs, in microseconds."""
        return self.jobs[cython.cast(cython.int, what)].sum


KEYS = {
    Count.EXPIRED: "jobs-expired",
    Count.DEAD: "jobs-dead",
    Count.MOVED_IN: "jobs-moved-in",
    Count.MOVED_OUT: "jobs-moved-out",
    Count.CLEARED: "jobs-cleared",
    Count.REPLACED: "jobs-replaced",
    Count.MERGED: "puts-merged",
    Count.PUTS_REFUSED: "puts-refused",
}
"""What the statistics call each count, in their order."""


@cython.no_gc
@cython.cclass
class Tally:
    """Some counts."""

    def add(self, count, number):
        """Count as many more."""
        self.counts[cython.cast(cython.int, count)] += number
        return 0

    def pairs(self) -> list[tuple[str, object]]:
        """Return the counts with their keys."""
        return [(key, self.counts[cython.cast(cython.int, count)]) for count, key in KEYS.items()]
