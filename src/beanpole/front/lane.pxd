# The header of lane.py.
from libc.stdint cimport int64_t

from beanpole.protocol.buffer cimport Buffer

cdef class Lane:
    cdef readonly object shard           # `Shard`
    cdef Buffer out                      # what is to be sent to the shard
    cdef Buffer kept                     # what came of it and was not passed on
    cdef int64_t asked                   # replies that were asked for
    cdef int64_t answered                # of these, those that were passed on, or dropped
    cdef list hushed                     # numbers of those that the client has not asked for, the first first; None: none
    cdef Py_ssize_t left                 # bytes of the line and the body that are being passed on; 0: a line comes next
    cdef Py_ssize_t frames_left          # frames that the reply still has
    cdef Buffer whole                    # what a gather has of its reply
    cdef bytes used                      # the tube that the shard takes for the used one
    cdef bytes watched                   # the tube that it takes for watched; None: it does so for several
    cdef set all_watched                 # those; None: it is one
    cdef readonly bint ends              # no reserve is to wait there any more
    cdef bint drains                     # the shard has said that it takes no jobs
    cdef bint spare                      # `default` is the only one, and is not wanted: a session has to watch one
    cdef int ask(self, const char *data, Py_ssize_t size) except -1
    cdef int tell(self, bytes line) except -1
    cdef int hush(self) except -1
    cdef bint is_hushed(self) except -1
    cdef Py_ssize_t hushed_count(self) noexcept
    cdef int use(self, bytes tube) except -1
    cdef int watch(self, bytes tube) except -1
    cdef int ignore(self, bytes tube) except -1
    cdef bint watches(self, bytes tube) except -1
    cdef bint watches_one(self) noexcept
    cdef int add(self, bytes tube) except -1
    cdef int remove(self, bytes tube) except -1
    cdef Py_ssize_t available(self) except -1
    cdef bint give(self, Py_ssize_t size) noexcept

cdef bytes taken(Buffer *out)
