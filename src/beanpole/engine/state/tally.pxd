# The header of tally.py.
cimport cython
from libc.stdint cimport uint64_t

cpdef enum Count:
    # What is counted for the statistics beyond beanstalkd's.
    EXPIRED
    DEAD
    MOVED_IN
    MOVED_OUT
    CLEARED
    REPLACED
    MERGED
    PUTS_REFUSED
    COUNT_COUNT

@cython.final
cdef class Tally:
    cdef uint64_t[COUNT_COUNT] counts    # by Count
    cdef int add(self, Count count, uint64_t number) noexcept
