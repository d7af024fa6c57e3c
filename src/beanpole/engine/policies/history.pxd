# The header of history.py.
from libc.stdint cimport int64_t

from beanpole.engine.state.job cimport Job
from beanpole.engine.state.queue cimport Queue

cpdef enum End:
    # How the attempt at a job has ended; the numbers stand in the log.
    SNOOZED = 0                          # by its holder, with nothing wrong: it was none
    FAILED = 1                           # by its holder, with fail-job
    RELEASED = 2                         # by its holder, with release
    BURIED = 3                           # by its holder, with bury
    TIMED_OUT = 4                        # its time to run is over
    LOST = 5                             # its holder is gone
    EXCUSED = 6                          # one of these two, while the tube's breaker is closed: it was none

cdef enum:
    ENTRIES_MAX = 5
    ENTRY_FIXED = 11                     # when i64, End u8, bytes of the holder u8, bytes of the error u8; these follow
    HOLDER_BYTES_MAX = 100
    ERROR_BYTES_MAX = 200
    HISTORY_BYTES_MAX = 1555             # five entries

cdef struct History:
    # What the tag HISTORY of a job is to say.
    Py_ssize_t size
    char text[HISTORY_BYTES_MAX]

cdef struct Ended:
    # An entry of it.
    int64_t at_ns                        # when, engine clock
    int how                              # an End, or what a newer program wrote
    const char *holder                   # the name or the address of who had the job; empty: nobody knows
    Py_ssize_t holder_bytes
    const char *error                    # the first line of what it said with fail-job; empty: nothing
    Py_ssize_t error_bytes

cdef bint keeps_history(Job job) noexcept
cdef int make_history(
    Queue queue, int64_t now_ns, Job job, End end, const char *error, Py_ssize_t error_bytes, History *history
) except -1
cdef bint note_end(Queue queue, int64_t now_ns, Job job, End end, bint whole, int64_t size) except? True
cdef bint next_ended(const char **at, const char *stop, Ended *ended) noexcept
