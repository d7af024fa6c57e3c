"""How long the oldest of a tube's ready jobs has been ready, which their heap, in order of priority, does not say.

Ready jobs are counted by the second in which they became ready. Those of the newest second are what is left of all, so
that a job which is put and reserved at once costs a comparison each. Those of earlier seconds are counted in spans, in
order: of one second each while there are few, and when there are too many, the two neighbours are joined that this
makes least uncertain in proportion to their age. Where a job became ready in each second of a year, the age of the
oldest is still known to an eighth.

Invariants: spans do not overlap, each counts a job, and all of them end before the newest second. A tube without ready
jobs has no spans, and no memory for any.
"""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memmove

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
@cython.exceptval(-1, check=False)
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
