# The header of diskfile.py.
cimport cython

@cython.final
cdef class DiskFile:
    cdef public str name                 # it changes when a spare becomes a segment
    cdef readonly int fd

cdef int check(int failure) except -1
