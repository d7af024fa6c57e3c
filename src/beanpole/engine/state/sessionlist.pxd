# The header of sessionlist.py.
cimport cython

from libc.stdint cimport uint64_t

from beanpole.engine.state.session cimport Session

@cython.final
cdef class SessionList:
    cdef list places                     # `list[Session | None]`, by number; None: that session is closed
    cdef readonly Py_ssize_t count       # sessions
    cdef int add(self, Session session) except -1
    cdef int remove(self, Session session) except -1
    cdef int squeeze(self) except -1
    cdef Py_ssize_t first_from(self, uint64_t number) except -1
