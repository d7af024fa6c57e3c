# The header of scan.py.
cimport cython
from libc.stdint cimport uint64_t

@cython.final
cdef class Walk:
    cdef bytes data                      # the segment's bytes
    cdef object header                   # its Header, or what is known of it
    cdef readonly list counts            # `list[int]`: records, by kind
    cdef readonly set changed            # `set[int]`: ids of jobs that a record changes
    cdef readonly set deleted            # `set[int]`: ids of jobs that a record deletes
    cdef readonly bint ended             # an END record was found
    cdef readonly uint64_t first_segment # the oldest segment, by the last FIRST record; 0: there is none
    cdef readonly uint64_t next_segment  # the segment that is known to follow; 0: none is
    cdef readonly str unknown            # `str | None`: a record or tag that must be known and is not; None: there is none
