# The header of ages.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    SPANS_MAX = 96                       # spans of a tube: what an eighth takes when a job of each second of years waits
    SPAN_NS = 1_000_000_000              # of the newest jobs

cdef struct Span:
    # Seconds of the engine's clock in which ready jobs became ready, as many as `count`, which is never 0.
    int64_t first_s
    int64_t last_s
    int64_t count

cdef struct Ages:
    # A tube's ready jobs by when they became ready. All 0: there is none.
    int64_t newest_ns                    # when the second began whose jobs are counted here; all spans end before it
    Span *spans                          # the earlier ones, the oldest first; NULL: there is none
    uint32_t newest_count                # jobs of that second
    int count                            # spans
    int capacity                         # spans allocated

cdef int add_age(Ages *ages, int64_t since_ns) except -1
cdef int remove_age(Ages *ages, int64_t since_ns) except -1
cdef int64_t oldest_s(Ages *ages, int64_t now_ns, int64_t started_at_ns) noexcept
cdef list spans_of(Ages *ages)

cdef inline int note_ready(Ages *ages, int64_t since_ns) except -1:
    # Count a job that has become ready. Most did in the newest second: that takes a nanosecond.
    if <uint64_t>since_ns - <uint64_t>ages.newest_ns < SPAN_NS:
        ages.newest_count += 1
        return 0
    return add_age(ages, since_ns)

cdef inline int note_taken(Ages *ages, int64_t since_ns) except -1:
    # Count a job no more that is not ready any more.
    if <uint64_t>since_ns - <uint64_t>ages.newest_ns < SPAN_NS:
        ages.newest_count -= 1
        return 0
    return remove_age(ages, since_ns)
