# The header of hand.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

@cython.final
cdef class Mark:
    cdef readonly int64_t cycle_s        # start of the cycle
    cdef readonly int64_t reserved       # the highest number that is reserved, or less than the minimum if none is
    cdef readonly int64_t time_s         # the latest time that a number showed when this was written
    cdef tuple texts                     # its kind and its fingerprints; many marks have the same

@cython.final
cdef class Bounds:
    cdef readonly int64_t first          # the least number of this node
    cdef readonly int64_t step           # the distance of two numbers of this node
    cdef readonly int64_t maximum        # no number is above it
    cdef readonly int64_t low_water      # when no more numbers are left of what is reserved, it is time to reserve more

cdef class Hand:
    cdef public Bounds bounds            # which numbers it has; counters with the same share them
    cdef public int64_t last             # the number handed out last; after a start what is reserved, as any may have been
    cdef public int64_t reserved         # the highest number of this cycle that is durably reserved
    cdef public int64_t cycle_s          # start of the cycle; -1: none has begun
    cdef public int64_t wanted           # numbers that callers wait for, all together
    cdef public int64_t time_s           # the latest time that a number may have shown, in Unix seconds
    cdef public int64_t opened_s         # the second for which the counter is open already; -1: none
    cdef public int64_t answered_count   # requests that got numbers, since the process started
    cdef public int64_t given_count      # numbers that they got
    cdef public object form              # how C makes its texts, a `forms.Form`; None: it does not know
    cdef public object block             # texts of the next numbers, a `forms.Block`; None: there are none
    cdef uint64_t following(self) noexcept
    cdef uint64_t left_from(self, uint64_t first) noexcept
    cdef void give(self, uint64_t first, int64_t used, int64_t count) noexcept

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
