# The header of kick.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int kick(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int kick_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int kick_one(Queue queue, int64_t now_ns, Job job) except -1
