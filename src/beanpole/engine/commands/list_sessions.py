"""list-sessions and name-session: who is connected, what it waits for, and what it holds.

A page is written in pieces, each of which begins where the one before ended, by the number of the session. So a session
that is there throughout is on exactly one page, whoever comes and goes.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Watch
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.engine import limits
from beanpole.engine.commands.explain import quoted, seconds
from beanpole.protocol.commands import COMMANDS, EXTENSION_VERBS, Verb

SESSIONS_PER_PAGE = cython.declare(cython.Py_ssize_t, limits.SESSIONS_PER_PAGE)
SESSIONS_PER_TURN = cython.declare(cython.Py_ssize_t, limits.SESSIONS_PER_TURN)
WATCHED_SHOWN_MAX = cython.declare(cython.Py_ssize_t, limits.WATCHED_SHOWN_MAX)
PAGE_BYTES = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)
HELD_LOOKED_MAX = cython.declare(cython.Py_ssize_t, limits.HELD_LOOKED_MAX)

MOVES_PER_SESSION = cython.declare(cython.Py_ssize_t, 20)
"""Jobs that are moved in the time in which one session is written without a name, few tubes and no jobs."""

MOVES_PER_TURN = cython.declare(cython.Py_ssize_t, SESSIONS_PER_TURN * MOVES_PER_SESSION)

HELD_PER_MOVE = cython.declare(cython.Py_ssize_t, 3)
"""Jobs that are looked at in the time in which one is moved."""

NAME_BYTES_PER_MOVE = cython.declare(cython.Py_ssize_t, 4)
"""Bytes of a name that are written in that time, where each character needs an escape."""

VERB_NAMES = {
    0: "none",
    **{
        int(Verb[text]): text.lower().replace("_", "-")
        for text in ("UNKNOWN_COMMAND", "BAD_FORMAT", "JOB_TOO_BIG", "EXPECTED_CRLF")
    },
    **{int(verb): text.strip().decode() for text, verb, _, _, _ in COMMANDS},
    **{int(verb): text.decode() for text, verb in EXTENSION_VERBS.items()},
}
"""What a last command is called: by its verb, or by what was wrong with it."""


@cython.final
@cython.cclass
class SessionPage(LongCommand):
    """A list-sessions that is under way."""

    number = cython.declare(uint64_t)
    """The smallest number that the next session may have."""
    left = cython.declare(cython.Py_ssize_t)
    """Sessions that the page may still have."""
    bytes = cython.declare(cython.Py_ssize_t)
    """Bytes of what is written: a page that has many ends before its last session."""
    texts = cython.declare(list)
    """What is written of the page."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Write of the next sessions."""
        each: Session
        cost: cython.Py_ssize_t = 0
        places: list = queue.sessions.places
        at: cython.Py_ssize_t = queue.sessions.first_from(self.number)
        while self.left and cost < MOVES_PER_TURN:
            if at == len(places):
                self.left = 0
                break
            at += 1
            if places[at - 1] is None:
                continue
            each = cython.cast(Session, places[at - 1], typecheck=True)
            text = text_of(queue, now_ns, each)
            self.texts.append(text)
            self.bytes += len(text)
            cost += cost_of(each)
            self.number = each.number + 1
            self.left = self.left - 1 if self.bytes < PAGE_BYTES else 0
        session.moved_count += cost
        if self.left:
            return 0
        session.work = None
        return session.out.text(b"---\n" + b"".join(self.texts))


@cython.cfunc
@cython.exceptval(check=False)
def cost_of(session: Session) -> cython.Py_ssize_t:
    """Return how many jobs are moved in the time that a session takes."""
    watched: cython.Py_ssize_t = min(WATCHED_SHOWN_MAX, cython.cast(cython.Py_ssize_t, len(session.watches)))
    held: cython.Py_ssize_t = min(HELD_LOOKED_MAX, session.reserved.count)
    name_bytes: cython.Py_ssize_t = 0 if session.name is None else len(session.name)
    return MOVES_PER_SESSION + watched // 2 + held // HELD_PER_MOVE + name_bytes // NAME_BYTES_PER_MOVE


@cython.cfunc
def text_of(queue: Queue, now_ns: int64_t, session: Session) -> bytes:
    """Return the item of one session in the list."""
    peer = "console" if session.own else queue.describe(session.owner)
    watches = session.watches[:WATCHED_SHOWN_MAX]
    watched = [cython.cast(Watch, watch, typecheck=True).tube.name.decode() for watch in watches]
    lines = [
        f"- number: {session.number}",
        f"  name: {quoted(b'' if session.name is None else session.name)}",
        f"  peer: {quoted(peer.encode('utf-8', 'surrogateescape'))}",
        f"  since: {seconds(now_ns - session.opened_at_ns)}",
        f"  last-command: {VERB_NAMES[session.last_verb]}",
        f"  last-command-age: {seconds(now_ns - session.heard_at_ns)}",
        f"  used: {session.used.name.decode()}",
        f"  watched: [{', '.join(watched)}]",
        f"  watched-count: {len(session.watches)}",
    ]
    if session.waiting:
        lines.append(f"  waiting: {seconds(now_ns - session.heard_at_ns)}")  # its last command is that reserve
    lines.append(f"  jobs-held: {session.reserved.count}")
    if session.reserved.count:
        lines.append(f"  oldest-held: {seconds(now_ns - oldest_ns(session))}")
    lines.append("")
    return "\n".join(lines).encode()


@cython.cfunc
def oldest_ns(session: Session) -> int64_t:
    """Return since when a session holds the job that it has held longest, among those that time out soonest."""
    i: cython.Py_ssize_t
    oldest: int64_t = cython.cast(Job, session.reserved.entries[0].item).since_ns
    for i in range(1, min(HELD_LOOKED_MAX, session.reserved.count)):
        oldest = min(oldest, cython.cast(Job, session.reserved.entries[i].item).since_ns)
    return oldest


def list_sessions(queue, now_ns, session, command):
    """list-sessions: who is connected, those behind a number."""
    page: SessionPage = SessionPage()
    given: uint64_t = command.args.given
    page.number = 0
    page.left = command.args.count if given & bit(Kind.LIMIT) else SESSIONS_PER_PAGE
    page.texts = []
    if given & bit(Kind.AFTER):
        page.number = command.args.after + 1
        if page.number == 0:  # there is none behind the greatest of all numbers
            page.left = 0
    return begin(queue, now_ns, session, page)


def name_session(queue, now_ns, session, command):
    """name-session: how people shall recognize the session."""
    session.name = command.args.key_at[: command.args.key_bytes]
    return session.out.word(Word.NAMED)
