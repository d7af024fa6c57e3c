# The header of format.py: the layout of docs/wal-format.md. Numbers are little-endian, nothing is aligned.
from libc.stdint cimport int64_t, uint32_t

from beanpole.engine.state.job cimport Job, JobNumbers
from beanpole.engine.state.schedule cimport Schedule
from beanpole.engine.state.tube cimport GroupPause, RuleSet, Tube

cpdef enum Kind:
    # The first byte of a record's payload.
    WHOLE = 1                            # a job with its tube and body
    CHANGED = 2                          # a job without them
    DELETED = 3                          # a job's id: it is gone
    TUBE = 4                             # a tube's pause
    TURN = 5                             # the end of what one turn wrote
    END = 6                              # the segment is complete
    RULES = 8                            # the rules of tubes
    SCHEDULE = 9                         # a schedule with its document; without one it is dropped
    FIRED = 10                           # what a schedule's state is now, and the job that it has put, if it has
    GROUP = 11                           # a group's pause
    ONCE = 12                            # the token of a put that is done once, and the job that it put, if it has
    SHARD = 13                           # the numbers of the shard
    # From 128 on: a program that doesn't know the kind passes over the record.
    FIRST = 129                          # the oldest segment that is still needed
    NEXT = 130                           # behind END: the next segment has begun
    RESERVED = 131                       # somebody has a job until a moment; in a cluster's log only
    ATTEMPT = 132                        # somebody has begun with a job whose attempts count
    KEPT = 133                           # a job that somebody has waits for who has its token, or for nobody any more

cdef enum:
    VERSION_2_HEADER = 56
    VERSION_2_WHOLE_FIXED = 75           # without the length of the tags
    CLOSING_BYTES = 34                   # END, and NEXT behind it: each segment keeps room for both
    OPTIONAL = 128                       # the bit of a kind or a tag that a program may ignore which doesn't know it

cpdef enum:
    # Sizes in bytes. A record is FRAME and a payload; the payload begins with its kind.
    SEGMENT_HEADER = 72
    FRAME = 8
    JOB_NUMBERS = 65                     # a job's numbers
    WHOLE_FIXED = 77                     # FRAME, kind, JOB, lengths of name and tags; name, tags and body follow
    CHANGED_RECORD = 74                  # FRAME, kind, JOB; tags follow
    DELETED_RECORD = 17
    TUBE_FIXED = 22                      # FRAME, kind, pause, until, length of the name; name and tags follow, of GROUP its own name
    TURN_RECORD = 45
    END_RECORD = 17
    FIRST_RECORD = 17
    NEXT_RECORD = 17
    SHARD_RECORD = 17
    RESERVED_RECORD = 29                 # FRAME, kind, id, until, how often it was reserved
    ATTEMPT_RECORD = 25                  # FRAME, kind, id, which attempt it is, how often it was reserved
    KEPT_FIXED = 23                      # FRAME, kind, id, how often it was reserved, seconds; a token's hash follows, or nothing
    ONCE_RECORD = 41                     # FRAME, kind, a token's hash, until when, the job's id
    ONCE_JOB_FIXED = 50                  # with 9 zeros behind it, behind which a job follows as in WHOLE
    RULES_FIXED = 17                     # FRAME, kind, when they were set; the pattern follows, LF and the rules
    STATE_BYTES = 57                     # a schedule's state
    SCHEDULE_FIXED = 76                  # FRAME, kind, state, when it was set, level, length of the name; name and document
    FIRED_FIXED = 67                     # FRAME, kind, state, length of the name; the name follows, and a job as in WHOLE
    TAG_FIXED = 3                        # a tag's number and length; its bytes follow

cdef int64_t whole_bytes(Job job) noexcept
cdef int64_t pause_bytes(Tube tube) noexcept
cdef int64_t group_bytes(GroupPause pause) noexcept
cdef int64_t rules_bytes(RuleSet rules) noexcept
cdef int64_t schedule_bytes(Schedule schedule) noexcept
cdef uint32_t record_crc(const unsigned char *at, Py_ssize_t size, uint32_t salt) noexcept
