# The header of fair.py.
cimport cython
from libc.stdint cimport int64_t

@cython.final
cdef class Rota:
    cdef object fresh                    # a deque: members that had nothing to be served, in the order in which they came
    cdef object rest                     # a deque: those that were served and have more
    cdef bint is_fresh_next
    cdef object next(self)

@cython.final
cdef class Flow:
    cdef object port                     # its key among the flows of its source
    cdef object items                    # a deque of (item, bytes)
    cdef Py_ssize_t byte_count

@cython.final
cdef class Source:
    cdef bytes address                   # its key among the sources
    cdef dict flows                      # Flow by port; only those that have something
    cdef Rota rota                       # the same ones
    cdef Py_ssize_t byte_count
    cdef int64_t credit_ns               # what it may still cost before it is the next source's turn

@cython.final
cdef class Fair:
    cdef readonly Py_ssize_t count       # items that wait
    cdef readonly Py_ssize_t byte_count  # and their bytes
    cdef Py_ssize_t source_bytes
    cdef Py_ssize_t bytes_max
    cdef dict sources                    # Source by address; only those that have something, or that are being served
    cdef Rota rota                       # the same ones, but `current`
    cdef Source current                  # whose turn it is; None: nobody's
    cpdef bint add(self, bytes address, object port, object item, Py_ssize_t byte_count) except -1
    cpdef object take(self)              # `Any` the item; None: there is none
    cpdef int charge(self, int64_t cost_ns) except -1  # `None`
