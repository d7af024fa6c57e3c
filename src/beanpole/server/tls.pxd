# The header of tls.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.server.connection cimport Connection
from beanpole.server.epoll cimport Socket
from beanpole.server.tlsfilter cimport Filter

@cython.final
cdef class TlsSocket(Socket):
    cdef readonly Filter tls
    cdef bint takes(self, Connection connection) noexcept
    cdef int run_records(self, int64_t now_ns, Connection connection) except -1
