# The header of format.py: the layout of docs/wal-format.md. Numbers are little-endian, nothing is aligned.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from beanpole.engine.job cimport Job
from beanpole.engine.records cimport Records
from beanpole.engine.tube cimport Tube

cpdef enum Kind:
    # The first byte of a record's payload.
    WHOLE = 1                            # a job with its tube and body
    CHANGED = 2                          # a job without them
    DELETED = 3                          # a job's id: it is gone
    TUBE = 4                             # a tube's pause
    TURN = 5                             # the end of what one turn wrote
    END = 6                              # the segment is complete

cpdef enum:
    # Sizes in bytes. A record is FRAME and a payload; the payload begins with its kind.
    SEGMENT_HEADER = 56
    FRAME = 8
    JOB_NUMBERS = 65                     # a job's numbers
    WHOLE_FIXED = 75                     # FRAME, kind, JOB, length of the name; name and body follow
    CHANGED_RECORD = 74
    DELETED_RECORD = 17
    TUBE_FIXED = 22                      # FRAME, kind, pause, until, length of the name; the name follows
    TURN_RECORD = 45
    END_RECORD = 17

cdef struct JobNumbers:
    # A job's numbers as they stand in a record; times are wall clock.
    uint64_t id
    int64_t created_at_ns
    int64_t deadline_at_ns
    uint64_t bury_order
    uint32_t pri
    uint32_t delay_s
    uint32_t ttr_s
    uint32_t reserve_count
    uint32_t timeout_count
    uint32_t release_count
    uint32_t bury_count
    uint32_t kick_count
    uint8_t state

@cython.final
cdef class Encoder(Records):
    cdef unsigned char *buffer           # records that are not written to the file yet
    cdef readonly Py_ssize_t size        # bytes in it
    cdef Py_ssize_t capacity             # bytes allocated
    cdef public set stale_pauses         # tubes whose pause must not come back, which is still to be written
    cdef object space                    # asked for another segment and for room; see wal.filelog.FileLog
    cdef readonly int64_t wall_offset_ns # the log's clock minus the engine's
    cdef readonly uint32_t salt          # what the checksums of this process's records begin with

    cdef readonly uint64_t segment       # number of the segment that is written
    cdef readonly uint64_t used_bytes    # bytes of it, those in the buffer too
    cdef readonly uint64_t segment_bytes # bytes that it can take
    cdef public uint64_t spare_bytes     # bytes of records that prepared segments can take
    cdef public uint64_t kept_free_bytes # bytes that puts leave free: for compaction, changes and deletes

    cdef public int64_t moved_bytes      # bytes of jobs that the round of compaction under way has written

    cdef int64_t *live                   # bytes of live jobs by segment, from first_segment on
    cdef Py_ssize_t live_capacity
    cdef readonly uint64_t first_segment # the oldest segment
    cdef readonly int64_t live_bytes     # bytes of the whole records of all live jobs
    cdef readonly uint64_t live_count    # live jobs
    cdef readonly uint64_t record_count  # records of jobs and tubes ever written by this process

    cdef unsigned char *begin(self, Py_ssize_t size) except NULL
    cdef int finish(self, unsigned char *at, Py_ssize_t size) except -1
    cdef unsigned char *job(self, unsigned char *at, Job job) noexcept
    cdef int pause(self, bytes name, uint32_t pause_s, int64_t until_wall_ns) except -1
    cdef int settle(self, Job job, int64_t size) except -1
    cdef bint has_room(self, int64_t size, int64_t rest) except -1
    cdef int64_t kept(self, int parts) noexcept
    cpdef int64_t kept_from_moves(self) noexcept
    cdef int64_t rest_behind(self, int64_t size) noexcept
    cpdef bint room_to_move(self, int64_t size) except -1
    cpdef bint room_for_note(self, int64_t size) except -1

cdef int64_t whole_bytes(Job job) noexcept
cdef const unsigned char *read_job(const unsigned char *at, JobNumbers *numbers) noexcept
cdef uint32_t record_crc(const unsigned char *at, Py_ssize_t size, uint32_t salt) noexcept
