# The header of groups.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int pause_group(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int stats_groups(Queue queue, int64_t now_ns, Session session, Command command) except -1
