"""reserve-many, delete-many and touch-many: what their singular does, for many jobs on one line; and cancel-reserve.

Each job that reserve-many hands out is the one that ``reserve`` would have handed out next. A session that waits is
given the first job that becomes ready, alone: it is not kept waiting for more.
"""

import cython
from cython.cimports.beanpole.engine.commands.job_frame import add_frame
from cython.cimports.beanpole.engine.commands.long_command import Work, begin
from cython.cimports.beanpole.engine.engine import Engine, Outcome
from cython.cimports.beanpole.engine.policies.expiry import end_cost, is_over
from cython.cimports.beanpole.engine.state.job import Flag, Job
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.timing import note_wait
from cython.cimports.beanpole.engine.state.tube import Tube, Watch, can_serve
from cython.cimports.beanpole.engine.state.wide import best_tube
from cython.cimports.beanpole.protocol.commands import Command, Verb
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc

from beanpole.engine import limits

BODIES_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.BODIES_BYTES_MAX)
JOBS_PER_PIECE = cython.declare(uint32_t, limits.JOBS_PER_PIECE)
ENDS_PER_TURN = cython.declare(cython.int, limits.ENDS_PER_TURN)
TUBES_PER_MOVE = cython.declare(cython.Py_ssize_t, 5)
"""Tubes that reserve-many compares in the time in which a job is moved: each lies elsewhere in memory."""


# --- reserve-many -----------------------------------------------------------------------------------------------------


def reserve_many(engine, now_ns, session, count, timeout_ns):
    """reserve-many: the jobs that as many reserves would get, at once; where there is none, wait for the first."""
    if engine.records.backlog_full():
        return Outcome.AGAIN
    engine.count_worker(session)
    jobs: list = hold_many(engine, now_ns, session, count)
    if jobs is None:
        return Outcome.AGAIN
    if jobs:
        return reply_jobs(engine, now_ns, session, jobs)
    if engine.deadline_soon(now_ns, session):
        return session.out.word(Word.DEADLINE_SOON)
    if session.half_closed or timeout_ns == 0:
        return session.out.word(Word.TIMED_OUT)
    engine.wait(session, now_ns + timeout_ns)
    session.wants_frame = True
    return 0


