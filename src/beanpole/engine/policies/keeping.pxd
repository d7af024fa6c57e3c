# The header of keeping.py.
from libc.stdint cimport int64_t, uint32_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session

cdef int keep(Queue queue, Session session, bytes token, uint32_t seconds, bint always) except -1
cdef int forget(Queue queue, Session session) except -1
cdef bint may_be_lost(Queue queue, Session session, bint by_server) except -1
cdef int lose(Queue queue, int64_t now_ns, Session session) except -1
cdef int slim(Session session) except -1
cdef int stop_waiting_for(Queue queue) except -1
cdef int wait_again(Queue queue, int64_t now_ns) except -1
cdef int take_over(Queue queue, int64_t now_ns, Session session, Session other) except -1
cdef int forget_token(Queue queue, Session session) except -1
cdef int end_lost(Queue queue, Session session) except -1
cdef int64_t give_up(Queue queue, int64_t now_ns, Job job) except -1
