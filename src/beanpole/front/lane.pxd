# The header of lane.py.
from libc.stdint cimport int64_t

from beanpole.protocol.buffer cimport Buffer

cdef class Lane:
    cdef readonly object shard           # `Shard`
    cdef Buffer out                      # what is to be sent to the shard
    cdef Buffer kept                     # what came of it and was not passed on
    cdef int64_t asked                   # replies that were asked for
    cdef int64_t answered                # of these, those that were passed on, or dropped
    cdef list hushed                     # the numbers of those that the client has not asked for, the first first
    cdef Py_ssize_t left                 # bytes of the line and the body that are being passed on; 0: a line comes next
    cdef Py_ssize_t frames_left          # frames that the reply still has
    cdef Buffer whole                    # what a gather has of its reply
    cdef bytes used                      # the tube that the shard takes for the used one
    cdef set watched                     # those that it takes for watched
    cdef readonly bint ends              # no reserve is to wait there any more
    cdef bint spare                      # `default` is the only one, and is not wanted: a session has to watch one
    cdef int ask(self, const char *data, Py_ssize_t size) except -1
    cdef int tell(self, bytes line) except -1
    cdef Py_ssize_t available(self) except -1
    cdef bint give(self, Py_ssize_t size) noexcept

cdef bytes taken(Buffer *out)
