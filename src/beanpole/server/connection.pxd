# The header of connection.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.session cimport Session
from beanpole.protocol.decoder cimport Decoder

@cython.final
cdef class Connection:
    cdef Engine engine
    cdef readonly Session session
    cdef Decoder decoder
    # What the client's commands wait for; where none of these is set, they wait for more input.
    cdef readonly bint pending           # for the next turn: this turn's share is used up
    cdef readonly bint choked            # for the client to read: too much output is unsent
    cdef bint hungry                     # everything that arrived is decoded
    cdef int commands_left               # commands that may run in this turn
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
    # The socket's side, the poller's business.
    cdef int fd                          # -1: none
    cdef bint readable                   # there may be something to read
    cdef bint thorough                   # a read that is short does not mean that there is no more
    cdef bint hung_up                    # the peer sends no more: read until the end
    cdef bint blocked                    # the last send was short: wait for writability
    cdef bint queued                     # it is served again next turn
    cdef bint touched                    # it is in this turn's list of connections to send for
    cdef bint is_held                    # it is in the list of connections whose output waits for the log
    cdef uint64_t turn                   # the turn that commands_left belongs to
    cdef int run(self, int64_t now_ns) except -1
    cdef int cost(self) noexcept
    cdef int end_reply(self) except -1
    cdef int stop_input(self, int64_t now_ns) except -1
    cdef Py_ssize_t sendable(self, uint64_t durable_index) except -1
    cdef void sent(self, Py_ssize_t size) noexcept
