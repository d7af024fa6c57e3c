# The header of held.py.
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command

cdef int release(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int bury(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int touch(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef bint touch_job(Queue queue, int64_t now_ns, Session session, uint64_t id) except -1
cdef int snooze_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int fail_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
