# The header of accounts.py.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.once cimport Token
from beanpole.engine.state.schedule cimport Schedule
from beanpole.engine.state.tube cimport GroupPause, RuleSet, Tube
from beanpole.log.format cimport CLOSING_BYTES, DELETED_RECORD, SEGMENT_HEADER, TURN_RECORD

cdef enum:
    # Bytes of a large job's segment beside the job: its header, the end of a turn, the job's delete and its own end.
    # No other job finds room in that, so the two need not move together.
    LARGE_OVERHEAD = SEGMENT_HEADER + TURN_RECORD + DELETED_RECORD + CLOSING_BYTES

@cython.final
cdef class Accounts:
    cdef int64_t *live                   # bytes of live jobs, pauses, rules and schedules by segment, from first_segment on
    cdef Py_ssize_t live_capacity
    cdef readonly uint64_t first_segment # the oldest segment; 0: there is none
    cdef readonly int64_t live_bytes     # bytes of the records of all live jobs, pauses, rules and schedules
    cdef readonly int64_t live_count     # live jobs
    cdef readonly int64_t token_count    # tokens of puts
    cdef readonly int64_t largest_bytes  # the largest record of a job since there was no live job

    cdef readonly bint unlimited         # nothing is ever short: the log has its home elsewhere, and no spare segments
    cdef readonly int64_t segment_bytes  # a segment of the usual size
    cdef readonly int64_t whole_bytes    # bytes of records that one takes
    cdef public Py_ssize_t spare_count   # segments that are in the pool or certain to come back to it
    cdef readonly list large_spares      # `list[int]`: bytes of those that are larger, each for a job that needs them, in order
    cdef public uint64_t stuck_index     # the last record when compaction could make no room on a full disk
    cdef public int64_t refused_from     # puts from these bytes on are refused, for the disk is full; 0: all are

    cdef int count_job(self, Job job, uint64_t segment, int64_t size) except -1
    cdef int restore_job(self, Job job, int64_t size) except -1
    cdef int drop_job(self, Job job, int64_t size) except -1
    cdef int count_tube(self, Tube tube) except -1
    cdef int drop_tube(self, Tube tube) except -1
    cdef int count_group(self, GroupPause pause) except -1
    cdef int drop_group(self, GroupPause pause) except -1
    cdef int count_rules(self, RuleSet rules) except -1
    cdef int drop_rules(self, RuleSet rules) except -1
    cdef int count_token(self, Token *token) except -1
    cdef int drop_token(self, Token *token) except -1
    cdef int count_schedule(self, Schedule schedule) except -1
    cdef int drop_schedule(self, Schedule schedule) except -1
    cdef int count_bytes(self, uint64_t segment, int64_t size) except -1
    cdef int drop_bytes(self, uint64_t segment, int64_t size) except -1
    cpdef int count_live(self, uint64_t segment, int64_t size) except -1
    cpdef int64_t live_in(self, uint64_t segment) noexcept
    cpdef int64_t segment_for(self, int64_t size) noexcept
    cpdef int64_t free_behind(self, int64_t left, int64_t size) noexcept
    cpdef int64_t least(self, int64_t size) noexcept
    cpdef int room_for_put(self, int64_t left, int64_t left_for_jobs, int64_t size) except -1
    cpdef int room_for_change(self, int64_t left, int64_t size, uint64_t index) except -1   # a Room
    cpdef bint room_for_note(self, int64_t left, int64_t size) noexcept
    cpdef bint is_short(self, int64_t left) noexcept
    cpdef bint wants_spare(self, int64_t left) noexcept
    cpdef bint has_large(self, int64_t size, Py_ssize_t count) except -1
