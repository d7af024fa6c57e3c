# The header of rights.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int auth(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int list_rights(Queue queue, int64_t now_ns, Session session, Command command) except -1
