# The header of outbox.py.
cimport cython
from beanpole_ids cimport posix

@cython.final
cdef class Outbox:
    cdef int fd
    cdef readonly long long failed_count # replies that could not be sent
    cdef readonly Py_ssize_t kept_bytes  # of the replies in `kept`
    cdef readonly object kept            # `deque[tuple[bytes, bytes]]` replies that the kernel did not take, and addresses
    cdef char *memory
    cdef Py_ssize_t used                 # bytes of `memory` that hold replies
    cdef unsigned int count              # replies in `memory`
    cdef posix.mmsghdr *headers
    cdef posix.iovec *parts
    cdef posix.sockaddr_storage *addresses
    cdef char *room(self) except NULL
    cdef int add(self, Py_ssize_t size, const posix.sockaddr_storage *address, posix.socklen_t address_size) except -1
    cpdef bint flush(self) except -1
    cpdef bint send_kept(self) except -1
    cdef int keep(self, unsigned int first) except -1
