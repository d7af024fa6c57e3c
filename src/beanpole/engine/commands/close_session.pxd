# The header of close_session.py.
cimport cython

from beanpole.engine.commands.long_command cimport LongCommand
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session

@cython.final
cdef class Leave(LongCommand):
    cdef Session session                 # which is closed

cdef int end_session(Queue queue, Session session) except -1
