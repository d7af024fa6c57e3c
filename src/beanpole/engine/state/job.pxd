# The header of job.py.
cimport cython
from cpython.object cimport PyTypeObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

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

cpdef enum JobCount:
    # How often something has become of a job. Numbered from 0 to index its counts.
    RESERVES = 0
    TIMEOUTS
    RELEASES
    BURIES
    KICKS
    JOB_COUNTS

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

cdef extern from "Python.h":
    object PyObject_Init(void *memory, PyTypeObject *type)   # a new reference

cdef enum:
    INSIDE_MAX = 414                     # bytes of body and tags up to which they lie in the job: pymalloc has up to 512
    APART = 255                          # the `spare` of a job whose body and tags do not
    CARRIES_BYTES = 20                   # in front of a body that lies apart: of each JobCount a u32, counts of 256

cdef union Place:
    # What differs by the state of a job; 0: neither.
    void *holder                         # RESERVED: the Session that holds it, borrowed: it gives its jobs back as it ends
    uint32_t slot                        # COUNTING, and so READY or DELAYED: its place in the queue of expiry

@cython.final
cdef class Job(Item):
    # As an Item, a job stands in the one heap that its state names. Its body follows the fields: see job.py.
    cdef readonly uint64_t id
    cdef readonly Tube tube
    cdef readonly int64_t created_at_ns  # engine clock
    cdef readonly int64_t since_ns       # when it came into its state, engine clock; 0: before the engine served
    cdef Place place
    cdef readonly uint32_t body_bytes    # without CRLF
    cdef readonly uint32_t pri           # the smaller, the sooner
    cdef readonly uint32_t delay_s       # as last asked for by put or release
    cdef readonly uint32_t ttr_s         # 1 or more
    cdef readonly uint8_t state          # a State
    cdef readonly uint8_t flags          # bits of Flag
    cdef readonly uint16_t tag_bytes     # of tagged fields, as they stand in the log (docs/wal-format.md)
    cdef uint8_t[JOB_COUNTS] low_counts  # of each JobCount the lowest byte; the rest lies apart
    cdef uint8_t spare                   # bytes of its memory behind the tags; APART: `inside` is the address of the body
    cdef char[6] inside                  # its body with CRLF, and behind that its tags: as many bytes as they have

cdef inline int64_t deadline_of(Job job) noexcept:
    # When the state of a job ends, engine clock. DELAYED: becomes ready. RESERVED: the TTR runs out. Else 0.
    if job.heap_index < 0:
        return 0
    if job.state == State.DELAYED:
        return entry_of(job.tube.delayed, job).key
    if job.state == State.RESERVED:
        return entry_of((<Session> job.place.holder).reserved, job).key
    return 0

cdef inline char *body_of(Job job) noexcept:
    # Its body with CRLF, and behind that its tags: until either changes.
    cdef char *apart
    if job.spare != APART:
        return job.inside
    memcpy(&apart, job.inside, sizeof(apart))
    return apart

cdef inline Session holder_of(Job job):
    # Who holds it; None: nobody does.
    return <Session> job.place.holder if job.state == State.RESERVED and job.place.holder != NULL else None

cdef inline bint is_held_by(Job job, Session session) noexcept:
    return job.state == State.RESERVED and job.place.holder == <void *> session

cdef inline uint32_t *carries_of(Job job) noexcept:
    # Where what does not fit into the low bytes of its counts lies, if it lies APART.
    return <uint32_t *> (body_of(job) - CARRIES_BYTES)

cdef inline uint32_t job_count(Job job, JobCount what) noexcept:
    # How often that has become of it.
    return job.low_counts[<int> what] | (carries_of(job)[<int> what] << 8 if job.spare == APART else 0)

cdef inline void count_one(Job job, JobCount what) noexcept:
    # Count that something has become of it once more.
    if job.low_counts[<int> what] != 255:
        job.low_counts[<int> what] += 1
    else:
        set_count(job, what, job_count(job, what) + 1)

cdef inline char *tags_of(Job job) noexcept:
    return body_of(job) + job.body_bytes + 2

cdef void set_count(Job job, JobCount what, uint32_t count) noexcept
cdef int set_tags(Job job, const char *tags, Py_ssize_t tag_bytes) except -1
cdef char *resize_tags(Job job, Py_ssize_t tag_bytes) except NULL
cdef bint replace_body(Job job, const char *body, Py_ssize_t body_bytes) noexcept
cdef Job new_job(uint64_t id, Tube tube, const char *body, Py_ssize_t body_bytes, Py_ssize_t tag_room)
