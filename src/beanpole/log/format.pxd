# The header of format.py: the layout of docs/wal-format.md. Numbers are little-endian, nothing is aligned.
from libc.stdint cimport int64_t, uint32_t

from beanpole.engine.job cimport Job, JobNumbers
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

cdef int64_t whole_bytes(Job job) noexcept
cdef int64_t pause_bytes(Tube tube) noexcept
cdef const unsigned char *read_job(const unsigned char *at, JobNumbers *numbers) noexcept
cdef uint32_t record_crc(const unsigned char *at, Py_ssize_t size, uint32_t salt) noexcept
