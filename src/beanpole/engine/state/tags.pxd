# The header of tags.py.
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from beanpole.engine.state.job cimport Job

cpdef enum Tag:
    # The tags of a job that mean something here (docs/wal-format.md).
    KEY = 1                              # bits of KeyBit, and the key
    EXPIRE = 2                           # when its time is over, how long that is, and bits of ExpireBit
    GROUP = 4                            # whose job it is
    ATTEMPTS = 129                       # which attempt was the last one to begin, and whether it is under way
    DEATH = 130                          # when, after how many attempts, why and in which tube it died
    FAILURE_TEXT = 131                   # why its last attempt failed, as its worker said
    SCHEDULED = 132                      # which schedule has put it, for which of its times
    META = 134                           # its headers, as they were put
    HISTORY = 135                        # how its last attempts failed

cdef enum:
    TAG_FRAME_BYTES = 3                  # in front of what a tag says: its number and its size
    # What tags say, in bytes (docs/wal-format.md):
    EXPIRY_BYTES = 17                    # moment i64, duration i64, bits of ExpireBit
    ATTEMPT_BYTES = 5                    # which attempt u32, whether it is under way
    DEATH_FIXED = 14                     # when i64, attempts u32, why u8, bytes of the name u8; the name follows

    SCHEDULED_FIXED = 16                 # for when i64, which fire u64; the schedule's name follows

cpdef enum KeyBit:
    UNTIL_RESERVE = 1                    # the key is free when the job is handed out
    SUPERSEDED = 2                       # another job took the key while this one was held
    BODY = 4                             # the key is the body, by a rule of the tube
    FREED = 8                            # the job doesn't hold the key again

cpdef enum ExpireBit:
    OWN = 1                              # who put the job said so, not a rule of its tube
    DEAD = 2                             # then it is dead, and not deleted

cdef struct Death:
    int64_t at_ns
    uint32_t attempts                    # how often it had been tried
    int why                              # a Why, or what a newer program wrote
    const char *tube                     # the name of the one in which it died
    Py_ssize_t tube_bytes

cdef struct Scheduled:
    int64_t at_ns                        # the time of the schedule that it was put for, UTC
    uint64_t fire                        # which fire of the schedule it is, from 1; 0: somebody fired it by hand
    const char *name
    Py_ssize_t name_bytes

cdef bint read_scheduled(Job job, Scheduled *scheduled) noexcept
cdef int put_scheduled(Job job, int64_t at_ns, uint64_t fire, bytes name) except -1
cdef bint read_death(Job job, Death *death) noexcept
cdef int read_flags(Job job) except -1
cdef const char *find_tag(Job job, Tag tag, Py_ssize_t *size) noexcept
cdef Py_ssize_t tags_after(Job job, Tag tag, Py_ssize_t size) noexcept
cdef int put_tag(Job job, Tag tag, const char *data, Py_ssize_t size) except -1
cdef void put_number(char *at, uint64_t number, int size) noexcept
cdef uint64_t get_number(const char *at, int size) noexcept
cdef uint32_t attempt_of(Job job, bint *under_way) noexcept
cdef int put_attempt(Job job, uint32_t attempt, bint under_way) except -1
