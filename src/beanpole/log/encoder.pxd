# The header of encoder.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.job cimport Job
from beanpole.engine.records cimport Records
from beanpole.engine.tube cimport Tube

@cython.final
cdef class Encoder(Records):
    cdef unsigned char *buffer           # records that are not written to the file yet
    cdef readonly Py_ssize_t size        # bytes in it
    cdef Py_ssize_t capacity             # bytes allocated
    cdef public set stale_pauses         # `set[bytes]`: tubes whose pause must not come back, which is still to be written
    cdef object space                    # asked for another segment and for room; see log.files.room.Room
    cdef readonly uint32_t salt          # what the checksums of this process's records begin with

    cdef readonly uint64_t segment       # number of the segment that is written
    cdef readonly int64_t used_bytes     # bytes of it, those in the buffer too
    cdef readonly int64_t segment_bytes  # bytes that it can take
    cdef public int64_t spare_bytes      # bytes of records that prepared segments can take
    cdef public int64_t kept_free_bytes  # bytes that puts leave free: for compaction, changes and deletes

    cdef public int64_t moved_bytes      # bytes of jobs that the round of compaction under way has written

    cdef int64_t *live                   # bytes of live jobs and pauses by segment, from first_segment on
    cdef Py_ssize_t live_capacity
    cdef readonly uint64_t first_segment # the oldest segment
    cdef readonly int64_t live_bytes     # bytes of the records of all live jobs and pauses
    cdef readonly int64_t live_count     # live jobs
    cdef int64_t largest_bytes           # the largest whole record since there was no live job
    cdef readonly uint64_t record_count  # records of jobs and tubes ever written by this process

    cdef unsigned char *begin(self, Py_ssize_t size) except NULL
    cdef int finish(self, unsigned char *at, Py_ssize_t size) except -1
    cdef unsigned char *job(self, unsigned char *at, Job job) noexcept
    cdef int pause(self, bytes name, uint32_t pause_s, int64_t until_ns, bytes tags) except -1
    cdef int count_new(self, int64_t size) except -1
    cdef int settle(self, Job job, int64_t size) except -1
    cdef bint has_room(self, int64_t size, int64_t rest) except -1
    cdef int64_t kept(self, int parts) noexcept
    cpdef int64_t kept_from_moves(self) noexcept
    cpdef int64_t left(self) noexcept
    cpdef int64_t rest_behind(self, int64_t size) noexcept
    cpdef bint room_to_move(self, int64_t size) except -1
    cpdef bint room_for_note(self, int64_t size) except -1
