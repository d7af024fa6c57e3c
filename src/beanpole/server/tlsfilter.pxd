# The header of tlsfilter.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.protocol.buffer cimport Buffer

cdef char *plain

@cython.final
cdef class Filter:
    cdef readonly object ssl_object      # ssl.SSLObject whose handshake is done
    cdef object write_incoming           # the methods of it, and of its two BIOs, that each record calls
    cdef object read_plain
    cdef object write_plain
    cdef object read_outgoing
    # Ciphertext that came.
    cdef const char *input               # borrowed from the caller, or of `kept`
    cdef Py_ssize_t at                   # bytes of `input` that are decrypted
    cdef Py_ssize_t end                  # bytes of `input` that are there
    cdef bint borrowed                   # `input` is the caller's and must be kept before the caller reuses it
    cdef Buffer kept                     # what waits for its rest, or for the connection's next turn
    cdef int64_t cost_ns                 # what the records cost that `receive` decrypted last
    cdef bint dry                        # `receive` has found less than it asked for, or not asked
    cdef readonly bint ended             # close_notify has come
    cdef readonly bint failed            # what came is not what the peer sent, or against the protocol
    # Ciphertext to be sent.
    cdef Buffer unsent
    cdef Py_ssize_t owed                 # 1: the last byte that `seal` was given is in `unsent`, but not counted as taken
    cdef bint is_last                    # no more output comes behind what `send` is given next
    cdef char *room(self, Py_ssize_t size) except NULL
    cdef void extend(self, Py_ssize_t size) noexcept
    cdef void borrow(self, const char *data, Py_ssize_t size) noexcept
    cdef Py_ssize_t whole(self) noexcept
    cdef Py_ssize_t next(self) except -2
    cdef int settle(self) except -1
    cdef Py_ssize_t receive(self, int fd, char *target, Py_ssize_t room, char *buffer, Py_ssize_t size) except -2
    cdef bint is_due(self) noexcept
    cdef int collect(self) except -1
    cdef int seal(self, const char *data, Py_ssize_t size) except -1
    cdef Py_ssize_t send(self, int fd, const char *data, Py_ssize_t size) except -2
    cdef Py_ssize_t send_unsent(self, int fd) except -2
    cdef int end_output(self) except -1
