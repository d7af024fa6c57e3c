# The header of reader.py.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.engine.state.job cimport JobNumbers
from beanpole.engine.state.schedule cimport ScheduleState

cdef enum Verdict:
    # What stands at a byte of a segment.
    UNKNOWN = -3                         # a good record of a kind, or with a tag, that must be known and isn't
    SENSELESS = -2                       # a good checksum over what no program writes
    TORN = -1                            # a wrong length or checksum
    NOTHING = 0                          # zeros, or less than a frame
    GOOD = 1

cdef struct Record:
    # A record, as far as its kind has these fields. Pointers lead into the segment's bytes.
    int kind                             # a Kind, or one above OPTIONAL that this program doesn't know
    Py_ssize_t size                      # bytes, with the frame
    int tag                              # UNKNOWN: the tag; 0: it is the kind
    const unsigned char *payload         # behind the kind
    bint is_whole                        # it holds a job whole: WHOLE, FIRED and ONCE where one was put
    JobNumbers job                       # of that, CHANGED; of DELETED the id
    const unsigned char *name            # of a whole job's tube; TUBE, GROUP
    Py_ssize_t name_bytes
    const unsigned char *tags            # of a whole job; CHANGED, TUBE
    Py_ssize_t tag_bytes
    const unsigned char *body            # of a whole job; SCHEDULE: the document; GROUP: its name
    Py_ssize_t body_bytes
    ScheduleState state                  # SCHEDULE, FIRED
    const unsigned char *schedule        # SCHEDULE, FIRED: the name
    Py_ssize_t schedule_bytes
    int level                            # SCHEDULE
    uint32_t pause_s                     # TUBE, GROUP; KEPT: for how long
    int64_t moment_ns                      # TUBE, GROUP: when the pause ends; TURN: the time; RESERVED, ONCE: until when; SCHEDULE: when it was set
    int64_t lead_ns                      # TURN: how far the wall clock was ahead of that
    uint64_t number                      # END: the next id; TURN: the segment durable; FIRST, NEXT: a segment; ONCE: a job's id
    uint32_t attempt                     # ATTEMPT
    uint64_t durable_bytes               # TURN: bytes of it

cdef int fixed_bytes(int kind, int version) noexcept
cdef Verdict read_record(const unsigned char *at, Py_ssize_t left, uint32_t salt, int version, Record *record) noexcept
cdef Verdict parse(const unsigned char *at, int version, Record *record) noexcept
cdef Verdict parse_schedule(const unsigned char *at, Py_ssize_t size, Record *record) noexcept
cdef Verdict parse_whole(const unsigned char *at, Py_ssize_t size, int version, Record *record) noexcept
cdef Verdict parse_job(const unsigned char *at, Record *record) noexcept
cdef Verdict parse_tags(Record *record) noexcept
cdef object problem_of(Verdict verdict, Record *record)
