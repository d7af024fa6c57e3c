"""What right each command needs, of what, and what it answers without: a table; and the commands about rights.

Where connections have users, :func:`ask` decides before a command runs, and nothing of one that is refused is counted
or done. It answers ``NOT_FOUND`` where the protocol has that, as if what it names were not there, else
``UNKNOWN_COMMAND``. A session that has asked for the extensions hears ``FORBIDDEN <right> <tube>`` instead, but not of
a job or a schedule of a tube to which it has no right at all: that there is one is not its business.

What a command says of several tubes (lists, pages, ``stats``) it leaves out itself, by the same patterns.
"""

from heapq import nlargest

import cython
from cython.cimports.beanpole.engine.commands.hiding import find_used, renew
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.schedule import Schedule
from cython.cimports.beanpole.engine.state.session import Session, Standing
from cython.cimports.beanpole.engine.state.tube import Space, Watch
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.protocol.commands import VERB_COUNT, Command, Verb
from cython.cimports.beanpole.protocol.extensions import HEARS_FORBIDDEN, Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.beanpole.protocol.rights import Grants, Right
from cython.cimports.libc.stdint import uint64_t

UNKNOWN = Word.UNKNOWN_COMMAND
NUMBERS = Right.ANY

ASKED: dict = {
    Verb.PUT: (Right.PUT, Of.USED, UNKNOWN),
    Verb.PUT_JOB: (Right.PUT, Of.TARGET, UNKNOWN),
    Verb.RESERVE: (Right.RESERVE, Of.WATCHED, UNKNOWN),
    Verb.RESERVE_WITH_TIMEOUT: (Right.RESERVE, Of.WATCHED, UNKNOWN),
    Verb.RESERVE_MANY: (Right.RESERVE, Of.WATCHED, UNKNOWN),
    Verb.DELETE: (Right.RESERVE, Of.HOLDER, Word.NOT_FOUND),  # of a job that is not ready: manage
    Verb.PEEK: (Right.LOOK, Of.JOB, Word.NOT_FOUND),
    Verb.PEEK_READY: (Right.LOOK, Of.USED, Word.NOT_FOUND),
    Verb.PEEK_DELAYED: (Right.LOOK, Of.USED, Word.NOT_FOUND),
    Verb.PEEK_BURIED: (Right.LOOK, Of.USED, Word.NOT_FOUND),
    Verb.FIND_JOB: (Right.LOOK, Of.TUBE, Word.NOT_FOUND),
    Verb.LIST_JOBS: (Right.LOOK, Of.TUBE, UNKNOWN),
    Verb.STATS_FAILURES: (Right.LOOK, Of.TUBE, UNKNOWN),
    Verb.GET_SCHEDULE: (Right.LOOK, Of.SCHEDULE, Word.NOT_FOUND),
    Verb.KICK: (Right.MANAGE, Of.USED, UNKNOWN),
    Verb.KICK_JOB: (Right.MANAGE, Of.JOB, Word.NOT_FOUND),
    Verb.RESERVE_JOB: (Right.MANAGE, Of.JOB, Word.NOT_FOUND),
    Verb.CANCEL_JOB: (Right.MANAGE, Of.JOB, Word.NOT_FOUND),
    Verb.CHANGE_BODY: (Right.MANAGE, Of.JOB, Word.NOT_FOUND),
    Verb.CHANGE_JOB: (Right.MANAGE, Of.CHANGED, Word.NOT_FOUND),
    Verb.CANCEL_KEY: (Right.MANAGE, Of.TUBE, Word.NOT_FOUND),
    Verb.PAUSE_TUBE: (Right.MANAGE, Of.TUBE, Word.NOT_FOUND),
    Verb.PAUSE_GROUP: (Right.MANAGE, Of.TUBE, Word.NOT_FOUND),
    Verb.CLEAR_TUBE: (Right.MANAGE, Of.TUBE, UNKNOWN),
    Verb.MOVE_JOBS: (Right.MANAGE, Of.MOVED, UNKNOWN),
    Verb.SET_RULES: (Right.RULES, Of.PATTERN, UNKNOWN),
    Verb.DROP_RULES: (Right.RULES, Of.PATTERN, Word.NOT_FOUND),
    Verb.SET_SCHEDULE: (Right.RULES, Of.DOCUMENT, UNKNOWN),
    Verb.DROP_SCHEDULE: (Right.RULES, Of.SCHEDULE, Word.NOT_FOUND),
    Verb.PAUSE_SCHEDULE: (Right.RULES, Of.SCHEDULE, Word.NOT_FOUND),
    Verb.FIRE_SCHEDULE: (Right.RULES, Of.SCHEDULE, Word.NOT_FOUND),
    Verb.GET_RULES: (Right.EVERYTHING, Of.TUBE, Word.NOT_FOUND),
    Verb.STATS_TUBE: (NUMBERS, Of.TUBE, Word.NOT_FOUND),
    Verb.STATS_GROUPS: (NUMBERS, Of.TUBE, Word.NOT_FOUND),
    Verb.EXPLAIN_TUBE: (NUMBERS, Of.TUBE, Word.NOT_FOUND),
    Verb.STATS_JOB: (NUMBERS, Of.JOB, Word.NOT_FOUND),
    Verb.EXPLAIN: (NUMBERS, Of.JOB, Word.NOT_FOUND),
    Verb.LIST_SESSIONS: (Right.STATS, Of.SERVER, UNKNOWN),
    # Who holds a job, and nobody else, gets somewhere with these.
    Verb.RELEASE: (0, Of.NOTHING, Word.NOT_FOUND),
    Verb.BURY: (0, Of.NOTHING, Word.NOT_FOUND),
    Verb.TOUCH: (0, Of.NOTHING, Word.NOT_FOUND),
    Verb.TOUCH_MANY: (0, Of.NOTHING, Word.NOT_FOUND),
    Verb.FAIL_JOB: (0, Of.NOTHING, Word.NOT_FOUND),
    Verb.SNOOZE_JOB: (0, Of.NOTHING, Word.NOT_FOUND),
    # These leave out, or pass over, what there is no right to.
    Verb.DELETE_MANY: (0, Of.NOTHING, UNKNOWN),
    Verb.USE: (0, Of.NOTHING, UNKNOWN),
    Verb.WATCH: (0, Of.NOTHING, UNKNOWN),
    Verb.LIST_TUBES: (0, Of.NOTHING, UNKNOWN),
    Verb.LIST_RULES: (0, Of.NOTHING, UNKNOWN),
    Verb.LIST_SCHEDULES: (0, Of.NOTHING, UNKNOWN),
    Verb.STATS: (0, Of.NOTHING, UNKNOWN),
    Verb.STATS_TUBES: (0, Of.NOTHING, UNKNOWN),
    Verb.STATS_HISTOGRAMS: (0, Of.NOTHING, UNKNOWN),
    # These are about the session alone.
    **dict.fromkeys(
        (
            *(Verb.IGNORE, Verb.LIST_TUBE_USED, Verb.LIST_TUBES_WATCHED, Verb.QUIT, Verb.CANCEL_RESERVE),
            *(Verb.NAME_SESSION, Verb.KEEP_SESSION, Verb.LIST_EXTENSIONS, Verb.LIST_RIGHTS, Verb.AUTH),
            *(Verb.NONE, Verb.UNKNOWN_COMMAND, Verb.BAD_FORMAT, Verb.JOB_TOO_BIG, Verb.EXPECTED_CRLF),
        ),
        (0, Of.NOTHING, UNKNOWN),
    ),
}
"""Of each Verb: bits of Right, of which it needs one; an Of, of what; and the Word with which it is refused."""

