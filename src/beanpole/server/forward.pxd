# The header of forward.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.server.eventqueue cimport EventQueue

@cython.final
cdef class Side:
    cdef int fd                          # -1: closed
    cdef Side other                      # where what it sends goes
    cdef bytes unsent                    # what `other` sent and the kernel did not take yet
    cdef bint connected                  # bytes may be sent to it
    cdef bint readable                   # it may have more
    cdef bint ended                      # it sends no more
    cdef bint shut                       # it was told that no more comes
    cdef bint is_client
    cdef bint fresh                      # nothing came from it yet

@cython.final
cdef class ForwardTransport(EventQueue):
    cdef object loop                     # the asyncio loop that calls run()
    cdef object observer                 # as of EpollTransport
    cdef char *read_buffer
    cdef list by_fd                      # Side or None, by its descriptor
    cdef list queue                      # sides that have more to read than one turn gives them
    cdef list listeners                  # descriptors that accept
    cdef object target                   # (family, address) of the leader; None: clients wait in the backlog
    cdef bytes hello                     # the first line that the leader is sent
    cdef readonly Py_ssize_t pair_count  # clients that are connected
    cdef Py_ssize_t connections_max
    cdef readonly int64_t failed_since_ns   # since when the leader's address can't be reached, monotonic; 0: it can
    cdef int64_t accept_retry_ns         # when accepting is tried again; 0: it is not paused
    cdef bint requested                  # another turn was asked for
    cdef int accept(self, int listener) except -1
    cdef int join(self, int client) except -1
    cdef Side add(self, int fd)
    cdef int note(self, Side side, unsigned int events) except -1
    cdef int pump(self, Side side) except -1
    cdef int give(self, Side side, const char *data, Py_ssize_t size) except -1
    cdef int finish(self, Side side) except -1
    cdef int drop(self, Side side) except -1
