# The header of commands.py: the verbs, and every field of a decoded command with its unit and when it is valid.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from beanpole.protocol.extensions cimport Arguments

cpdef enum Verb:
    # What a client can ask for, in the order of the counters in stats. 0 means "none", so that a table of counters can
    # be indexed by verb.
    NONE = 0
    PUT
    PEEK
    PEEK_READY
    PEEK_DELAYED
    PEEK_BURIED
    RESERVE
    RESERVE_WITH_TIMEOUT
    DELETE
    RELEASE
    USE
    WATCH
    IGNORE
    BURY
    KICK
    TOUCH
    STATS
    STATS_JOB
    STATS_TUBE
    LIST_TUBES
    LIST_TUBE_USED
    LIST_TUBES_WATCHED
    PAUSE_TUBE
    RESERVE_JOB
    KICK_JOB
    QUIT
    # What a client can get wrong, in the same place: a mistake is a value.
    UNKNOWN_COMMAND
    BAD_FORMAT
    JOB_TOO_BIG
    EXPECTED_CRLF
    # What beanstalkd does not know: the extensions, by the table of which they are served.
    LIST_EXTENSIONS
    PUT_JOB
    FIND_JOB
    RESERVE_MANY
    DELETE_MANY
    TOUCH_MANY
    FAIL_JOB
    SNOOZE_JOB
    CHANGE_JOB
    CHANGE_BODY
    CLEAR_TUBE
    MOVE_JOBS
    LIST_JOBS
    STATS_TUBES
    LIST_SESSIONS
    NAME_SESSION
    EXPLAIN
    EXPLAIN_TUBE
    CANCEL_RESERVE
    SET_RULES
    GET_RULES
    LIST_RULES
    DROP_RULES
    STATS_HISTOGRAMS
    STATS_FAILURES
    SET_SCHEDULE
    GET_SCHEDULE
    LIST_SCHEDULES
    DROP_SCHEDULE
    PAUSE_SCHEDULE
    FIRE_SCHEDULE
    KEEP_SESSION
    CANCEL_JOB
    CANCEL_KEY
    STATS_GROUPS
    PAUSE_GROUP
    # Where connections have users.
    AUTH
    LIST_RIGHTS
    VERB_COUNT

cdef enum Shape:
    # What follows a verb.
    BARE                                 # nothing: the line ends
    ANYTHING                             # nothing is looked at
    ID                                   # <id>
    ID_PRI                               # <id> <pri>
    ID_PRI_DELAY                         # <id> <pri> <delay>
    PRI_DELAY_TTR_BYTES                  # <pri> <delay> <ttr> <bytes>
    TUBE                                 # <tube>
    TUBE_DELAY                           # <tube> <seconds>
    TIMEOUT                              # <seconds>, and nothing is looked at behind
    BOUND                                # <bound> as strtoul reads it

@cython.final
@cython.no_gc
cdef class Command:
    cdef readonly Verb verb
    cdef readonly Verb counted
    # Whose counter this command raises: mostly its own; PUT for a put that went wrong after its numbers; NONE for
    # what beanstalkd does not count.
    cdef readonly uint64_t id            # PEEK RESERVE_JOB DELETE RELEASE BURY KICK_JOB TOUCH STATS_JOB
    cdef readonly uint32_t pri           # PUT RELEASE BURY
    cdef readonly int64_t delay_ns       # PUT RELEASE; PAUSE_TUBE: how long the pause is
    cdef readonly uint32_t ttr_s         # PUT: 1 or more
    cdef readonly uint32_t timeout_s     # RESERVE_WITH_TIMEOUT
    cdef readonly uint32_t bound         # KICK: how many jobs at the most
    cdef const char *tube_at             # USE WATCH IGNORE STATS_TUBE PAUSE_TUBE: into the decoder's input
    cdef readonly Py_ssize_t tube_bytes  # bytes at tube_at
    cdef const char *body_at             # PUT: into the decoder's input, CRLF included
    cdef readonly Py_ssize_t body_bytes  # PUT: bytes at body_at, CRLF not counted
    cdef Arguments args                  # of an extension; its pointers lead into the decoder's input as well
    cdef readonly bint closes            # a mistake behind which nothing can be understood: the connection is closed
