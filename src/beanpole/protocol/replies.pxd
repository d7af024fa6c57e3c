# The header of replies.py.
cimport cython
from libc.stdint cimport uint64_t

@cython.final
@cython.no_gc
cdef class ReplyBuffer:
    cdef char *data
    cdef readonly Py_ssize_t size        # bytes written
    cdef Py_ssize_t sent                 # bytes at the front that are gone already
    cdef Py_ssize_t capacity             # bytes allocated at data; 0: none yet
    cdef int grow(self, Py_ssize_t more) except -1
    cdef int add(self, const char *text, Py_ssize_t size) except -1
    cdef int add_number(self, uint64_t number) except -1
    cdef int add_bytes(self, bytes text) except -1
    cdef int inserted(self, uint64_t id) except -1
    cdef int body(self, const char *word, Py_ssize_t word_bytes, uint64_t id, const char *body, Py_ssize_t body_bytes) except -1
    cdef int counted(self, const char *word, Py_ssize_t word_bytes, uint64_t number) except -1
    cdef int text(self, bytes text) except -1
    cdef void consume(self, Py_ssize_t size) noexcept
    cdef void release(self) noexcept