WORDS = {Right.RESERVE | Right.MANAGE: b"reserve", Right.STATS: b"stats", Right.PUT: b"put", Right.RESERVE: b"reserve"}
WORDS |= {Right.LOOK: b"look", Right.MANAGE: b"manage", Right.RULES: b"rules"}
WORDS |= {Right.EVERYTHING: b"look", NUMBERS: b"look"}
"""What a right is called in a reply; where any would do, the one that changes nothing."""


def fill_asked():
    """Copy the table into C memory."""
    verb: cython.int
    for verb in range(VERB_COUNT):
        right, of, refusal = ASKED[verb]  # a command without a row lets nothing start
        asked_of[verb].right = right
        asked_of[verb].of = of
        asked_of[verb].refusal = refusal


fill_asked()


def ask(queue, session, command):
    """Decide whether a session of a user may run a command, and answer it if not; return a Verdict.

    Most need no decision (``may_at_once``).
    """
    user: User = session.user
    asked = cython.address(asked_of[cython.cast(cython.int, command.verb)])
    standing: Standing = session.standing
    if standing.version != user.version:
        if queue.recounting:
            return Verdict.LATER  # it may find tubes that are not there
        session.moved_count += renew(queue, session)
        if not session.quitting and standing.version != user.version:
            return Verdict.LATER
    user.command_count += 1
    if asked.of == Of.USED and standing.rights & Right.STATS:
        session.quitting = not find_used(queue, session, session.used.name)
    if session.quitting:
        session.out.word(Word.OUT_OF_MEMORY)
        return Verdict.REFUSED
    if asked.of == Of.NOTHING or asked.of == Of.HOLDER or user.admin:  # delete asks when it has found its job
        return Verdict.ALLOWED
    if asked.of == Of.USED:
        if standing.rights & asked.right:
            return Verdict.ALLOWED
        return refuse(queue, session, asked.right, session.used.name, asked.refusal)
    if asked.of == Of.WATCHED:
        if standing.hidden_count < len(session.watches):
            return Verdict.ALLOWED
        name: bytes = cython.cast(Watch, session.watches[0], typecheck=True).tube.name
        return refuse(queue, session, asked.right, name, asked.refusal)
    if asked.of == Of.JOB or asked.of == Of.CHANGED:
        return ask_of_job(queue, session, command, asked)
    if asked.of == Of.SCHEDULE or asked.of == Of.DOCUMENT:
        return ask_of_schedule(queue, session, command, asked)
    return ask_of_name(queue, session, command, asked)


