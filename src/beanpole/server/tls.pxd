# The header of tls.py.
cimport cython

from beanpole.server.epoll cimport Socket
from beanpole.server.tlsfilter cimport Filter

@cython.final
cdef class TlsSocket(Socket):
    cdef readonly Filter tls
