# The header of turnlog.py.
from libc.stdint cimport uint64_t

cdef class TurnLog:
    cdef int append_turn(self) except -1
    cdef uint64_t durable(self) except? 0
