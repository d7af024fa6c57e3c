# The header of mark.py.
cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Mark:
    cdef readonly int64_t cycle_s        # start of the cycle
    cdef readonly int64_t reserved       # the highest number that is reserved, or less than the minimum if none is
    cdef readonly int64_t time_s         # the latest time that a number showed when this was written
    cdef tuple texts                     # its kind and its fingerprints; many marks have the same
