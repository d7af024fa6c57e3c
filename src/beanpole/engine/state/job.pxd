# The header of job.py.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from beanpole.engine.state.heap cimport Item, entry_of
from beanpole.engine.state.session cimport Session
from beanpole.engine.state.tube cimport Tube

cpdef enum State:
    # Where a job is. Numbered from 0 to index the engine's counts.
    READY = 0
    RESERVED
    DELAYED
    BURIED
    STATE_COUNT

cpdef enum Flag:
    # What concerns few jobs, as a bit of a byte that is 0 for all others.
    HOLDS_KEY = 1                        # it is in the index of keys
    UNTIL_RESERVE = 2                    # it never holds its key again once it was handed out
    SUPERSEDED = 4                       # another job took its key while it was held: it is deleted when it comes back
    KEYED = 8                            # it holds its key while it is not buried
    EXPIRES = 16                         # its tags say when it is over
    COUNTING = 32                        # it stands in the queue of those that expire
    DUE = 64                             # READY: its delay was over by itself; of DELAYED the bit is FAILED
    FAILED = 64                          # DELAYED: an attempt failed that its tags don't say, for want of room in the log
    GROUPED = 128                        # it has a group

cdef struct JobNumbers:
    # A job's numbers as a log keeps them; times are moments of the log's clock.
    uint64_t id
    int64_t created_at_ns
    int64_t deadline_at_ns               # DELAYED: becomes ready; else 0
    uint64_t bury_order                  # BURIED: later buried jobs have higher ones; else 0
    uint32_t pri
    uint32_t delay_s
    uint32_t ttr_s
    uint32_t reserve_count
    uint32_t timeout_count
    uint32_t release_count
    uint32_t bury_count
    uint32_t kick_count
    uint8_t state                        # a State, but never RESERVED

@cython.final
cdef class Job(Item):
    # As an Item, a job stands in the one heap that its state names.
    cdef readonly uint64_t id
    cdef readonly Tube tube
    cdef Session holder                  # RESERVED: who holds it; else None
    cdef char *body                      # its bytes with CRLF, and behind them its tags; ours
    cdef void *chained                   # the next job of its bucket in the job table
    cdef readonly int64_t created_at_ns  # engine clock
    cdef readonly int64_t since_ns       # when it came into its state, engine clock; 0: before the engine served
    cdef readonly uint32_t body_bytes    # without CRLF
    cdef readonly uint32_t pri           # the smaller, the sooner
    cdef readonly uint32_t delay_s       # as last asked for by put or release
    cdef readonly uint32_t ttr_s         # 1 or more
    cdef readonly uint32_t reserve_count
    cdef readonly uint32_t timeout_count
    cdef readonly uint32_t release_count
    cdef readonly uint32_t bury_count
    cdef readonly uint32_t kick_count
    cdef readonly uint8_t state          # a State
    cdef readonly uint8_t flags          # bits of Flag
    cdef readonly uint16_t tag_bytes     # of tagged fields, as they stand in the log (docs/wal-format.md)
    cdef readonly uint32_t segment       # the log's segment that holds it whole; 0: none
    cdef uint32_t slot                   # COUNTING: its place in the queue of expiry; else 0

cdef inline int64_t deadline_of(Job job) noexcept:
    # When the state of a job ends, engine clock. DELAYED: becomes ready. RESERVED: the TTR runs out. Else 0.
    if job.heap_index < 0:
        return 0
    if job.state == State.DELAYED:
        return entry_of(job.tube.delayed, job).key
    if job.state == State.RESERVED:
        return entry_of(job.holder.reserved, job).key
    return 0

cdef int set_tags(Job job, const char *tags, Py_ssize_t tag_bytes) except -1
cdef bint replace_body(Job job, const char *body, Py_ssize_t body_bytes) noexcept
cdef Job new_job(uint64_t id, Tube tube, const char *body, Py_ssize_t body_bytes)
