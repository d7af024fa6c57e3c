# The header of rights.py.
from libc.stdint cimport int64_t, uint8_t

from beanpole.engine.state.job cimport Job, is_held_by
from beanpole.engine.state.queue cimport Queue
from beanpole.engine.state.session cimport Session
from beanpole.protocol.commands cimport VERB_COUNT, Command
from beanpole.protocol.replies cimport Word
from beanpole.protocol.rights cimport Right

cpdef enum Of:
    # Of what a command asks for its right.
    NOTHING                              # it needs none, or its result has only what there is a right to
    USED                                 # of the tube in use
    WATCHED                              # of the watched tubes: of one of them
    TUBE                                 # of the tube that it names
    TARGET                               # of the tube that gets its job: the one it names, or the one in use
    JOB                                  # of the tube of the job
    HOLDER                               # the same, and who holds the job needs none
    CHANGED                              # the same as JOB, and put of the tube to which it moves the job
    MOVED                                # of the tube that it names, and put of the one to which it moves jobs
    SCHEDULE                             # of the tube of the schedule
    DOCUMENT                             # the same, and of the tube that its document names
    PATTERN                              # of all tubes that the pattern is for, and put of the one that `dead` names
    SERVER                               # of the server

cdef enum Verdict:
    # What becomes of a command.
    ALLOWED
    REFUSED                              # it is answered
    LATER                                # rights have changed, and its session has so many tubes that it runs in a later turn

cdef struct Asked:
    # What there is to know of the right that a command needs.
    Of of
    uint8_t right                        # bits of Right: one of them
    Word refusal

cdef Asked[VERB_COUNT] asked_of          # by Verb

cdef inline bint may_at_once(Queue queue, Session session, Command command) except -1:
    # Whether it is clear at once that a session of a user may run a command, which is not for the audit: then this counts
    # it. So it is with most.
    cdef Asked *asked = &asked_of[<int> command.verb]
    cdef Job job
    if session.standing.version != session.user.version:
        return False
    if asked.of == Of.USED and asked.right != Right.MANAGE:
        if session.standing.rights & (asked.right | Right.STATS) != asked.right:
            return False
    elif asked.of == Of.WATCHED:
        if session.standing.hidden_count == len(session.watches):
            return False
    elif asked.of == Of.HOLDER:
        job = queue.jobs.find(command.id)
        if job is None or not is_held_by(job, session):
            return False
    elif asked.of != Of.NOTHING:
        return False
    session.user.command_count += 1
    return True

cdef int ask(Queue queue, Session session, Command command) except -1
cdef int refuse(Queue queue, Session session, int right, bytes name, Word refusal) except -1
cdef int refuse_late(Queue queue, Session session, Command command, int right, bytes name) except -1
cdef bytes subject_of(Queue queue, Session session, Command command, bint refused)
cdef int refuse_delete(Queue queue, Session session, Command command) except -1
cdef bint may_delete(Session session, Job job) except -1
cdef bint may_see_all(Session session) noexcept

cdef int auth(Queue queue, int64_t now_ns, Session session, Command command) except -1
cdef int list_rights(Queue queue, int64_t now_ns, Session session, Command command) except -1