@cython.cfunc
def ask_of_job(queue: Queue, session: Session, command: Command, asked: cython.pointer(Asked)) -> cython.int:
    """Decide about a command for a job. One that is not there the command does not find itself."""
    user: User = session.user
    right: cython.int = asked.right
    job: Job = queue.jobs.find(command.args.id if command.verb > Verb.EXPECTED_CRLF else command.id)
    if job is None:
        return Verdict.ALLOWED
    name: bytes = job.tube.name
    rights: cython.int = user.rights(name, len(name))
    if rights & right == 0:
        session.read_index = queue.records.index
        return refuse(queue, session, right if rights else 0, name, asked.refusal)
    if asked.of != Of.CHANGED or not command.args.given & bit(Kind.TUBE):
        return Verdict.ALLOWED
    target: bytes = command.args.tube_at[: command.args.tube_bytes]
    if target == name or user.rights(target, len(target)) & Right.PUT:
        return Verdict.ALLOWED
    return refuse(queue, session, Right.PUT, target, asked.refusal)


def may_delete(session, job):
    """Whether the user of a session may delete a job that nobody holds."""
    right: cython.int = Right.RESERVE | Right.MANAGE if job.state == State.READY else Right.MANAGE
    return session.user.rights(job.tube.name, len(job.tube.name)) & right != 0


def refuse_delete(queue, session, command):
    """Refuse a delete, if its job is there, and nobody else holds it: then a right is missing."""
    job: Job = queue.jobs.find(command.id)
    if job is None or job.state == State.RESERVED:
        return queue.not_found(session)
    name: bytes = job.tube.name
    session.read_index = queue.records.index
    right: cython.int = Right.RESERVE if job.state == State.READY else Right.MANAGE
    return refuse_late(queue, session, command, right if session.user.rights(name, len(name)) else 0, name)