def hold_many(engine, now_ns, session, count):
    """Reserve the best jobs of the watched tubes for a session, up to `count` of them and to BODIES_BYTES_MAX."""
    tube: Tube
    size: cython.Py_ssize_t = 0
    if session.heads is not None:
        return hold_wide(engine, now_ns, session, count)
    heads = cython.cast(cython.pointer(Head), malloc(len(session.watches) * cython.sizeof(Head)))
    if heads is cython.NULL:
        raise MemoryError
    place: cython.Py_ssize_t
    for place in range(len(session.watches)):
        tube = cython.cast(Watch, session.watches[place], typecheck=True).tube
        if can_serve(tube):
            heads[size].place = place
            look(cython.address(heads[size]), tube)
            size += 1
    session.moved_count += size // TUBES_PER_MOVE
    hole: cython.Py_ssize_t
    for hole in range((size - 2) // 2, -1, -1):
        sink(heads, size, hole)
    try:
        return hold_best(engine, now_ns, session, count, heads, size)
    finally:
        free(heads)


@cython.cfunc
def hold_wide(engine: Engine, now_ns: int64_t, session: Session, count: uint32_t) -> list:
    """Do what :func:`hold_many` does for a session that watches very many tubes."""
    left: cython.int = ENDS_PER_TURN + count
    bytes_left: cython.Py_ssize_t = BODIES_BYTES_MAX
    jobs: list = []
    while len(jobs) < count:
        tube: Tube = best_tube(session, cython.address(left))
        if tube is None:
            break
        job: Job = cython.cast(Job, tube.ready.entries[0].item)
        cost: cython.int = end_cost(job)
        if job.flags & Flag.COUNTING and is_over(engine, now_ns, job):
            left -= cost
            continue
        bytes_left -= job.body_bytes
        if bytes_left < 0 and jobs:
            break
        engine.take(now_ns, session, job)
        jobs.append(job)
    return jobs if jobs or left > 0 else None


def hold_best(engine, now_ns, session, count, heads, size):
    """Reserve the best jobs of some tubes, of which the one with the best job is always the first.

    None: too many jobs whose time was over were in the way.
    """
    tube: Tube
    job: Job
    left: cython.Py_ssize_t = BODIES_BYTES_MAX
    jobs: list = []
    passed: cython.int = 0
    while size and len(jobs) < count and passed < ENDS_PER_TURN:
        tube = cython.cast(Watch, session.watches[heads[0].place], typecheck=True).tube
        job = cython.cast(Job, tube.ready.entries[0].item)
        cost: cython.int = end_cost(job)
        if job.flags & Flag.COUNTING and is_over(engine, now_ns, job):
            passed += cost
        else:
            left -= job.body_bytes
            if left < 0 and jobs:
                break
            engine.take(now_ns, session, job)
            jobs.append(job)
        if can_serve(tube):
            look(heads, tube)
        else:
            size -= 1
            heads[0] = heads[size]
        sink(heads, size, 0)
    return jobs if jobs or passed < ENDS_PER_TURN else None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def look(head: cython.pointer(Head), tube: Tube) -> cython.void:
    """Note the best job of a tube."""
    head.key = tube.ready.entries[0].key
    head.tie = tube.ready.entries[0].tie


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def before(a: cython.pointer(Head), b: cython.pointer(Head)) -> cython.bint:
    """Whether the best job of one tube comes before that of another."""
    return a.key < b.key or (a.key == b.key and a.tie < b.tie)


@cython.cfunc
@cython.exceptval(check=False)
def sink(heads: cython.pointer(Head), size: cython.Py_ssize_t, hole: cython.Py_ssize_t) -> cython.void:
    """Move a tube down the heap of tubes, which is in order below it, to its place."""
    head: Head = heads[hole]
    child: cython.Py_ssize_t
    while hole * 2 + 1 < size:
        child = hole * 2 + 1
        if child + 1 < size and before(cython.address(heads[child + 1]), cython.address(heads[child])):
            child += 1
        if not before(cython.address(heads[child]), cython.address(head)):
            break
        heads[hole] = heads[child]
        hole = child
    heads[hole] = head


def reply_jobs(engine, now_ns, session, jobs):
    """Reply with jobs that were just reserved."""
    session.read_index = engine.records.index
    session.moved_count += len(jobs)
    note_wait(engine, session)
    session.out.number(Word.JOBS, len(jobs))
    for job in jobs:
        add_frame(session.out, engine, cython.cast(Job, job, typecheck=True), now_ns)
    return 0


def reply_one(engine, now_ns, session, job):
    """Reserve a job for a session that waited in reserve-many."""
    engine.take(now_ns, session, job)
    return reply_jobs(engine, now_ns, session, [job])


# --- delete-many and touch-many ---------------------------------------------------------------------------------------


@cython.final
@cython.cclass
class Ids(Work):
    """A command for ids of jobs that is under way."""

    line = cython.declare(bytes)
    """The ids in decimal, with one space between them; the decoder has looked at them."""
    at = cython.declare(cython.Py_ssize_t)
    """Bytes of it that are done."""
    touches = cython.declare(cython.bint)
    """It is a touch-many, not a delete-many."""
    done_count = cython.declare(cython.Py_ssize_t)
    """Jobs that it deleted or touched so far."""
    lost = cython.declare(list)
    """The ids of those that it could not, in the order of the line."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, engine: Engine, now_ns: int64_t, session: Session) -> cython.int:
        """Delete or touch the next JOBS_PER_PIECE jobs, and reply when none is left."""
        line: cython.p_const_char = self.line
        size: cython.Py_ssize_t = len(self.line)
        room: uint32_t = JOBS_PER_PIECE
        id: uint64_t
        while self.at < size:
            if room == 0:
                return Outcome.DONE
            id = 0
            while self.at < size and line[self.at] != 32:
                id = id * 10 + cython.cast(uint64_t, line[self.at] - 48)
                self.at += 1
            self.at += 1
            room -= 1
            session.moved_count += 1
            if engine.touch_job(now_ns, session, id) if self.touches else engine.delete_job(session, id):
                self.done_count += 1
            else:
                self.lost.append(id)
        session.work = None
        if not self.touches:  # whoever watches how many jobs are done goes by this counter
            engine.command_counts[cython.cast(cython.int, Verb.DELETE)] += self.done_count
        session.out.begin(Word.TOUCHED if self.touches else Word.DELETED)
        session.out.add_number(self.done_count)
        if self.lost:
            session.read_index = engine.records.index
        for lost in self.lost:
            session.out.add(b" ", 1)
            session.out.add_number(lost)
        return session.out.end()


@cython.cfunc
@cython.exceptval(-1, check=False)
def begin_ids(engine: Engine, now_ns: int64_t, session: Session, command: Command, touches: cython.bint) -> cython.int:
    """Begin a command for the ids of its line."""
    work: Ids = Ids()
    work.line = command.args.ids_at[: command.args.ids_bytes]
    work.touches = touches
    work.lost = []
    return begin(engine, now_ns, session, work)


def delete_many(engine, now_ns, session, command):
    """delete-many: delete by id; the reply counts the deleted jobs and names the others."""
    return begin_ids(engine, now_ns, session, command, False)


def touch_many(engine, now_ns, session, command):
    """touch-many: the same with touch."""
    if engine.records.backlog_full():
        return Outcome.AGAIN
    return begin_ids(engine, now_ns, session, command, True)


# --- cancel-reserve ---------------------------------------------------------------------------------------------------


def cancel(engine, session):
    """End the waiting of a session, of its own will: the reply of its reserve is TIMED_OUT."""
    engine.command_counts[cython.cast(cython.int, Verb.CANCEL_RESERVE)] += 1
    engine.stop_waiting(session)
    session.heard_at_ns = engine.now_ns
    session.last_verb = Verb.CANCEL_RESERVE
    return session.out.word(Word.TIMED_OUT)
