# The header of long_command.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef class LongCommand:
    cdef int step(self, Queue queue, int64_t now_ns, Session session)
    cdef bint go_on_alone(self, Queue queue)

cdef bytes group_given(Command command)
cdef int begin(Queue queue, int64_t now_ns, Session session, LongCommand work) except -1
cdef int abandon(Queue queue, Session session) except -1
cdef int leave_to_ticks(Queue queue, LongCommand work) except -1
cdef int attend(Queue queue) except -1
