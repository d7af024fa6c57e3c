# The header of list_sessions.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int list_sessions(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int name_session(Queue queue, int64_t now_ns, Session session, Command command) except -1
