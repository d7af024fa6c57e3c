"""kick and kick-job: buried and delayed jobs become ready. A kick of many goes on over the turns."""

import cython
from cython.cimports.beanpole.engine.commands.long_command import Work, begin
from cython.cimports.beanpole.engine.engine import Engine, Outcome
from cython.cimports.beanpole.engine.policies.attempts import forget_attempts
from cython.cimports.beanpole.engine.policies.expiry import count_expiry
from cython.cimports.beanpole.engine.policies.uniqueness import may_return
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Flag, Job, State
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.protocol.commands import Verb
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint32_t

from beanpole.engine import limits

KICKS_PER_TURN = cython.declare(uint32_t, limits.KICKS_PER_TURN)


@cython.final
@cython.freelist(8)
@cython.cclass
class Kick(Work):
    """A kick that is under way."""

    heap = cython.declare(Heap)
    """The jobs to kick: the buried ones of a tube, or the delayed ones."""
    left = cython.declare(uint32_t)
    """Jobs that it still may move."""
    kicked_count = cython.declare(uint32_t)
    """Jobs that it moved so far."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, engine: Engine, now_ns: int64_t, session: Session) -> cython.int:
        """Kick the next KICKS_PER_TURN jobs; those whose key another job has keep their place."""
        passed: list = []
        outcome: cython.int = self.kick_some(engine, now_ns, session, passed)
        job: Job
        for job, place in passed:
            self.heap.push(job, place, job.id)
        session.moved_count += len(passed)
        return outcome

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def kick_some(self, engine: Engine, now_ns: int64_t, session: Session, passed: list) -> cython.int:
        """Kick, and take out of the heap what is passed over."""
        heap: Heap = self.heap
        room: uint32_t = KICKS_PER_TURN
        while self.left and heap.count:
            if room == 0:
                return 0
            job: Job = cython.cast(Job, heap.entries[0].item)
            if job.flags and not may_return(engine, job):
                if len(passed) == KICKS_PER_TURN:
                    break
                passed.append((job, heap.entries[0].key))
                heap.remove(job)
                continue
            change: cython.int = engine.records.room_for_change(job.tag_bytes)
            if change == Room.WAIT:
                return Outcome.AGAIN
            if change == Room.FULL:
                break
            kick_one(engine, now_ns, job)
            session.moved_count += 1
            self.kicked_count += 1
            self.left -= 1
            room -= 1
        session.work = None
        return session.out.number(Word.KICKED, self.kicked_count)


def kick(engine, now_ns, session, bound):
    """kick: buried jobs of the used tube become ready, or where there are none delayed ones."""
    work: Kick = Kick()
    work.heap = session.used.buried if session.used.buried.count else session.used.delayed
    work.left = bound
    return begin(engine, now_ns, session, work)


def kick_one(engine, now_ns, job):
    """Make a buried or delayed job ready."""
    job.kick_count += 1
    job.tube.total_kick_count += 1
    if job.tag_bytes:
        forget_attempts(job)
    engine.leave(job)
    if job.flags & Flag.EXPIRES and job.state == State.BURIED:
        count_expiry(job, now_ns)
    engine.enter(job, State.READY, job.pri)
    engine.records.job_changed(job)
    return engine.offer(now_ns, job.tube)


def kick_job(engine, now_ns, session, id):
    """kick-job: the same for one job of any tube."""
    job: Job = engine.jobs.find(id)
    if (
        job is None
        or (job.state != State.BURIED and job.state != State.DELAYED)
        or (job.flags and not may_return(engine, job))
    ):
        return engine.not_found(session)
    if engine.records.room_for_change(job.tag_bytes) != Room.OK:
        return engine.no_room(session, Verb.KICK_JOB, job.tag_bytes)
    session.out.word(Word.KICKED)
    return kick_one(engine, now_ns, job)
