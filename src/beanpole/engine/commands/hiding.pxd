# The header of hiding.py.
from beanpole.engine.commands.long_command cimport LongCommand
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.engine.state.user cimport User

cdef Tube tube_for(Queue queue, Session session, bytes name, int right)
cdef bint find_used(Queue queue, Session session, bytes name) except -1
cdef Py_ssize_t renew(Queue queue, Session session) except -1
cdef bint is_stale(Session session) noexcept
cdef int begin_standing(Queue queue, Session session, User user, int served) except -1
cdef bint may_be_served(Queue queue, Session session, Tube tube) except -1
cdef int begin_renewal(Queue queue) except -1
