# The header of connection.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.protocol.decoder cimport Decoder

cdef class Connection

cdef class Transport:
    cdef public bint readable            # it may have input that the connection was not given
    cdef public bint blocked             # it took less than was to be sent; it asks for another turn when it takes more
    cdef public bint reads_ahead         # the end of its input is seen only when what precedes it is read, so it reads while a session waits
    cdef public bint cut                 # the end came from this side, or from a node between it and the client
    cdef public bint gone                # nobody is at the other end; whatever the client has left is dropped
    cdef bint fresh                      # what comes next is looked at before the decoder has it
    cdef public object entry             # who the client is, an entry of beanpole.server.door; None: there are no users
    cdef bint meet(self, Connection connection) except -1
    cpdef int wake(self, int64_t now_ns, Connection connection) except -1
    cdef Py_ssize_t send(self, const char *data, Py_ssize_t size) except? -1
    cpdef Py_ssize_t send_bytes(self, bytes data) except? -1
    cpdef bint linger(self, Connection connection) except -1
    cpdef int close(self) except -1

@cython.final
cdef class Connection:
    cdef Engine engine
    cdef readonly Transport transport
    cdef readonly Session session
    cdef Decoder decoder
    # What the client's commands wait for; where none of these is set, they wait for more input.
    cdef readonly bint pending           # for the next turn: this turn's share is used up
    cdef bint stalled                    # for the log to have room: then the command runs again
    cdef readonly bint choked            # for the client to read: too much output is unsent
    cdef bint hungry                     # everything that arrived is decoded
    cdef int64_t share_ns                # what its commands may still cost in this turn
    # The end.
    cdef readonly bint input_ended       # no more bytes come
    cdef readonly bint finished          # no more commands run: quit, or all input ran; close when all output is sent
    cdef readonly bint closed            # the session is closed
    # Which output may be sent: replies wait until the records that they depend on are durable.
    cdef uint64_t sent_bytes             # bytes of output ever taken out of session.out
    cdef uint64_t free_to                # bytes of output ever that may be sent
    cdef uint64_t depends_on             # index of the last record that a reply in session.out depends on
    cdef list held                       # (index, bytes): output up to `bytes` is free when `index` is durable
    cdef list reply_ends                 # bytes of output ever at the end of each reply; None: not wanted
    # The turn's business: which of its lists the connection is in.
    cdef bint queued                     # those to serve
    cdef bint light                      # it used little of its share when it was last served
    cdef bint sending                    # those to send for in this turn
    cdef bint in_held                    # those whose output waits for the log
    cdef uint64_t turn                   # the turn that share_ns belongs to
    cdef int run(self, int64_t now_ns) except -1
    cdef bint take_cancel(self) except -1
    cdef int end_reply(self) except -1
    cdef int stop_input(self, int64_t now_ns) except -1
    cdef Py_ssize_t sendable(self, uint64_t durable_index) except -1
    cdef void sent(self, Py_ssize_t size) noexcept
