# The header of serve.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube

cdef int hold(Queue queue, int64_t now_ns, Session session, Job job) except -1
cdef int take(Queue queue, int64_t now_ns, Session session, Job job) except -1
cdef int reserve_for(Queue queue, int64_t now_ns, Session session, Job job) except -1
cdef bint is_over(Queue queue, int64_t now_ns, Job job) except -1
cdef int end_cost(Job job) noexcept
cdef bint may_offer(int64_t now_ns, Tube tube, int passed) noexcept
cdef int offer(Queue queue, int64_t now_ns, Tube tube) except -1
cdef bint serve(Queue queue, int64_t now_ns, Tube tube, Session session) except -1
cdef int offer_all(Queue queue, int64_t now_ns, list tubes) except -1
cdef int offer_opened(Queue queue, int64_t now_ns) except -1
cdef int reply_jobs(Queue queue, int64_t now_ns, Session session, list jobs) except -1
