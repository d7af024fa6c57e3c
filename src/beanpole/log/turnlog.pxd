# The header of turnlog.py.
from libc.stdint cimport uint64_t

cdef class TurnLog:
    cdef public Py_ssize_t link_count    # links whose other ends take a server for dead that is held up
    cdef int append_turn(self) except -1
    cdef uint64_t durable(self) except? 0
