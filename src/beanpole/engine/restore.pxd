# The header of restore.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job, JobNumbers
from beanpole.engine.state.schedule cimport Schedule, ScheduleState
from beanpole.engine.state.tube cimport GroupPause, Tube

@cython.final
cdef class Restore:
    cdef readonly Engine engine
    cdef readonly int64_t clock_ns       # the latest moment that the log has mentioned, on its own clock
    cdef dict pauses                     # name -> (seconds, until, segment), of tubes that are not there
    cdef dict superseded                 # ids of the jobs that were held when another one took their key -> None
    cdef dict under_way                  # ids of the jobs of which an attempt was under way -> None
    cdef dict kept                       # ids of the jobs that wait for who has a token -> (its hash, seconds)
    cdef readonly list unconfirmed                # ids of jobs, names of tubes and GroupPauses that wait longer than from clock_ns on
    cdef Job put(self, JobNumbers *numbers, bytes name, const char *body, Py_ssize_t body_bytes, const char *tags,
                 Py_ssize_t tag_bytes, uint32_t segment)
    cdef bint change(self, JobNumbers *numbers, const char *tags, Py_ssize_t tag_bytes) except -1
    cdef bint delete(self, uint64_t id) except -1
    cdef int count_reserve(self, uint64_t id, uint32_t reserve_count) except -1
    cdef int count_attempt(self, uint64_t id, uint32_t attempt, uint32_t reserve_count) except -1
    cpdef int wait_for(self, uint64_t id, uint32_t reserve_count, uint32_t seconds, bytes token) except -1
    cdef int hold(self, Job job, bytes token, uint32_t seconds) except -1
    cdef int tube(self, bytes name, uint32_t pause_s, int64_t until_ns, bytes tags, uint64_t segment) except -1
    cdef int group(self, bytes tube, bytes name, uint32_t pause_s, int64_t until_ns, uint64_t segment) except -1
    cdef int once(self, bytes token, uint64_t id, int64_t until_ns, uint64_t segment) except -1
    cdef int set_tube(self, Tube tube, uint32_t pause_s, int64_t until_ns, bytes tags, uint64_t segment) except -1
    cpdef int rules(self, int64_t set_at_ns, bytes text, uint64_t segment) except -1
    cdef int schedule(self, bytes name, bytes text, ScheduleState *state, int64_t set_at_ns, uint8_t level,
                      uint64_t segment) except -1
    cdef bint fired(self, bytes name, ScheduleState *state) except -1
    cdef int set_state(self, Schedule schedule, ScheduleState *state) except -1
    cdef int place(self, Job job, JobNumbers *numbers) except -1
    cdef int take_out(self, Job job) except -1
    cdef int drop_tube(self, Tube tube) except -1
    cdef int advance(self, int64_t clock_ns) except -1
    cdef int confirm_delay(self, Job job) except -1
    cdef int confirm_pause(self, Tube tube) except -1
    cdef int confirm_group(self, GroupPause pause) except -1
