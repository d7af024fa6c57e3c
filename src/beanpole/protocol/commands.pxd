# The header of commands.py: the verbs, and every field of a decoded command with its unit and when it is valid.
cimport cython
from libc.stdint cimport uint32_t, uint64_t

cpdef enum Verb:
    # What a client can ask for. 0 means "none", so that a table of counters can be indexed by verb.
    NONE = 0
    PUT
    PEEK
    PEEK_READY
    PEEK_DELAYED
    PEEK_BURIED
    RESERVE
    RESERVE_WITH_TIMEOUT
    RESERVE_JOB
    DELETE
    RELEASE
    BURY
    KICK
    KICK_JOB
    TOUCH
    STATS_JOB
    STATS_TUBE
    STATS
    USE
    WATCH
    IGNORE
    LIST_TUBES_WATCHED
    LIST_TUBE_USED
    LIST_TUBES
    QUIT
    PAUSE_TUBE
    # What a client can get wrong, in the same place: a mistake is a value.
    UNKNOWN_COMMAND
    BAD_FORMAT
    JOB_TOO_BIG
    EXPECTED_CRLF
    VERB_COUNT

@cython.final
@cython.no_gc
cdef class Command:
    cdef readonly Verb verb
    cdef readonly Verb counted
    # Whose counter this command raises: mostly its own; PUT for a put that went wrong after its numbers; NONE for
    # what beanstalkd does not count.
    cdef readonly uint64_t id            # PEEK RESERVE_JOB DELETE RELEASE BURY KICK_JOB TOUCH STATS_JOB
    cdef readonly uint32_t pri           # PUT RELEASE BURY
    cdef readonly uint32_t delay_s       # PUT RELEASE; PAUSE_TUBE: seconds of the pause
    cdef readonly uint32_t ttr_s         # PUT: 1 or more
    cdef readonly uint32_t timeout_s     # RESERVE_WITH_TIMEOUT
    cdef readonly uint32_t bound         # KICK: how many jobs at the most
    cdef const char *tube_at             # USE WATCH IGNORE STATS_TUBE PAUSE_TUBE: into the decoder's input
    cdef readonly Py_ssize_t tube_bytes  # bytes at tube_at
    cdef const char *body_at             # PUT: into the decoder's input, CRLF included
    cdef readonly Py_ssize_t body_bytes  # PUT: bytes at body_at, CRLF not counted
    cdef bytes owned                     # what tube_at or body_at points into, when own() was called
    cdef int own(self) except -1
