# The header of jobs.py.
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.policies.history cimport End
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int release(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int give_back(
    Queue queue, int64_t now_ns, Session session, Job job, End end, int64_t pri, int64_t delay_ns
) except -1
cdef int bury(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int touch(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef bint touch_job(Queue queue, int64_t now_ns, Session session, uint64_t id) except -1
cdef int snooze_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int fail_job(Queue queue, int64_t now_ns, Session session, Command command) except -1

cdef int kick(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int kick_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int kick_one(Queue queue, int64_t now_ns, Job job) except -1

cdef int delete(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef bint delete_job(Queue queue, Session session, uint64_t id) except -1
cdef int cancel_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int cancel_key(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int cancel(Queue queue, Job job) except -1
cdef int delete_many(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int touch_many(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int clear_tube(Queue queue, int64_t now_ns, Session session, Command command) except -1
