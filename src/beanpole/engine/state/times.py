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
from cython.cimports.libc.stdint import UINT64_MAX, int64_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memmove

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
        return text_of(self.scale, cython.address(self.bins))

    @property
    def counts(self) -> tuple[int, ...]:
        """How many numbers lie up to each bound and beyond the one before; the last: beyond all."""
        return values_of(self.scale, cython.address(self.bins))

    @property
    def sum(self) -> int:
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
        self.schedule_late = Histogram(Unit.JOB_TIME)
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
        return self.jobs[cython.cast(cython.int, what)].sum


KEYS = {
    Count.EXPIRED: "jobs-expired",
    Count.DEAD: "jobs-dead",
    Count.MOVED_IN: "jobs-moved-in",
    Count.MOVED_OUT: "jobs-moved-out",
    Count.CLEARED: "jobs-cleared",
    Count.CANCELLED: "jobs-cancelled",
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
        return [(key, self.counts[cython.cast(cython.int, count)]) for count, key in KEYS.items()]


# --- ages -------------------------------------------------------------------------------------------------------------
#
# How long the oldest of a tube's ready jobs has been ready, which their heap, in order of priority, does not say.
#
# Ready jobs are counted by the second in which they became ready. Those of the newest second are what is left of all,
# so that a job which is put and reserved at once costs a comparison each. Those of earlier seconds are counted in
# spans, in order: of one second each while there are few, and when there are too many, the two neighbours are joined
# that this makes least uncertain in proportion to their age. Where a job became ready in each second of a year, the age
# of the oldest is still known to an eighth.
#
# Invariants: spans do not overlap, each counts a job, and all of them end before the newest second. A tube without
# ready jobs has no spans, and no memory for any.


FIRST_CAPACITY = cython.declare(cython.int, 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def second_of(moment_ns: int64_t) -> int64_t:
    """Return the second of a moment, which after a start may be before the clock's first."""
    return moment_ns // SPAN_NS if moment_ns >= 0 else -((-moment_ns - 1) // SPAN_NS) - 1


@cython.cfunc
@cython.exceptval(check=False)
def find(ages: cython.pointer(Ages), second: int64_t) -> cython.int:
    """Return the place of the first span that does not end before a second."""
    low: cython.int = 0
    high: cython.int = ages.count
    while low < high:
        middle: cython.int = (low + high) // 2
        if ages.spans[middle].last_s < second:
            low = middle + 1
        else:
            high = middle
    return low


def add_age(ages, since_ns, ready_count):
    """Count a job that became ready in another second than the newest, and is one of so many ready ones by now.

    It may be an earlier one: a delay ends late, or the server starts.
    """
    second: int64_t = second_of(since_ns)
    newest_s: int64_t = ages.newest_ns // SPAN_NS
    newest_count: int64_t = ready_count - 1 - ages.counted
    at: cython.int = find(ages, second)
    if at < ages.count and ages.spans[at].first_s <= second:
        ages.spans[at].count += 1
        ages.counted += 1
        return 0
    if at < ages.count or (newest_count and second < newest_s):
        return insert(ages, at, second, 1)
    if newest_count:
        insert(ages, ages.count, newest_s, newest_count)
    ages.newest_ns = second * SPAN_NS
    return 0


@cython.cfunc
def insert(ages: cython.pointer(Ages), at: cython.int, second: int64_t, count: int64_t) -> cython.int:
    """Add a span of one second."""
    if ages.count == ages.capacity:
        capacity: cython.int = min(max(ages.capacity * 2, FIRST_CAPACITY), SPANS_MAX)
        spans = cython.cast(cython.pointer(Span), realloc(ages.spans, capacity * cython.sizeof(Span)))
        if spans is cython.NULL:
            raise MemoryError
        ages.spans = spans
        ages.capacity = capacity
    memmove(
        cython.address(ages.spans[at + 1]),
        cython.address(ages.spans[at]),
        (ages.count - at) * cython.sizeof(Span),
    )
    ages.spans[at].first_s = second
    ages.spans[at].last_s = second
    ages.spans[at].count = count
    ages.counted += count
    ages.count += 1
    return join(ages) if ages.count == SPANS_MAX else 0


@cython.cfunc
@cython.exceptval(check=False)
def join(ages: cython.pointer(Ages)) -> cython.int:
    """Join two neighbours.

    Ages are seen from the newest second: no job's is smaller than that, and there is no clock while a log is read back.
    """
    spans: cython.pointer(Span) = ages.spans
    newest_s: int64_t = ages.newest_ns // SPAN_NS
    best: cython.int = 0
    least: cython.double = 0
    i: cython.int
    for i in range(ages.count - 1):
        size: cython.double = spans[i + 1].last_s + 1 - spans[i].first_s
        size /= max(newest_s - spans[i + 1].last_s, 1)
        if i == 0 or size < least:
            best = i
            least = size
    spans[best].last_s = spans[best + 1].last_s
    spans[best].count += spans[best + 1].count
    drop(ages, best + 1)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def drop(ages: cython.pointer(Ages), at: cython.int) -> cython.void:
    """Take out a span, and with the last one their memory."""
    ages.count -= 1
    if ages.count == 0:
        free(ages.spans)
        ages.spans = cython.NULL
        ages.capacity = 0
        return
    memmove(
        cython.address(ages.spans[at]),
        cython.address(ages.spans[at + 1]),
        (ages.count - at) * cython.sizeof(Span),
    )


def remove_age(ages, since_ns):
    """Count a job no more that became ready in another second than the newest."""
    second: int64_t = second_of(since_ns)
    at: cython.int = find(ages, second)
    found: cython.bint = at < ages.count and ages.spans[at].first_s <= second
    assert found, "a job is ready whose age is not counted"
    ages.spans[at].count -= 1
    ages.counted -= 1
    if ages.spans[at].count == 0:
        drop(ages, at)
    return 0


def oldest_s(ages, ready_count, now_ns, started_at_ns):
    """Return for how many seconds the oldest job has been ready; 0: not for one, or there is none.

    Those that became ready before the engine served, where it is not known when, count from when it began to.
    """
    newest_s: int64_t = ages.newest_ns // SPAN_NS
    newest_count: int64_t = ready_count - ages.counted
    found_ns: int64_t = 0
    at: cython.int = 0
    if (ages.count and ages.spans[0].last_s == 0) or (ages.count == 0 and newest_s == 0 and newest_count):
        found_ns = max(now_ns - started_at_ns, 0)
        at = 1
    if at < ages.count:
        found_ns = max(found_ns, age_ns(ages.spans[at].first_s, ages.spans[at].last_s, now_ns))
    elif at == ages.count and newest_count:
        found_ns = max(found_ns, age_ns(newest_s, newest_s, now_ns))
    return found_ns // SPAN_NS


@cython.cfunc
@cython.exceptval(check=False)
def age_ns(first_s: int64_t, last_s: int64_t, now_ns: int64_t) -> int64_t:
    """Return the age of a job that became ready in one of these seconds: no error is greater in proportion to the age.

    It is the harmonic mean of the least and the greatest age that there can be.
    """
    least_ns: int64_t = max(now_ns - (last_s + 1) * SPAN_NS, 0)
    most_ns: int64_t = max(now_ns - first_s * SPAN_NS, 1)
    product: cython.double = 2.0 * least_ns * most_ns
    return cython.cast(int64_t, product / (least_ns + most_ns))


def spans_of(ages, ready_count):
    """Return the seconds and the count of each span, with that of the newest jobs at the end."""
    i: cython.int
    found = [(ages.spans[i].first_s, ages.spans[i].last_s, ages.spans[i].count) for i in range(ages.count)]
    if ready_count > ages.counted:
        newest_s: int64_t = ages.newest_ns // SPAN_NS
        found.append((newest_s, newest_s, ready_count - ages.counted))
    return found
