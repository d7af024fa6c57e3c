# The header of attempts.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.rules cimport TubeRules

cdef bint counts(TubeRules rules) noexcept
cdef int begin_count(Job job) except -1
cdef int begin_attempt(Queue queue, Job job) except -1
cdef int count_begun(Queue queue, int64_t now_ns) except -1
cdef int end_attempt(Job job) except -1
cdef int forget_attempts(Job job) except -1
cdef bint has_count(Job job) noexcept
cdef bint is_last_attempt(Job job) noexcept
cdef int64_t backoff_ns(TubeRules rules, uint32_t attempt, uint64_t id) noexcept
cdef bint is_under_way(Job job) noexcept
cdef bint is_unsettled(Job job) noexcept
cdef int take_back(Queue queue) except -1
cdef uint32_t failed_attempt(Job job) noexcept
cdef int64_t whole_bytes(Job job) except -1