@cython.cfunc
def ask_of_schedule(queue: Queue, session: Session, command: Command, asked: cython.pointer(Asked)) -> cython.int:
    """Decide about a command for a schedule, if there is one."""
    name: bytes = command.args.tube_at[: command.args.tube_bytes]
    schedule: Schedule = None if queue.schedules is None else queue.schedules.named(name)
    if schedule is None:
        return Verdict.ALLOWED
    tube: bytes = schedule.tube_name()
    rights: cython.int = session.user.rights(tube, len(tube))
    if rights & asked.right:
        return Verdict.ALLOWED
    session.read_index = queue.records.index
    return refuse(queue, session, asked.right if rights else 0, tube, asked.refusal)


@cython.cfunc
def ask_of_name(queue: Queue, session: Session, command: Command, asked: cython.pointer(Asked)) -> cython.int:
    """Decide about a command for what it names: a tube, or a pattern of tubes; or for the server."""
    user: User = session.user
    given: uint64_t = command.args.given
    name: bytes = b"*"
    if command.verb < Verb.EXPECTED_CRLF:
        name = command.tube
    elif asked.of == Of.TARGET:
        name = command.args.tube_at[: command.args.tube_bytes] if given & bit(Kind.TUBE) else session.used.name
        if queue.rules is not None and not given & bit(Kind.GROUP):
            name = queue.rules.home_of(name)
    elif asked.of == Of.PATTERN:
        name = command.args.tube_at[: command.args.tube_bytes]
        if user.grants.covers("rules", name):
            return Verdict.ALLOWED
        return refuse(queue, session, asked.right, name, asked.refusal)
    elif asked.of != Of.SERVER:
        if not given & bit(Kind.TUBE):
            return Verdict.ALLOWED  # stats-failures of all tubes: it leaves out what it must
        name = command.args.tube_at[: command.args.tube_bytes]
    if user.rights(name, len(name)) & asked.right == 0:
        return refuse(queue, session, asked.right, name, asked.refusal)
    if asked.of == Of.MOVED and given & bit(Kind.TO):
        name = command.args.to_at[: command.args.to_bytes]
        if user.rights(name, len(name)) & Right.PUT == 0:
            return refuse(queue, session, Right.PUT, name, asked.refusal)
    return Verdict.ALLOWED


def refuse(queue, session, right, name, refusal):
    """Refuse what a session lacks a right to; with a `right` of 0 it is not told which one."""
    session.user.refused_count += 1
    if right and session.standing.served & HEARS_FORBIDDEN:
        session.out.begin(Word.FORBIDDEN)
        session.out.add_bytes(WORDS[right])
        session.out.add(b" ", 1)
        session.out.add_bytes(name)
        session.out.end()
    elif refusal == Word.NOT_FOUND:
        queue.not_found(session)
    else:
        session.out.word(refusal)
    return Verdict.REFUSED


def refuse_late(queue, session, command, right, name):
    """Refuse a command that has run up to where it was clear what it needs, and is counted: it is not any more."""
    queue.count_command(cython.cast(cython.int, command.counted), -1)
    refuse(queue, session, right, name, asked_of[cython.cast(cython.int, command.verb)].refusal)
    return 0


