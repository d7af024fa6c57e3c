# The header of change.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command

cdef int change_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int change_numbers(Queue queue, int64_t now_ns, Job job, Command command) except -1
cdef int change_body(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int change_tube(Queue queue, int64_t now_ns, Job job, Tube target, int state, int64_t due_ns) except -1
cdef int move_jobs(Queue queue, int64_t now_ns, Session session, Command command) except -1
