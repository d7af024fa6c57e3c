# The header of put.py.
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command
from beanpole.protocol.replies cimport Word

cdef int put(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int add_job(Queue queue, int64_t now_ns, Job job, int64_t delay_ns) except -1
cdef int put_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef Py_ssize_t tags_asked(Command command) noexcept
cdef bytes group_for(Queue queue, Command command, bytes name)
cdef int put_plainly(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int insert(Queue queue, int64_t now_ns, Session session, Command command, Tube tube, Job before, const uint64_t *token) except -1
cdef int record(Queue queue, int64_t now_ns, Command command, Job job, const uint64_t *token) except -1
cdef int replace(Queue queue, int64_t now_ns, Session session, Command command, Job job, const uint64_t *token) except -1
cdef bint is_format(Queue queue, int64_t now_ns, Command command) noexcept
cdef int reply_there(Queue queue, Session session, Word word, uint64_t id) except -1
cdef bint take_moment(Queue queue, int64_t now_ns, Command command) noexcept
cdef int64_t delay_of(Command command, int64_t age_ns) noexcept
cdef int take_group(Job job, Command command) except -1
cdef int take_meta(Job job, Command command) except -1
cdef int take_numbers(Job job, Command command) except -1
cdef int take_time(Job job, Command command) except -1
cdef int find_job(Queue queue, int64_t now_ns, Session session, Command command) except -1
