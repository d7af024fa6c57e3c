# The header of link.py.
cimport cython
from libc.stdint cimport int32_t, uint32_t

from beanpole.protocol.buffer cimport Buffer

cdef enum Kind:
    # Of a frame.
    OPEN = 1
    DATA
    FIN
    CLOSE
    ROOM
    PING
    DRAIN
    KIND_END

cdef struct KindRow:
    bint channel                         # whether it means a client, and not the link itself
    int32_t least                        # bytes of its payload at least and at most, from the end that is read; below 0: it sends none
    int32_t most

@cython.final
cdef class FrameReader:
    cdef KindRow[8] rows                 # by Kind
    cdef char *data                      # what has come and is not read yet lies between `start` and `end`
    cdef Py_ssize_t start
    cdef Py_ssize_t end
    # The frame that `next` has found.
    cdef readonly uint32_t channel
    cdef readonly int kind
    cdef const char *payload             # until `room` is called
    cdef readonly uint32_t size          # bytes of the payload
    cdef readonly uint32_t value         # of the payload as a number, where the kind has one
    cdef readonly object mistake         # `str | None`: what is wrong with what has come; then nothing more is read
    cdef char *room(self) noexcept
    cdef Py_ssize_t free_bytes(self) noexcept
    cdef bint next(self) noexcept
    cdef bint refuse(self, str mistake) noexcept

cdef void put_header(char *at, uint32_t channel, int kind, Py_ssize_t size) noexcept
cdef int add_frame(Buffer *out, uint32_t channel, int kind, const char *payload, Py_ssize_t size) except -1
cdef int add_number(Buffer *out, uint32_t channel, int kind, uint32_t value) except -1
