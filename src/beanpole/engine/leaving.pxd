# The header of leaving.py.
cimport cython

from beanpole.engine.engine cimport Engine
from beanpole.engine.session cimport Session
from beanpole.engine.work cimport Work

@cython.final
cdef class Leave(Work):
    cdef Session session                 # which is closed

cdef int leave(Engine engine, Session session) except -1
