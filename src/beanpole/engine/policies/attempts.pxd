# The header of attempts.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.policies.history cimport End
from beanpole.engine.state.failures cimport Why
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.tube cimport Tube, RuleSet

cdef bint counts(RuleSet rules) noexcept
cdef Py_ssize_t rule_tags(RuleSet rules) noexcept
cdef int begin_count(Job job) except -1
cdef int begin_attempt(Queue queue, Job job) except -1
cdef int count_begun(Queue queue, int64_t now_ns) except -1
cdef int end_attempt(Job job) except -1
cdef int forget_attempts(Job job) except -1
cdef bint has_count(Job job) noexcept
cdef bint is_last_attempt(Job job) noexcept
cdef int64_t backoff_ns(RuleSet rules, uint32_t attempt, uint64_t id) noexcept
cdef bint is_under_way(Job job) noexcept
cdef bint is_unsettled(Job job) noexcept
cdef int take_back(Queue queue) except -1
cdef uint32_t failed_attempt(Job job) noexcept
cdef int64_t whole_bytes(Job job) except -1

cdef enum:
    CHANGE_BYTES = 100                   # what the record of a job counts that comes back and keeps its size

cdef int64_t come_back(Queue queue, int64_t now_ns, Job job, End end, int64_t asked_ns, bint whole) except -1
cdef bint is_at_end(Job job, int64_t now_ns) noexcept
cdef int64_t ends(Queue queue, int64_t now_ns, Job job) except -1
cdef bint waits_to_count(Queue queue, Job job) except -1
cdef int64_t come_due(Queue queue, int64_t now_ns, Job job) except -1
cdef int become_due(Queue queue, Job job) except -1
cdef int defer(Queue queue, int64_t due_ns, Job job) except -1
cdef bytes grave_of(Job job)
cdef int64_t dead_bytes(Job job) except -1
cdef int64_t die(Queue queue, int64_t now_ns, Job job, Why why, bint whole) except -1
cdef bytes died_in(Job job)
cdef int forget_death(Job job) except -1
cdef int bury_job(Queue queue, Job job) except -1
cdef int add_new(Queue queue, int64_t now_ns, Job job, int64_t delay_ns) except -1
cdef int arrive(Queue queue, int64_t now_ns, Job job, Tube target, int state, int64_t due_ns) except -1
