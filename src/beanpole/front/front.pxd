# The header of front.py.
cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t

from beanpole.front.linksocket cimport LinkSocket
from beanpole.protocol.buffer cimport Buffer
from beanpole.server.eventqueue cimport EventQueue
from beanpole.server.tlsfilter cimport Filter

@cython.final
cdef class Client:
    cdef int fd                          # -1: closed
    cdef uint32_t channel                # 0: it waits for a link; or its channel has ended, and what is unsent is passed on
    cdef bint waits                      # there is no link yet: nothing is read of it
    cdef bint fresh                      # nothing was read of it yet, and nothing has come for it
    cdef int64_t since_ns                # since when it waits
    cdef Py_ssize_t room                 # bytes of it that the server takes
    cdef Py_ssize_t allowance            # bytes for it that the server may send
    cdef Py_ssize_t taken                # bytes that it took and the server was not given room for again
    cdef const char *came                # what came for it since it was last sent to, in the reader's memory
    cdef Py_ssize_t came_bytes           # how much that is; 0: nothing, or it is in `unsent`
    cdef Buffer unsent                   # what it did not take yet
    cdef bint is_unix
    cdef Filter tls                      # what decrypts it; None: it speaks no TLS
    cdef bytes about                     # what OPEN says of it; None: where it comes from, and nothing else
    cdef object origin                   # whatever `admit` was given
    cdef bint blocked                    # it takes no more: it is watched until it does
    cdef bint readable                   # it may have more
    cdef bint thorough                   # a read that is short does not mean that there is no more
    cdef bint hung_up                    # it sends no more: read until the end
    cdef bint broken                     # its connection was reset: it takes nothing either
    cdef bint ended                      # its end was passed on
    cdef bint queued                     # it is in Front.queue or Front.behind
    cdef bint touched                    # it is in Front.touched

cdef class Front(EventQueue):
    cdef readonly LinkSocket link
    cdef bint asks                       # this end asks for a sign of life, too
    cdef int64_t check_ns                # when that is looked at next
    cdef public object on_link_end       # `Callable[[str, int], None] | None`: reason, and channels that were open
    cdef public object on_link_asked     # `Callable[[int, bytes, bool, object], None] | None`: a client is a front that asks
    #                                      for a link: descriptor, what was read, whether it is a Unix socket, its Filter
    cdef public object on_empty          # `Callable[[], None] | None`: the last client has gone after `drain`
    cdef public object run_soon          # `Callable[[], object] | None`: asks for a call of `poll`
    cdef bint requested                  # the next turn has something to do, whatever happens
    cdef readonly bint draining
    cdef int64_t due_ns                  # when the clock is looked at next
    cdef int64_t wait_ns                 # how long a client waits for a link
    cdef list waiting                    # clients that do, in order, and some that did
    cdef list by_fd                      # Client or None, by its descriptor
    cdef list channels                   # Client by its channel; None: it is free, or there is none
    cdef list free_channels              # those that have ended, the last first
    cdef list queue                      # clients that have sent something new
    cdef list behind                     # clients that had more when they were last read
    cdef Py_ssize_t ahead_count          # of them that come before `queue` this time, 0 or 1
    cdef Py_ssize_t piece_bytes          # that is read at once of a client now
    cdef list touched                    # clients for which something came, or whose channel has ended
    cdef Py_ssize_t connections_max
    cdef readonly Py_ssize_t client_count
    cdef bint has_yielded                # the next client is accepted, also if others have fewer
    # What the fronts of a server know of each other; see beanpole.server.fronts.
    cdef int64_t *shared
    cdef object memory                   # that holds `shared`
    cdef int number                      # which of the fronts this is
    cdef int front_count
    cdef bint one_reply_per_send         # for clients that can't take two at once
    cdef int64_t records_cost_ns         # what the records of clients have cost in this turn
    cdef int64_t frame_count             # of this turn
    cdef int64_t unsent_count            # of earlier turns, which the link did not take yet
    cdef int64_t turn_ended_ns
    cdef int note(self, Client client, unsigned int events) except -1
    cdef int note_other(self, int fd, unsigned int events) except -1
    cdef int take(self) except -1
    cdef int take_data(self, Client client) except -1
    cdef int end_channel(self, Client client) except -1
    cdef int leave_link(self, int64_t now_ns) except -1
    cdef int look_at_clock(self, int64_t now_ns) except -1
    cdef int arm(self, int64_t now_ns) except -1
    cdef int request(self) except -1
    cdef int serve_touched(self) except -1
    cdef int deliver(self, Client client) except -1
    cdef int pass_to(self, Client client, const char *data, Py_ssize_t size) except -1
    cdef int enqueue(self, Client client, bint has_more=*) except -1
    cdef list serve_clients(self, list clients, Py_ssize_t piece_bytes)
    cdef int serve_queue(self) except -1
    cdef int pump(self, Client client) except -1
    cdef int flush(self) except -1
    cdef int count(self, int64_t began_ns) except -1
    cdef int accept(self, int64_t now_ns, int listener) except -1
    cdef bint has_more_than_others(self) noexcept
    cdef int leave_to_others(self) except -1
    cdef int join(self, int64_t now_ns, int fd, bint is_unix, Client client) except -1
    cdef int pass_on(self, Client client, char *frame, Py_ssize_t size) except -1
    cdef int open_channel(self, Client client) except -1
    cdef int let_wait(self, int64_t now_ns, Client client) except -1
    cdef int look_at_waiting(self, Client client) except -1
    cdef bint is_asked(self, const char *data, Py_ssize_t size) except -1
    cdef int close_waiting(self) except -1
    cdef int hand_over(self, Client client, bytes data) except -1
    cdef int lose(self, Client client, int reason) except -1
    cdef int close_client(self, Client client) except -1
    cdef int forget(self, Client client) except -1
