# The header of times.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t, uint8_t

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil

cpdef enum Unit:
    # What a histogram counts, and so its bounds.
    JOB_TIME = 0                         # microseconds that a job or a waiting reserve takes
    TURN_TIME                            # microseconds that the server takes
    COMMANDS                             # commands
    UNIT_COUNT

cdef enum:
    BOUNDS_MAX = 28

cdef struct Scale:
    # The bounds of a unit. No two of them begin with the same bit, so that one comparison finds a number's place.
    Py_ssize_t count                     # bounds
    uint64_t[BOUNDS_MAX + 1] bounds      # ascending, and behind them a number that none exceeds
    uint8_t[65] first                    # by the bits of a number: bounds that have fewer

cdef struct Bins:
    # What was counted.
    uint64_t sum
    uint64_t[BOUNDS_MAX + 1] counts      # numbers up to each bound and beyond the one before, then those beyond all

cdef inline Py_ssize_t place_of(const Scale *scale, uint64_t number) noexcept:
    # Where a number is counted: a bound itself still belongs below it.
    cdef Py_ssize_t at = scale.first[64 - __builtin_clzll(number | 1)]
    return at + (number > scale.bounds[at])

cdef inline void count_in(Bins *bins, Py_ssize_t place, uint64_t number) noexcept:
    bins.sum += number
    bins.counts[place] += 1

cdef const Scale *scale_of(Unit unit) noexcept
cdef bytes text_of(const Scale *scale, const Bins *bins)
cdef tuple values_of(const Scale *scale, const Bins *bins)

@cython.final
cdef class Histogram:
    cdef const Scale *scale
    cdef Bins bins
    cpdef int add(self, uint64_t number) except -1
    cdef bytes text(self)

cpdef enum JobTime:
    # What is timed of each job.
    TIME_READY = 0                       # from when it became ready until somebody reserved it
    TIME_HELD                            # from then until it was in nobody's hands
    TIME_LATE                            # from when a delay was over by itself until somebody reserved it
    JOB_TIME_COUNT

@cython.final
cdef class TubeTimes:
    cdef Bins[3] jobs                    # by JobTime

@cython.final
cdef class ServerTimes:
    cdef Bins[3] jobs                    # by JobTime: of all jobs of all tubes, those that are gone among them
    cdef Scale scale                     # of these and of those of the tubes, here for it is looked at with every job
    cdef readonly Histogram reserve_wait # from a reserve until its job, of those that got one
    cdef readonly Histogram turn         # microseconds of a turn
    cdef readonly Histogram turn_commands
    cdef readonly Histogram schedule_late    # from when a schedule is due until its job is put
    cdef readonly Histogram sync         # from when a log begins to make something durable until it is
    cdef readonly Py_ssize_t tube_count  # tubes that have times of their own
    cdef TubeTimes times_of_a_tube(self)

cpdef enum Count:
    # What is counted for the statistics beyond beanstalkd's.
    EXPIRED
    DEAD
    MOVED_IN
    MOVED_OUT
    CLEARED
    CANCELLED
    REPLACED
    MERGED
    PUTS_REFUSED
    COUNT_COUNT

@cython.final
cdef class Tally:
    cdef uint64_t[COUNT_COUNT] counts    # by Count
    cdef int add(self, Count count, uint64_t number) noexcept

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
