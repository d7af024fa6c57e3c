# The header of firing.py.
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.schedule cimport Schedule, ScheduleState

cdef enum:
    STATE_BYTES = 70                     # of a record of a schedule beside names, tags and bodies

cdef Py_ssize_t fire_due(Queue queue, int64_t now_ns, Py_ssize_t most, list changed) except -1
cdef int64_t wall_of(Queue queue, int64_t now_ns) noexcept
cdef int miss_overdue(Queue queue, Schedule schedule, ScheduleState *state, int64_t wall_ns) except -1
cdef int set_next(Schedule schedule, ScheduleState *state, int64_t behind_ns) except -1
cdef int64_t state_bytes(Schedule schedule) except -1
cdef int64_t fired_bytes(Schedule schedule) except -1
cdef int record(Queue queue, Schedule schedule, ScheduleState *state, Job job) except -1
cdef bint has_no_place(Queue queue, Schedule schedule) except -1
cdef Job taken_key(Queue queue, int64_t now_ns, Schedule schedule, list changed)
cdef Job put_fired(Queue queue, int64_t now_ns, Schedule schedule, int64_t at_ns, uint64_t fire)