def subject_of(queue, session, command, refused):
    """Return the tube, pattern or schedule of a command that belongs into the audit; None: it does not.

    That is what is refused, and what may be done to jobs and rules that are not one's own.
    """
    asked = cython.address(asked_of[cython.cast(cython.int, command.verb)])
    if asked.of == Of.NOTHING:  # its session has named too many tubes, if anything; it may have no tube itself
        return None
    if not (refused or asked.right == Right.MANAGE or asked.right == Right.RULES or asked.of == Of.HOLDER):
        return None
    if asked.of == Of.USED:
        return session.used.name
    if asked.of == Of.WATCHED:
        return cython.cast(Watch, session.watches[0], typecheck=True).tube.name
    if asked.of == Of.JOB or asked.of == Of.HOLDER or asked.of == Of.CHANGED:
        job: Job = queue.jobs.find(command.args.id if command.verb > Verb.EXPECTED_CRLF else command.id)
        if job is None or (asked.of == Of.HOLDER and job.state == State.RESERVED):
            return None
        return job.tube.name
    if asked.of == Of.SERVER:
        return b"*"
    if command.verb < Verb.EXPECTED_CRLF:
        return command.tube
    if asked.of == Of.TARGET and not command.args.given & bit(Kind.TUBE):
        return session.used.name
    return command.args.tube_at[: command.args.tube_bytes]


def may_see_all(session):
    """Whether a session may see the numbers of everybody, and who the others are."""
    return session.user is None or session.user.stats


# --- auth, list-rights ------------------------------------------------------------------------------------------------


def auth(queue, now_ns, session, command):
    """auth: the first line of a connection alone says who it is."""
    return session.out.word(Word.BAD_FORMAT)


SHOWN_MAX = 100
"""Users that list-rights shows, those with the most commands."""

USERS_PER_MOVE = cython.declare(cython.Py_ssize_t, 2)  # users that are looked at in the time in which a job is moved


def command_count(user: User) -> int:
    return user.command_count


def used_of(user: User) -> list[tuple[bytes, int]]:
    """Return what is counted of a user, and how many connections it may have."""
    return [
        (b"connections", user.connection_count),
        (b"connections-max", user.connections_max),
        (b"commands", user.command_count),
        (b"refused", user.refused_count),
    ]


def spaces_of(queue: Queue, user: User) -> list[Space]:
    """Return the spaces in which there may be tubes to which a user has a right; there are few."""
    spaces = [] if queue.spaces is None else queue.spaces.spaces.values()
    return [each for each in spaces if user.stats or user.grants.meets(each.pattern)]


def space_pairs(space: Space) -> list[tuple[bytes, int]]:
    """Return what lies in a space, and how much may; 0: no limit."""
    return [
        (b"jobs", space.job_count),
        (b"jobs-max", space.jobs_max),
        (b"bytes", space.body_bytes),
        (b"bytes-max", space.bytes_max),
        (b"tubes", space.tube_count),
        (b"tubes-max", space.tubes_max),
    ]


def line_of(kind: bytes, name: bytes, pairs: list[tuple[bytes, int]]) -> bytes:
    """Return an item of a list, which is JSON on a line."""
    return b'- {"%b": "%b", %b}' % (kind, name, b", ".join([b'"%b": %d' % pair for pair in pairs]))


def list_rights(queue, now_ns, session, command):
    """list-rights: who the session is, what it may do, and what of its limits is used."""
    user: User = session.user
    if user is None:
        if not session.own or queue.users is None:
            return session.out.word(Word.UNKNOWN_COMMAND)
        user = User(b"console")  # nobody's session may do everything, and this one asks for all to be shown
        user.grant(Grants({}), True, True)
    lines: list = [
        b"user: %b" % user.name,
        b"admin: %b" % (b"true" if user.admin else b"false"),
        b"stats: %b" % (b"true" if user.stats else b"false"),
        *[
            b"%b: [%b]" % (right.encode(), b", ".join([b'"%b"' % each for each in patterns]))
            for right, patterns in user.grants.patterns.items()
        ],
        *[b"%b: %d" % pair for pair in used_of(user)],
        b"spaces:",
        *[line_of(b"space", each.pattern, space_pairs(each)) for each in spaces_of(queue, user)],
    ]
    if user.stats:
        users = queue.users() if queue.users is not None else [user]
        others: list = nlargest(SHOWN_MAX, users, key=command_count)
        session.moved_count += len(others) + len(users) // USERS_PER_MOVE
        lines += [b"users:", *[line_of(b"user", each.name, used_of(each)) for each in others]]
    return session.out.text(b"---\n" + b"\n".join(lines) + b"\n")
