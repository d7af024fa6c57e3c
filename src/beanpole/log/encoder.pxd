# The header of encoder.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.once cimport Token
from beanpole.engine.state.records cimport Records
from beanpole.engine.state.schedule cimport Schedule, ScheduleState
from beanpole.engine.state.tube cimport Tube
from beanpole.log.accounts cimport Accounts
from beanpole.protocol.buffer cimport Buffer

@cython.final
cdef class Position:
    cdef readonly uint64_t record        # the last one before it
    cdef readonly uint64_t segment       # its number
    cdef readonly int64_t used_bytes     # of that

cdef struct Piece:
    # Records to be written in one go; see Encoder.piece.
    const char *data
    Py_ssize_t size
    int64_t next_bytes                   # bytes of the segment that begins behind it; 0: none does

@cython.final
cdef class Encoder(Records):
    cdef readonly Accounts accounts      # what is alive and what is free
    cdef Buffer buffer                   # records that are not written to files yet; nothing is consumed before all are
    cdef Py_ssize_t taken                # bytes of it that are written, as far as a segment ended
    cdef uint64_t taken_index            # the last record in them; counted by take_row alone
    cdef bint at_header                  # a segment's header comes next; known to take_row alone
    cdef int64_t unwritten_bytes_max     # bytes that are not written, above which commands wait; 0: none do
    cdef list cuts                       # where segments end in it: (bytes before, place, bytes of the next segment)
    cdef public set stale_pauses         # `set[bytes]`: tubes whose pause must not come back, which is still to be written
    cdef public (int64_t, int64_t) clock # `tuple[int, int]`: the time for headers and turns, as of the last turn's end; see log.clock
    cdef public uint64_t next_job_id     # the id of the next job
    cdef public tuple shard              # `tuple[int, ...]`: the numbers that each segment begins with; (): none, as in a cluster's log
    cdef readonly uint32_t salt          # what the checksums of this process's records begin with

    cdef readonly uint64_t segment       # number of the segment that is written
    cdef readonly int64_t used_bytes     # bytes of it, those in the buffer too
    cdef readonly int64_t segment_bytes  # bytes that it can take
    cdef int64_t deletes_bytes           # bytes of it that are kept for the deletes of the jobs in it
    cdef readonly int64_t wanted_bytes   # the largest record of a job that waits for space
    cdef readonly int64_t written_bytes  # bytes ever written
    cdef readonly uint64_t record_count  # records of jobs and tubes ever written by this process

    cdef unsigned char *begin(self, Py_ssize_t size) except NULL
    cdef unsigned char *begin_alive(self, Py_ssize_t size) except NULL
    cdef unsigned char *grow(self, Py_ssize_t size) except NULL
    cdef int finish(self, unsigned char *at, Py_ssize_t size) except -1
    cdef int finish_job(self, unsigned char *at, Py_ssize_t size, Job job) except -1
    cdef unsigned char *job(self, unsigned char *at, Job job) noexcept
    cdef void whole(self, unsigned char *at, Job job) noexcept
    cdef Py_ssize_t kept_behind(self, Job job, Py_ssize_t size) except -1
    cdef int keep_on(self, Job job) except -1
    cdef int let_loose(self) except -1
    cdef void token(self, unsigned char *at, const uint64_t *mark, Token *token) noexcept
    cdef int write_shard(self) except -1
    cdef int schedule(self, Schedule schedule, bytes text) except -1
    cdef int pause(self, int kind, bytes name, uint32_t pause_s, int64_t until_ns, bytes rest) except -1
    cdef Position place(self)
    cdef Position piece(self, Piece *piece)
    cdef int end_piece(self, Piece *piece) except -1
    cpdef int turn(self, uint64_t durable_segment, uint64_t durable_bytes) except -1
    cpdef bint room_for_turn(self) noexcept
    cpdef int begin_segment(self, Py_ssize_t size) except -1
    cpdef int end_segment(self) except -1
    cpdef int64_t left(self) noexcept
    cpdef int64_t left_for_jobs(self) noexcept
    cdef int room_for(self, int64_t record_bytes, int64_t left) except -1
