# The header of list_jobs.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport Command
from beanpole.protocol.replies cimport ReplyBuffer

cdef int add_frame(ReplyBuffer out, Queue queue, Job job, int64_t now_ns) except -1
cdef int add_short_frame(
    ReplyBuffer out, Queue queue, Job job, int64_t now_ns, Py_ssize_t body_bytes, int fields
) except -1
cdef int add_line(ReplyBuffer out, Queue queue, Job job, int64_t now_ns, Py_ssize_t shown) except -1
cdef int add_more(ReplyBuffer out, Queue queue, Job job) except -1
cdef int add_key(ReplyBuffer out, Job job) except -1
cdef int add_seconds(ReplyBuffer out, int64_t ns) except -1

cdef int list_jobs(Queue queue, int64_t now_ns, Session session, Command command) except -1
