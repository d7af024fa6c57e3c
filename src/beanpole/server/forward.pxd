# The header of forward.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.server.eventqueue cimport EventQueue

@cython.final
cdef class Side:
    cdef int fd                          # -1: closed
    cdef Side other                      # where what it sends goes; None: it is fresh, or closed
    cdef bytes unsent                    # what `other` sent and the kernel did not take yet
    cdef bint connected                  # bytes may be sent to it
    cdef bint readable                   # it may have more
    cdef bint thorough                   # a read that is short does not mean that there is no more
    cdef bint hung_up                    # it sends no more: read until the end
    cdef bint ended                      # its end was read
    cdef bint is_client
    cdef bint fresh                      # a client that has sent nothing yet: the leader is not connected for it
    cdef bint queued                     # it is in ForwardTransport.queue
    cdef int64_t since_ns                # of the leader's side: when connecting began, monotonic

@cython.final
cdef class ForwardTransport(EventQueue):
    cdef object loop                     # the asyncio loop that calls run()
    cdef char *read_buffer
    cdef list by_fd                      # Side or None, by its descriptor
    cdef list queue                      # sides that have more to read than one turn gives them
    cdef list connecting                 # leader's sides in the order in which they began to connect, some done since
    cdef object target                   # (family, address) of the leader; None: clients wait in the backlog
    cdef bytes hello                     # the first line that the leader is sent
    cdef readonly Py_ssize_t pair_count  # clients that are connected
    cdef Py_ssize_t connections_max
    cdef int64_t connect_ns              # how long connecting to the leader may take
    cdef Py_ssize_t left_bytes           # what this turn may still read
    cdef bint requested                  # another turn was asked for
    cdef int serve_queue(self) except -1
    cdef int look_at_clock(self) except -1
    cdef int pump_or_queue(self, Side side) except -1
    cdef int enqueue(self, Side side) except -1
    cdef int look_at_first(self, Side side) except -1
    cdef int accept(self, int listener) except -1
    cdef bint join(self, int client, bint is_unix) except -1
    cdef int connect(self, Side side) except -1
    cdef bint watch(self, Side side) except -1
    cdef Side add(self, int fd)
    cdef int note(self, Side side, unsigned int events) except -1
    cdef int pump(self, Side side) except -1
    cdef int give(self, Side side, const char *data, Py_ssize_t size) except -1
    cdef int finish(self, Side side) except -1
    cdef int drop(self, Side side) except -1
