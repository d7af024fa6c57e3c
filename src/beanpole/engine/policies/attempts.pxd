# The header of attempts.py.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.engine cimport Engine
from beanpole.engine.state.job cimport Job
from beanpole.engine.state.tube cimport Tube
from beanpole.engine.state.tuberules cimport TubeRules

cpdef enum Why:
    # Why a job died; the numbers stand in the log.
    ATTEMPTS = 1                         # its last attempt failed
    EXPIRED = 2                          # it waited for too long
    FAILED = 3                           # its worker gave it up

cdef enum:
    CHANGE_BYTES = 100                   # what the record of a job counts that comes back and keeps its size

cdef enum End:
    # How the attempt at a job ended that comes back.
    RELEASED                             # its holder gave it back, and has asked for room
    SNOOZED                              # the same, and nothing is wrong with the job
    TIMED_OUT                            # its time to run is over
    LOST                                 # its holder is gone

cdef bint counts(TubeRules rules) noexcept
cdef int begin_count(Job job) except -1
cdef int begin_attempt(Engine engine, Job job) except -1
cdef int count_begun(Engine engine, int64_t now_ns) except -1
cdef bint waits_to_count(Engine engine, Job job) except -1
cdef int end_attempt(Job job) except -1
cdef int forget_attempts(Job job) except -1
cdef bint has_count(Job job) noexcept
cdef bint is_last_attempt(Job job) noexcept
cdef int64_t come_back(Engine engine, int64_t now_ns, Job job, End end, int64_t asked_ns, bint whole) except -1
cdef int64_t come_due(Engine engine, int64_t now_ns, Job job) except -1
cdef int become_due(Engine engine, Job job) except -1
cdef int defer(Engine engine, int64_t due_ns, Job job) except -1
cdef int64_t backoff_ns(TubeRules rules, uint32_t attempt, uint64_t id) noexcept
cdef bytes grave_of(Job job)
cdef int64_t dead_bytes(Job job) except -1
cdef int64_t die(Engine engine, int64_t now_ns, Job job, Why why, bint whole) except -1
cdef bytes died_in(Job job)
cdef int forget_death(Job job) except -1
cdef bint is_under_way(Job job) noexcept
cdef bint is_unsettled(Job job) noexcept
cdef int take_back(Engine engine) except -1
