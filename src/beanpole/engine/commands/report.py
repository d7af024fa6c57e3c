"""The commands that only report: peeks, stats and lists; and what is not a command."""

import cython
from cython.cimports.beanpole.engine.commands.long_command import Work, begin
from cython.cimports.beanpole.engine.commands.tubes import reply_used
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Tube, Watch
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits
from beanpole.engine.commands import stats

NAMES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.NAMES_PER_TURN)
NAMES_PER_MOVE = cython.declare(cython.Py_ssize_t, 3)
"""Names that are collected in the time in which a job is moved."""

REPLY_BYTES_PER_TURN = cython.declare(cython.Py_ssize_t, limits.REPLY_BYTES_PER_TURN)

MISTAKES = {
    Verb.UNKNOWN_COMMAND: Word.UNKNOWN_COMMAND,
    Verb.BAD_FORMAT: Word.BAD_FORMAT,
    Verb.JOB_TOO_BIG: Word.JOB_TOO_BIG,
    Verb.EXPECTED_CRLF: Word.EXPECTED_CRLF,
}
"""The replies to what is not a command."""


def report(engine, now_ns, session, command):
    """Reply to a command that changes nothing, or to a mistake."""
    verb: Verb = command.verb
    text: bytes = None
    if verb == Verb.PEEK:
        return peek(engine, session, engine.jobs.find(command.id))
    if verb == Verb.PEEK_READY:
        return peek_first(engine, session, session.used.ready)
    if verb == Verb.PEEK_DELAYED:
        return peek_first(engine, session, session.used.delayed)
    if verb == Verb.PEEK_BURIED:
        return peek_first(engine, session, session.used.buried)
    if verb == Verb.STATS:
        text = stats.yaml(stats.engine(engine, now_ns))
    elif verb == Verb.STATS_TUBE:
        tube: Tube = engine.tube_named(command.tube)
        text = stats.yaml(stats.tube(tube, now_ns)) if tube is not None else None
    elif verb == Verb.STATS_JOB:
        job: Job = engine.jobs.find(command.id)
        text = stats.yaml(stats.job(job, now_ns)) if job is not None else None
        session.read_index = engine.records.index
    elif verb == Verb.LIST_TUBES:
        return list_tubes(engine, now_ns, session)
    elif verb == Verb.LIST_TUBES_WATCHED:
        return begin(engine, now_ns, session, Names())
    elif verb == Verb.LIST_TUBE_USED:
        return reply_used(session)
    else:
        if command.counted == Verb.PUT and verb == Verb.EXPECTED_CRLF:
            engine.count_producer(session)
        session.quitting = command.closes
        return session.out.word(MISTAKES[verb])
    if text is None:
        return engine.not_found(session)
    return session.out.text(text)


def peek(engine, session, job):
    """peek: a job in any state."""
    if job is None:
        return engine.not_found(session)
    session.read_index = engine.records.index
    return session.out.body(Word.FOUND, job.id, job.body, job.body_bytes)


@cython.cfunc
@cython.exceptval(-1, check=False)
def peek_first(engine: Engine, session: Session, heap: Heap) -> cython.int:
    """peek-ready, peek-delayed, peek-buried: the first job of the used tube in that state."""
    return peek(engine, session, cython.cast(Job, heap.entries[0].item) if heap.count else None)


def list_tubes(engine, now_ns, session):
    """list-tubes: the names of all tubes as they are now, though it may take a few turns to write them."""
    return begin_text(engine, now_ns, session, engine.listed.all_texts()[::-1])


@cython.cfunc
@cython.exceptval(-1, check=False)
def begin_text(engine: Engine, now_ns: int64_t, session: Session, texts: list) -> cython.int:
    """Begin to write a YAML list, of which the last text comes first."""
    work: Pieces = Pieces()
    work.texts = [b"\r\n", *texts]
    session.out.number(Word.OK, 4 + sum(map(len, texts)))
    session.out.add_bytes(b"---\n")
    return begin(engine, now_ns, session, work)


@cython.final
@cython.cclass
class Names(Work):
    """A list-tubes-watched whose names are collected: it begins with how many bytes they have."""

    texts = cython.declare(list)
    """The names of NAMES_PER_TURN tubes each, the last first; None: none yet."""
    at = cython.declare(cython.Py_ssize_t)
    """Tubes that are done."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, engine: Engine, now_ns: int64_t, session: Session) -> cython.int:
        """Collect the next names; when all are there, begin to write."""
        watches = session.watches[self.at : self.at + NAMES_PER_TURN]
        if self.texts is None:
            self.texts = []
        self.texts.insert(0, stats.names([cython.cast(Watch, watch, typecheck=True).tube for watch in watches]))
        self.at += len(watches)
        session.moved_count += len(watches) // NAMES_PER_MOVE
        if self.at < len(session.watches):
            return 0
        return begin_text(engine, now_ns, session, self.texts)


@cython.final
@cython.cclass
class Pieces(Work):
    """A long reply that ``session.out`` has no room for yet."""

    texts = cython.declare(list)
    """What is not written yet, the last first."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, engine: Engine, now_ns: int64_t, session: Session) -> cython.int:
        """Write REPLY_BYTES_PER_TURN of it."""
        end: cython.Py_ssize_t = session.out.buffer.size + REPLY_BYTES_PER_TURN
        while self.texts and session.out.buffer.size < end:
            session.out.add_bytes(self.texts.pop())
        if not self.texts:
            session.work = None
        return 0
