# The header of ages.py.
from libc.stdint cimport int64_t, uint64_t

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
    int64_t newest_ns                    # when the newest second began; all spans end before it
    int64_t counted                      # jobs in the spans; the other ready jobs are those of the newest second
    Span *spans                          # the earlier ones, the oldest first; NULL: there is none
    int count                            # spans
    int capacity                         # spans allocated

cdef int add_age(Ages *ages, int64_t since_ns, int64_t ready_count) except -1
cdef int remove_age(Ages *ages, int64_t since_ns) except -1
cdef int64_t oldest_s(Ages *ages, int64_t ready_count, int64_t now_ns, int64_t started_at_ns) noexcept
cdef list spans_of(Ages *ages, int64_t ready_count)

cdef inline bint is_newest(Ages *ages, int64_t since_ns) noexcept:
    # Whether a job became ready in the newest second, as most do: then there is nothing to count.
    return <uint64_t>since_ns - <uint64_t>ages.newest_ns < SPAN_NS
