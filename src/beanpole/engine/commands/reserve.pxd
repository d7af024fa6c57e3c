# The header of reserve.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.heap cimport Heap
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session, Want
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command

cdef int reserve(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int reserve_with_timeout(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int reserve_until(Queue queue, int64_t now_ns, Session session, int64_t until_ns) except -1
cdef int reserve_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int reserve_many(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int ask(Queue queue, int64_t now_ns, Session session, int64_t until_ns) except -1
cdef Tube best_offer(Session session, int *left)
cdef int wait_for(Queue queue, int64_t now_ns, Session session, int64_t until_ns, Want wants) except -1
cdef list hold_many(Queue queue, int64_t now_ns, Session session, uint32_t count)
cdef list hold_best(Queue queue, int64_t now_ns, Session session, uint32_t count, Heap heads)
cdef int hold_same(Queue queue, int64_t now_ns, Session session, uint32_t count, list jobs) except -1
cdef int cancel_reserve(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int cancel(Queue queue, Session session) except -1
