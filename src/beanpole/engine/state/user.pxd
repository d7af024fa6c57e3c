# The header of user.py.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from beanpole.protocol.rights cimport Grants

cdef class User:
    cdef readonly bytes name
    cdef readonly Grants grants
    cdef readonly bint admin             # may do everything
    cdef readonly bint stats             # may see everybody's numbers
    cdef uint8_t always                  # the bit Right.STATS if it may see everybody's numbers
    cdef readonly uint32_t version       # counts how often its rights have changed
    cdef public Py_ssize_t connections_max  # connections at a time
    cdef public Py_ssize_t connection_count
    cdef public uint64_t command_count   # commands of its connections
    cdef public uint64_t refused_count   # those of them for which it lacked a right
    cdef int rights(self, const char *name, Py_ssize_t size) except -1
