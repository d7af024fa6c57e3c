# The header of datagrams.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole_ids cimport posix
from beanpole_ids.fair cimport Fair
from beanpole_ids.fast cimport Fast
from beanpole_ids.origin cimport Origin
from beanpole_ids.outbox cimport Outbox

@cython.final
cdef class Answer:
    cdef Datagrams datagrams
    cdef posix.sockaddr_storage address  # where the reply goes
    cdef posix.socklen_t address_size

@cython.final
cdef class Waiting:
    cdef bytes data
    cdef posix.sockaddr_storage address  # where it has come from
    cdef posix.socklen_t address_size
    cdef int64_t stamp_ns                # when the kernel received it, on its wall clock; 0: it does not say

@cython.final
cdef class Datagrams:
    cdef readonly object service         # `Service`
    cdef readonly dict dropped           # `dict[str, int]` the service's: datagrams that were not answered, by reason
    cdef object receive                  # its method
    cdef Fast fast                       # what it serves in C; None: nothing
    cdef bint is_fast                    # this turn has a time for that
    cdef double now_s                    # the time that numbers show, in Unix seconds, as it was when the turn began
    cdef double monotonic_s
    cdef object socket
    cdef object loop
    cdef int fd
    cdef unsigned short port             # of the socket's own address, as it stands in one; 0: it has none
    cdef int64_t turn_ns
    cdef int64_t late_ns
    cdef readonly Fair fair
    cdef readonly Outbox outbox
    cdef long long error_count           # datagrams whose receiving or serving ended with an error
    cdef bint in_turn                    # what is answered is sent at the turn's end
    cdef bint goes_on                    # another turn is due for what waits
    cdef bint flushes                    # so is a flush
    cdef bint is_writing                 # the loop says when the socket is writable
    cdef int64_t end_ns                  # when the turn ends, on the monotonic clock
    cdef int64_t left_ns                 # when the last turn ended, if more waited then; 0: nothing did
    cdef dict origins                    # Origin by key
    cdef Origin last_origin              # that of the last datagram: many come from one address
    cdef object cookies                  # the service's, whose trust `origins` has; a reload brings others
    # Where the kernel writes.
    cdef char *memory
    cdef char *ancillary
    cdef posix.mmsghdr *headers
    cdef posix.iovec *parts
    cdef posix.sockaddr_storage *addresses

    cdef int turn(self) except -1
    cdef int read_clock(self) except -1
    cdef int fill(self) except? -1
    cdef int take(self, int count) except -1
    cdef int enqueue(
        self, const char *data, Py_ssize_t size, const posix.sockaddr_storage *address, posix.socklen_t address_size,
        int64_t stamp_ns
    ) except -1
    cdef int serve_waiting(self) except -1
    cdef int serve(
        self, const char *data, Py_ssize_t size, const posix.sockaddr_storage *address, posix.socklen_t address_size
    ) except -1
    cdef Origin origin(self, const posix.sockaddr_storage *address, posix.socklen_t address_size)
    cdef int forget_origins(self) except -1
    cdef bint is_own(self, Origin origin) except -1
    cdef int send(self, Answer answer, bytes reply) except -1
    cdef int flush(self) except -1
