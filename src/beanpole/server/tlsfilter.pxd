# The header of tlsfilter.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.protocol.buffer cimport Buffer

@cython.final
cdef class Filter:
    cdef readonly object ssl_object      # ssl.SSLObject whose handshake is done
    cdef object write_incoming           # the methods of it, and of its two BIOs, that each record calls
    cdef object read_plain
    cdef object write_plain
    cdef object read_outgoing
    # Ciphertext that came.
    cdef Buffer kept                     # what waits for its rest, or for the connection's next turn
    cdef int64_t cost_ns                 # what the records cost that `receive` decrypted last
    cdef bint has_more                   # there may be more than `receive` has returned, in the socket or here
    cdef readonly bint ended             # close_notify has come
    cdef readonly bint failed            # what came is not what the peer sent, or against the protocol
    # Ciphertext to be sent.
    cdef Buffer unsent
    cdef Py_ssize_t owed                 # 1: the last byte that was encrypted is in `unsent`, but not counted as taken
    cdef bint is_last                    # no more output comes behind what `send` is given next
    cdef Py_ssize_t receive(self, int fd, char *target, Py_ssize_t room, Py_ssize_t text_max, int64_t cost_max_ns) except -2
    cdef Py_ssize_t decrypt(self, const char *data, Py_ssize_t size) except -2
    cdef bint is_due(self) noexcept
    cdef int collect(self) except -1
    cdef Py_ssize_t send(self, int fd, const char *data, Py_ssize_t size) except -2
    cdef Py_ssize_t send_unsent(self, int fd) except -2
    cdef int end_output(self) except -1
    cdef int finish(self, int fd, bint is_whole) except -2

cdef Py_ssize_t record_bytes(const char *data, Py_ssize_t there) noexcept
