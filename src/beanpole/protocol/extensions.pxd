# The header of extensions.py: what can stand behind the verb of an extension.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cpdef enum Kind:
    # What can stand behind the verb of an extension: each is a field of Arguments and the way to read it.
    BYTES                                # bytes of the body that follows the line
    TEXT_BYTES                           # the same of the reason for a failure
    RULES_BYTES                          # the same of the rules of a tube
    DOCUMENT_BYTES                       # the same of the document of a schedule
    ID
    IDS                                  # the rest of the line: one id or more
    TUBE
    TO                                   # a tube as well
    SCHEDULE                             # a schedule, named as a tube
    PATTERN                              # a tube, a prefix of tubes with `*` behind it, or `*`
    STATE                                # of a job: ready reserved delayed buried
    RESTING_STATE                        # of a job that nobody holds
    RESTING_STATES                       # the rest of the line: none, or several
    COUNT                                # jobs to reserve; 0: none, but be told of one
    LIMIT                                # of a list, from 1
    BOUND                                # jobs at the most
    TIMEOUT                              # seconds, with up to three decimals as all durations
    SECONDS
    PRI
    DELAY
    WITHIN                               # since the job was put first
    TTR                                  # whole seconds
    EXPIRE
    KEY                                  # of a job
    NAME                                 # the rest of the line: what a session is called
    TAKEN                                # keep or replace: what happens when the key is taken
    UNTIL                                # delete or reserve: when the key is free again
    DEAD                                 # now
    ORDER                                # next: the order in which jobs are handed out
    BODIES                               # bytes of bodies in a list
    FIELDS                               # what else a list says of each job
    AFTER                                # the last id of the page before
    AFTER_TUBE                           # the last tube of the page before
    AFTER_PATTERN
    AFTER_SCHEDULE
    SWITCH                               # on or off
    AT                                   # seconds since 1970
    GROUP                                # of a job
    META                                 # its headers, as `name:value,name:value`
    KEEP                                 # whole seconds, up to KEEP_S_MAX
    TOKEN                                # 32 hex digits
    ENDS                                 # all: which ends of a connection
    SAME                                 # same: jobs of one group
    GROUP_ORDER                          # held or ready: by what groups are listed
    ONCE                                 # of a put
    FOR                                  # whole seconds, from 1 up to ONCE_S_MAX
    KIND_COUNT

cpdef enum:
    # What is served besides what a format of a cluster's log has: added to that format.
    FORMAT_BITS = 0x1F                   # those of the format
    USERS_SERVED = 0x20                  # list-rights: connections have users
    AUTH_SERVED = 0x40                   # auth: the connection is encrypted, or a Unix socket
    HEARS_FORBIDDEN = 0x80               # of a session alone: it has asked for the extensions, and knows the word

cpdef enum Field:
    # What list-jobs says of a job when it is asked to.
    SESSION
    PEER
    LEFT
    REASON
    HISTORY
    FIELD_COUNT

cdef struct Arguments:
    # What stands behind the verb of an extension. A field that was not given is 0, as `given` says.
    uint64_t given                       # a bit for each Kind
    Py_ssize_t body_bytes                # BYTES TEXT_BYTES RULES_BYTES DOCUMENT_BYTES
    uint64_t id
    uint64_t after
    const char *ids_at                   # IDS, one space between them
    Py_ssize_t ids_bytes
    Py_ssize_t id_count
    const char *tube_at                  # TUBE PATTERN SCHEDULE
    Py_ssize_t tube_bytes
    const char *to_at
    Py_ssize_t to_bytes
    const char *after_at                 # AFTER_TUBE AFTER_PATTERN AFTER_SCHEDULE
    Py_ssize_t after_bytes
    const char *group_at                 # GROUP
    Py_ssize_t group_bytes
    const char *meta_at                  # META
    Py_ssize_t meta_bytes
    const char *key_at                   # KEY NAME TOKEN
    Py_ssize_t key_bytes
    const char *once_at                  # ONCE
    Py_ssize_t once_bytes
    int64_t timeout_ns
    int64_t delay_ns                     # DELAY SECONDS
    int64_t within_ns
    int64_t expire_ns
    int64_t at_ns                        # AT: since 1970
    uint32_t pri
    uint32_t ttr_s                       # 1 or more
    uint32_t count                       # COUNT LIMIT BOUND KEEP
    uint32_t once_s                      # FOR
    uint32_t bodies
    uint8_t fields                       # FIELDS: a bit for each Field
    uint8_t states                       # a bit for each State: STATE RESTING_STATE RESTING_STATES
    bint replace                         # TAKEN: replace
    bint until_reserve                   # UNTIL: reserve
    bint on                              # SWITCH: on
    bint by_held                         # GROUP_ORDER: held

cdef uint64_t bit(Kind kind) noexcept
cdef dict named(Arguments *args)
