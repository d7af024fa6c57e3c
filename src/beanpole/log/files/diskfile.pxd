# The header of diskfile.py.
cimport cython
from libc.stdint cimport int64_t

cdef class File:
    cdef public str name                 # it changes when a spare becomes a segment
    cdef int write_here(self, int64_t offset, const char *data, Py_ssize_t size) except -1
    cdef int sync_here(self) except -1

@cython.final
cdef class DiskFile(File):
    cdef readonly int fd

cdef int check(int failure) except -1
