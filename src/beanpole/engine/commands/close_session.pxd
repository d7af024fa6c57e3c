# The header of close_session.py.
cimport cython

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.session cimport Session
from beanpole.engine.commands.long_command cimport Work

@cython.final
cdef class Leave(Work):
    cdef Session session                 # which is closed

cdef int leave(Engine engine, Session session) except -1
