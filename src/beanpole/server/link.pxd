# The header of link.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.protocol.buffer cimport Buffer
from beanpole.protocol.link cimport FrameReader
from beanpole.server.connection cimport Connection, Transport
from beanpole.server.epoll cimport Carrier, EpollTransport
from beanpole.server.tlsfilter cimport Filter

@cython.final
cdef class Channel(Transport):
    cdef Link link
    cdef readonly uint32_t number
    cdef bytes about                     # what its OPEN said
    # To the client.
    cdef uint32_t room_bytes             # of DATA that the front takes
    cdef bint waits                      # it stands in `Link.refused` or `Link.served`
    # From the client.
    cdef uint32_t allowed_bytes          # of DATA that the front may still send
    cdef uint32_t taken_bytes            # that the decoder took, of which the front was not told
    cdef const char *lent                # what came last and was not taken, in the link's reader, until that is read into
    cdef Py_ssize_t lent_bytes
    cdef Buffer kept                     # what came before that and was not taken
    cdef bint input_ends                 # the client sends no more
    cdef bint closed_there               # the front's CLOSE has come
    cdef bint closed_here                # ours is sent
    cdef int wait_in(self, list line) except -1
    cdef bint is_idle(self, Connection connection) noexcept

@cython.final
cdef class Link(Carrier):
    cdef EpollTransport epoll
    cdef readonly int fd                 # -1: the link has ended
    cdef readonly str name
    cdef object on_open                  # `Callable[[], None]`: the front is answered
    cdef object on_end                   # the same: the link has ended by itself
    cdef Filter tls                      # None: it is not encrypted
    cdef readonly object entry           # for whom it may speak, an entry of beanpole.server.door; None: there are no users
    cdef object timer                    # of `check_silence`
    cdef FrameReader reader
    cdef bint opened                     # the first lines are exchanged
    cdef readonly int64_t map_epoch      # of the map by which the front chooses servers; 0: it has none
    cdef bint was_asked                  # it came to a listener: its front asks for signs of life, too
    cdef list channels                   # Connection or None, by number of their channel
    cdef readonly Py_ssize_t channel_count
    cdef list lenders                    # channels that may have something lent
    cdef bint deferred                   # it stands in `EpollTransport.deferred`
    cdef bint unread                     # what has come waits in the reader for the next turn
    # To be sent.
    cdef Buffer out
    cdef Py_ssize_t output_bytes_max
    cdef Py_ssize_t clients_max          # clients of the server above which no further one of this link is taken
    cdef bint carried                    # it stands in `EpollTransport.carried`
    cdef bint blocked                    # the kernel takes no more: there is an event when it does
    cdef list refused                    # connections that go on when there is space in `out`, in order
    cdef list served                     # those that go on behind them: a frame of theirs is in `out`
    cdef bint answers                    # a PING waits for its answer
    # Its state.
    cdef bint draining
    cdef bint heard                      # something came since `check_silence` looked
    cdef int silence_count               # how often it has found that nothing had come
    cdef int read(self, int64_t now_ns) except -1
    cdef int read_frames(self, int64_t now_ns) except -1
    cdef int open_link(self) except -1
    cdef int open_channel(self, int64_t now_ns) except -1
    cdef Connection open_connection(self, int64_t now_ns, Channel channel)
    cdef int take_frame(self, int64_t now_ns, Connection connection) except -1
    cdef int take_data(self, Connection connection, Channel channel) except -1
    cdef int close_idle(self) except -1
    cdef int forget(self, Channel channel) except -1
    cdef int carry(self) except -1
    cdef int defer(self) except -1
    cdef int flush(self) except -1
    cdef int end_by_system(self, int reason) except -1
    cdef int end(self, str reason, object error=*) except -1
