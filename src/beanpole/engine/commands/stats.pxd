# The header of stats.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int mistake(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int stats(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int stats_tube(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int stats_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int peek(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int peek_first(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int reply_found(Queue queue, Session session, Job job) except -1
cdef int list_tubes(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int list_tubes_watched(Queue queue, int64_t now_ns, Session session, Command command) except -1
