# The header of linksocket.py.
from libc.stdint cimport int64_t

from beanpole.protocol.buffer cimport Buffer
from beanpole.protocol.link cimport FrameReader
from beanpole.server.eventqueue cimport EventQueue
from beanpole.server.tlsfilter cimport Filter

cdef class LinkSocket:
    cdef EventQueue queue                # where the socket is watched; None: it has none
    cdef int fd                          # -1: it has no socket
    cdef readonly bint is_open           # there is a link
    cdef FrameReader reader              # of what comes over it; None: there is none, and what it has carried was let go
    cdef readonly str reason             # why the last one ended, as docs/link.md calls it; "closed": by this end
    cdef Buffer out                      # frames that are to be sent over it
    cdef Py_ssize_t idle_bytes           # of `out`: they can wait for others
    cdef Filter tls                      # None: it is not encrypted
    cdef bint blocked                    # it takes no more: it is watched until it does
    cdef bint heard                      # something came since `check_silence` looked
    cdef int silence_count               # how often in a row nothing had come
    cdef readonly int64_t bytes_received          # over all links
    cdef readonly int64_t bytes_sent
    cdef int open(self, EventQueue queue, int fd, FrameReader reader, Filter tls) except -1
    cdef bint note(self, unsigned int events) except -1
    cdef bint next(self) except -1
    cdef int flush(self) except -1
    cdef Py_ssize_t read(self) except -2
    cdef int close(self, str reason) except -1
    cdef int let_go(self) except -1
    cpdef int check_silence(self) except -1
