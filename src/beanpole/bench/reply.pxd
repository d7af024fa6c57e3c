# What is known of one connection's stream of replies; see reply.py.
cimport cython

cpdef enum Kind:
    NOTHING = 0
    INSERTED = 1
    RESERVED = 2
    DELETED = 3
    USING = 4
    WATCHING = 5
    OTHER = 6

@cython.final
@cython.no_gc
cdef class ReplyReader:
    cdef readonly int kind
    cdef readonly unsigned long long job_id
    cdef readonly long long body_bytes
    cdef readonly bint complete
    cdef char line[512]
    cdef Py_ssize_t line_size
    cdef long long body_left
    cdef char *next(self, char *at, char *end) except NULL
    cdef int read_line(self, char *line, Py_ssize_t size) except -1
    cdef char *skip_body(self, char *at, char *end) except NULL
    cdef int keep(self, char *at, Py_ssize_t size) except -1
    cpdef bytes other_line(self)
