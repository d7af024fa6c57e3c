# The header of origin.py.
cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Origin:
    cdef readonly bytes key              # its address, as the kernel has it, without the port
    cdef readonly bytes source           # whose turn it is when it is its turn: see `source_of`
    cdef readonly str text               # its address, as people write it; "" if it has none
    cdef readonly bytes name             # the same in bytes
    cdef readonly bint is_trusted        # what it may ask for needs no cookie
    cdef object cookies                  # the service's `Cookies`; None: it is trusted
    cdef int64_t hour                    # of which `good` are its cookies; -1: none
    cdef bytes good                      # its cookies, one after the other
    cdef bint has_shown(self, const char *cookie, Py_ssize_t size, double monotonic_s) except -1
