# The header of rights.py.
from libc.stdint cimport uint8_t

cpdef enum Right:
    # What a user may do with a tube: a bit each.
    PUT = 1                              # put jobs into it
    RESERVE = 2                          # take jobs out of it
    LOOK = 4                             # see bodies
    MANAGE = 8                           # kick, pause, clear, move, change, cancel, delete any
    RULES = 16                           # its rules and schedules
    EVERYTHING = 31
    STATS = 32                           # see the numbers of every tube: no right to a tube, but as one where numbers are asked for
    ANY = 63                             # one of all these

cdef class Grants:
    cdef readonly dict patterns          # `dict[str, tuple[bytes, ...]]`: patterns of tubes by the name of the right
    cdef list rows                       # `list[tuple[bytes, bool, int]]`: what a name is or begins with, whether it begins, bits
    cdef uint8_t always                  # bits that hold for every tube
    cdef int bits(self, const char *name, Py_ssize_t size) except -1
