# The header of schedules.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int set_schedule(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int get_schedule(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int list_schedules(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int drop_schedule(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int pause_schedule(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int fire_schedule(Queue queue, int64_t now_ns, Session session, Command command) except -1
