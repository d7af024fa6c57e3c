# The header of totals.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole_ids.hand cimport Hand

@cython.final
cdef class Totals:
    cdef readonly int64_t answered       # requests that got numbers
    cdef readonly int64_t given          # numbers that they got
    cdef readonly int64_t counters       # those in memory
    cdef readonly int64_t exhausted      # those of them that have no number left
    cdef readonly int64_t held           # numbers that are reserved and not given
    cdef uint64_t least_left             # what the counter has left that has the least; valid with a counter
    cdef int64_t start_s                 # when the present cycle began; valid with a counter
    cdef int count(self, Hand hand) except -1
