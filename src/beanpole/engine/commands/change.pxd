# The header of change.py.
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command

cdef int no_room(Session session, int room) except -1
cdef int change_tube(Engine engine, int64_t now_ns, Job job, Tube target, int state, int64_t due_ns) except -1
cdef int arrive(Engine engine, int64_t now_ns, Job job, Tube target, int state, int64_t due_ns) except -1
cdef int snooze_job(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int fail_job(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int change_job(Engine engine, int64_t now_ns, Session session, Command command) except -1
cdef int change_numbers(Engine engine, int64_t now_ns, Job job, Command command) except -1
cdef int change_body(Engine engine, int64_t now_ns, Session session, Command command) except -1
