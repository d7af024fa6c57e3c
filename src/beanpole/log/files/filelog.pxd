# The header of filelog.py.
cimport cython
from libc.stdint cimport int64_t

from beanpole.engine.engine cimport Engine
from beanpole.log.accounts cimport Accounts
from beanpole.log.clock cimport LogClock
from beanpole.log.compaction cimport Compaction
from beanpole.log.encoder cimport Encoder, Position
from beanpole.log.files.diskfile cimport File
from beanpole.log.turnlog cimport TurnLog

@cython.final
cdef class FileLog(TurnLog):             # `beanpole.log.log.Log`
    cdef readonly object directory       # `Directory`
    cdef readonly object runner          # `Runner`
    cdef object now_ns                   # `Callable[[], int]`, the monotonic clock; None: that of the system
    cdef object wall_ns                  # the same for the wall clock
    cdef object observer                 # `Observer`
    cdef readonly object policy          # `Policy`
    cdef bint always                     # replies wait for a sync: a field of the policy
    cdef readonly Engine engine
    cdef readonly Accounts accounts
    cdef public Encoder records
    cdef readonly object pool            # `Pool`
    cdef public Compaction compaction
    cdef public object on_durable               # `Callable[[], None]`
    cdef object on_failure               # `Callable[[OSError], None]`
    cdef public object on_pause          # `Callable[[str, int], None]` called with what the log did on the loop, and for how many nanoseconds
    cdef LogClock log_clock
    cdef readonly object open            # `Segment`: the one that is written or being sealed
    cdef File file                       # of that one
    cdef readonly list sealed            # `list[Segment]`
    cdef int64_t sealed_bytes            # bytes of their files
    cdef list unsynced                   # `list[File | Directory]`: what must be synced before the open segment
    cdef int64_t written_lead_ns         # the lead of the wall clock that was written last
    cdef readonly Position written        # what is written
    cdef readonly Position synced         # what is durable
    cdef Position syncing                # what the sync under way makes durable; None: there is none
    cdef public int64_t short_syncs      # syncs in a row, the last one among them, that were short
    cdef int64_t next_size               # bytes of the next segment while the open one is being sealed; 0: it is not
    cdef object previous                 # `tuple[File, int] | None`: the segment before, which does not say yet that another follows
    cdef str full_reason
    cdef bint preparing                  # a segment is being prepared, or the disk is asked for space in a while
    cdef bint scheduled                  # an append is to come soon
    cdef readonly object failure         # `OSError | None`
    cdef bint closed
    cdef int64_t now(self) except? -1
    cdef int64_t wall(self) except? -1
    cdef (int64_t, int64_t) clock(self) except *
    cdef bint is_ended(self) noexcept
    cdef bint is_sealing(self) except -1
    cdef int append_records(self, bint with_time) except -1
    cdef int write_turn(self) except -1
    cdef int write(self) except -1
    cdef int start_sync(self) except -1
    cdef bint may_sync_here(self) except -1
    cdef int sync_here(self) except -1
    cdef int count_sync(self, int64_t took_ns) except -1
    cdef int64_t took(self, str what, int64_t began_ns) except -1
    cdef bint compact_some(self) except -1
    cdef int compact(self) except -1
    cdef int prepare(self) except -1
    cdef int remove_emptied(self) except -1
    cdef bint is_full(self) noexcept
