# The header of forward.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.server.eventqueue cimport EventQueue

@cython.final
cdef class Side:
    cdef int fd                          # -1: closed
    cdef Side other                      # where what it sends goes; None: it is fresh, or closed
    cdef bytes unsent                    # what `other` sent and the kernel did not take yet
    cdef bint reached                    # of the leader's side: the connection stands
    cdef Py_ssize_t word_bytes           # of the leader's side: what it has said of ANSWER
    cdef bint connected                  # a client, or a leader that has answered: bytes are passed on to it
    cdef bint readable                   # it may have more
    cdef bint thorough                   # a read that is short does not mean that there is no more
    cdef bint hung_up                    # it sends no more: read until the end
    cdef bint ended                      # its end was read
    cdef bint is_client
    cdef bint fresh                      # a client that has sent nothing yet: the leader is not connected for it
    cdef bint queued                     # it is in ForwardTransport.queue
    cdef int64_t since_ns                # when connecting the leader's side began, or a client was first not taken, monotonic

@cython.final
cdef class ForwardTransport(EventQueue):
    cdef object loop                     # the asyncio loop that calls run()
    cdef char *read_buffer
    cdef list by_fd                      # Side or None, by its descriptor
    cdef list queue                      # sides that have more to read than one turn gives them
    cdef list connecting                 # leader's sides in the order in which they began to connect, some done since
    cdef object target                   # (family, address) of the leader; None: there is none
    cdef bint held                       # clients wait until the leader, or another, is reached
    cdef object on_refused               # Callable[[], None], called when the leader did not take a client
    cdef bytes hello                     # what the leader is sent first: the line that names it, and QUESTION
    cdef readonly Py_ssize_t pair_count  # clients that are connected
    cdef Py_ssize_t connections_max
    cdef int64_t connect_ns              # how long connecting to the leader may take
    cdef int64_t wait_ns                 # how long a client waits that the leader does not take, though it is reached
    cdef Py_ssize_t left_bytes           # what this turn may still read
    cdef bint requested                  # another turn was asked for
    cdef int close_clients(self, bint fresh) except -1
    cdef int run_soon(self) except -1
    cdef int serve_queue(self) except -1
    cdef int look_at_clock(self) except -1
    cdef int pump_or_queue(self, Side side) except -1
    cdef int enqueue(self, Side side) except -1
    cdef int look_at_first(self, Side side) except -1
    cdef int take_answer(self, Side far) except -1
    cdef int accept(self, int listener) except -1
    cdef bint join(self, int client, bint is_unix) except -1
    cdef int connect(self, Side side) except -1
    cdef int refused(self, Side far) except -1
    cdef bint watch(self, Side side) except -1
    cdef Side add(self, int fd)
    cdef int note(self, Side side, unsigned int events) except -1
    cdef int pump(self, Side side) except -1
    cdef int give(self, Side side, const char *data, Py_ssize_t size) except -1
    cdef int finish(self, Side side) except -1
    cdef int lose_client(self, Side side) except -1
    cdef int drop(self, Side side) except -1
