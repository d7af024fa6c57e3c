# The header of histogram.py.
cimport cython
from libc.stdint cimport uint8_t, uint64_t

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
