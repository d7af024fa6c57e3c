# The header of long_command.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session

cdef class Work:
    cdef int step(self, Engine engine, int64_t now_ns, Session session) except -1
    cdef bint go_on_alone(self, Engine engine) except -1

cdef int begin(Engine engine, int64_t now_ns, Session session, Work work) except -1
cdef int abandon(Engine engine, Session session) except -1
cdef int leave_to_ticks(Engine engine, Work work) except -1
cdef int attend(Engine engine) except -1
cdef int go_on(Engine engine, int64_t now_ns, Session session) except -1
