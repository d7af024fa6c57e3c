# The header of switch.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.front.front cimport Front
from beanpole.front.lane cimport Lane
from beanpole.front.linksocket cimport LinkSocket
from beanpole.front.session cimport Session
from beanpole.protocol.buffer cimport Buffer
from beanpole.protocol.link cimport FrameReader
from beanpole.server.eventqueue cimport EventQueue

@cython.final
cdef class Channel(Lane):
    cdef ShardLink link
    cdef Py_ssize_t number
    cdef Client client                   # None: it is closed here, and the shard's CLOSE is under way
    cdef Py_ssize_t room                 # bytes that the shard takes
    cdef Py_ssize_t taken                # bytes that came of it for which it was not given room again
    cdef bint fin_sent

@cython.final
cdef class Client(Session):
    cdef Switch switch
    cdef int64_t number                  # of its channel at the front; below 0: the router itself asks
    cdef bytes description               # what OPEN says of it
    cdef Py_ssize_t room                 # bytes for it that the front takes
    cdef Py_ssize_t taken                # bytes that came of it for which the front was not given room again
    cdef bint is_closed                  # CLOSE was sent, or has come
    cdef bint touched                    # it is in Switch.touched
    cdef object done                     # `Callable[[bytes], object]`: is given all that it was answered; None: the front is
    cdef bytearray answer                # of what the router itself has asked
    cdef int64_t since_ns                # when a command of it began to wait for a shard; 0: none does

@cython.final
cdef class ShardLink(LinkSocket):
    cdef Switch switch
    cdef public object shard             # `Shard`
    cdef list channels                   # Channel by its number; None: it is free, or there is none
    cdef list free_channels
    cdef int64_t asked                   # commands that channels have sent which are no more
    cdef int64_t missing_ns              # how long there was no link, before `closed_ns`
    cdef int64_t closed_ns               # since when there is none, while there is none
    cdef public object observer          # as of a Front, for the uplink
    cdef public object on_link_end       # `Callable[[str, int], None] | None`: why it has ended, and channels that it had
    cdef int take_frames(self) except -1
    cdef Channel open_channel(self, Client client)

@cython.final
cdef class Switch:
    cdef object places                   # `Places`
    cdef public Py_ssize_t body_bytes_max         # the greatest of the shards'
    cdef object clock                    # `Callable[[], int]`
    cdef object about                    # `Mapping[bytes, bytes]`: what `stats` says of the router itself
    cdef int64_t wait_ns                 # how long a command waits for a shard that is away
    cdef public object note_mistake      # `Callable[[Shard, str], object]`: a client is closed, as that was no reply
    cdef public object note_gone         # `Callable[[Shard], object]`: the map does not have it, and no client any more
    cdef EventQueue queue                # where the sockets of links are watched; None: they have none
    cdef dict sockets                    # ShardLink by its descriptor
    cdef readonly dict links             # ShardLink by the name of its shard
    cdef FrameReader reader              # of what comes from the front
    cdef Buffer out                      # frames for the front
    cdef readonly dict clients           # Client by its number
    cdef list touched                    # clients that may have something to send
    cdef readonly object counts          # `Counts`
    cdef readonly dict waiting           # clients of which a command waits for a shard
    cdef int64_t own_number              # of what the router itself has asked last
    cdef bint draining
    cdef list moving                     # clients that do not all go by the map in use yet
    cdef int take_frames(self) except -1
    cdef int take_frame(self, Client client) except -1
    cdef Client open(self, int64_t number, bytes description)
    cdef int touch(self, Client client) except -1
    cdef int move(self) except -1
    cdef int pump(self, Client client) except -1
    cdef bint send_down(self, Client client) except -1
    cdef bint send_up(self, Client client) except -1
    cdef int lose(self, Channel channel) except -1
    cdef int close(self, Client client, int reason) except -1
    cdef int leave(self, Client client, int reason) except -1

@cython.final
cdef class MapFront(Front):
    cdef Switch switch                   # None: there is none yet
