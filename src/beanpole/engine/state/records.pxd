# The header of records.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.once cimport Token
from beanpole.engine.state.schedule cimport Schedule
from beanpole.engine.state.tube cimport GroupPause, RuleSet, Tube

cpdef enum Room:
    # Whether a record can be kept.
    FULL = 0                             # no: the command is refused
    OK = 1
    WAIT = 2                             # perhaps: space is made at the end of the turn; the command runs again then

cdef class Records:
    cdef readonly uint64_t index         # records so far, over all turns
    cdef readonly bint waits             # the answer to a command was WAIT: this turn must end with an append
    cdef readonly bint wants_reservations   # job_reserved is called
    cdef readonly bint loose             # there are records that no reply waits for, and that `index` does not count
    cdef int job_put(self, Job job) except -1
    cdef int job_changed(self, Job job) except -1
    cdef int job_deleted(self, Job job) except -1
    cdef int job_reserved(self, Job job) except -1
    cdef int attempt_begun(self, Job job) except -1
    cdef int job_kept(self, Job job, bint kept) except -1
    cdef int tube_changed(self, Tube tube) except -1
    cdef int pause_ended(self, Tube tube) except -1
    cdef int job_restored(self, Job job) except -1
    cdef int job_dropped(self, Job job) except -1
    cdef int tube_restored(self, Tube tube) except -1
    cdef int tube_dropped(self, Tube tube) except -1
    cdef int group_changed(self, GroupPause pause) except -1
    cdef int group_restored(self, GroupPause pause) except -1
    cdef int group_dropped(self, GroupPause pause) except -1
    cdef int rules_changed(self, RuleSet rules) except -1
    cdef int rules_deleted(self, RuleSet rules) except -1
    cdef int rules_restored(self, RuleSet rules) except -1
    cdef int rules_dropped(self, RuleSet rules) except -1
    cdef int schedule_changed(self, Schedule schedule) except -1
    cdef int schedule_deleted(self, Schedule schedule) except -1
    cdef int schedule_fired(self, Schedule schedule, Job job) except -1
    cdef int schedule_restored(self, Schedule schedule) except -1
    cdef int schedule_dropped(self, Schedule schedule) except -1
    cdef int once_noted(self, const uint64_t *mark, Token *token) except -1
    cdef int job_put_once(self, Job job, const uint64_t *mark, Token *token) except -1
    cdef int once_restored(self, Token *token) except -1
    cdef int once_dropped(self, Token *token) except -1
    cpdef int room_for_put(self, int64_t size) except -1   # a Room
    cpdef int room_for_change(self, int64_t size) except -1   # a Room
    cpdef int room_for_move(self, int64_t size) except -1   # a Room
    cdef bint backlog_full(self) noexcept
    cdef bint room_for_timeout(self, int64_t size) except -1
