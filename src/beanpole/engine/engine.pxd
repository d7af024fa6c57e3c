# The header of engine.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.engine.commands.long_command cimport LongCommand
from beanpole.engine.state.heap cimport Timed
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube
from beanpole.protocol.commands cimport Command

@cython.final
cdef class Leave(LongCommand):
    cdef Session session                 # which is closed

@cython.final
cdef class Engine(Queue):
    cdef public object audit
    # `Callable[[object, bytes, int, bytes, bool], None] | None`: takes note of what users do to jobs that are not their
    # own, and of what they are refused: the owner of the session, the user, the Verb, the tube, whether it was allowed
    cdef public object users
    # `Callable[[], Collection[User]] | None`: everybody whom connections may belong to
    cdef int half_close(self, int64_t now_ns, Session session) except -1
    cpdef int apply(self, int64_t now_ns, Session session, Command command) except -1
    cpdef Py_ssize_t tick(self, int64_t now_ns) except? -1
    cdef int end_refused(self, int64_t now_ns, Session session, Command command, int verdict) except -1
    cdef int go_on(self, int64_t now_ns, Session session) except -1
    cdef Py_ssize_t run_schedules(self, int64_t now_ns, Py_ssize_t most) except -1
    cdef Py_ssize_t run_timers(self, int64_t now_ns, Py_ssize_t most) except -1
    cdef int run_timer(self, int64_t now_ns, Timed timed, list changed, Py_ssize_t most) except -1
    cdef int end_time_to_run(self, int64_t now_ns, Job job, list changed) except -1
    cdef int answer_waiting(self, int64_t now_ns, Session session) except -1
    cdef int look_at_ids(self) except -1
