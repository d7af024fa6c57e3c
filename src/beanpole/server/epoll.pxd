# The header of epoll.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.posix cimport epoll_event
from beanpole.server.connection cimport Connection, Transport
from beanpole.server.eventqueue cimport EventQueue
from beanpole.server.turn cimport Turn

cdef class Socket(Transport):
    cdef EpollTransport epoll
    cdef int fd                          # -1: closed
    cdef bint thorough                   # a read that is short does not mean that there is no more
    cdef bint own                        # the server's own, no client's
    cdef Py_ssize_t receive(self, Connection connection, char *target, Py_ssize_t room) except -2
    cdef bint greeted(self, Connection connection) except -1
    cdef bint hung_up                    # the peer sends no more: read until the end
    cdef bint is_link(self, Connection connection) noexcept
    cdef int become_link(self, Connection connection) except -1
    cdef object take_filter(self)

cdef class Carrier:
    # A descriptor that carries many connections, and is served before and after a turn.
    cdef int note(self, int64_t now_ns, unsigned int events) except -1
    cdef int end_turn(self, int64_t now_ns) except -1
    cdef int read_deferred(self, int64_t now_ns) except -1

@cython.final
cdef class EpollTransport(EventQueue):
    cdef readonly Turn turn
    cdef object loop                     # the asyncio loop that calls run()
    cdef public bint observe_connections # every connection that comes and goes is reported
    cdef object wall_clock               # `Callable[[], int]`, the wall clock; None: that of the system
    cdef char *read_buffer
    cdef list by_fd                      # Connection or None, by its socket's descriptor
    cdef public object open_link         # `Callable[..., object]` takes a link, as server.link.open_link does; None: nobody asks for one
    cdef public object link_targets      # `Container[tuple[str, int]]`: clusters and epochs for which a link is taken
    cdef public object guard             # `Any`: who lets clients in, of server.door; None: nobody has to
    cdef readonly dict carriers          # descriptors -> Carrier
    cdef int comings_left                # of clients that come and go by links of users in this turn
    cdef list carried                    # those that have something to do at the end of this turn
    cdef list deferred                   # those whose records wait for the end of a turn, in order
    cdef int64_t records_left_ns         # what records of carriers may still cost in this turn
    cdef readonly uint64_t carried_bytes_received    # over all carriers ever
    cdef readonly uint64_t carried_bytes_sent
    cdef readonly Py_ssize_t connections_max         # clients above which accepting pauses, those behind links included
    cdef public Py_ssize_t sockets_max   # descriptors of clients and links above which it does
    cdef Py_ssize_t socket_count         # clients that have one
    cdef int64_t read_clocks(self) except? -1
    cdef int note_events(self, int64_t now_ns, epoll_event *events, int count) except -1
    cdef int note(self, int64_t now_ns, Connection connection, unsigned int events) except -1
    cdef int accept(self, int64_t now_ns, int listener) except -1
    cdef bint has_crowd(self) except -1
    cdef Connection join(self, int64_t now_ns, int fd, bint thorough, bint own, Socket socket=*)
    cdef Connection open(self, int64_t now_ns, Socket socket, bint own)
    cdef int forget(self, int fd) except -1
    cdef int arm(self, int64_t now_ns) except -1
    cdef int end_turn(self) except -1
    cdef int end_carried(self) except -1
    cdef int end_deferred(self) except -1
    cdef int close_each(self, bint own) except -1
