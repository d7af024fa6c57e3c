"""kick and kick-job: buried and delayed jobs become ready. A kick of many goes on over the turns."""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.commands.serve import offer
from cython.cimports.beanpole.engine.policies.attempts import forget_attempts
from cython.cimports.beanpole.engine.policies.expiry import count_expiry
from cython.cimports.beanpole.engine.policies.uniqueness import may_return
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Flag, Job, State
from cython.cimports.beanpole.engine.state.queue import Outcome, Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint32_t

from beanpole.engine import limits

KICKS_PER_TURN = cython.declare(uint32_t, limits.KICKS_PER_TURN)


@cython.final
@cython.freelist(8)
@cython.cclass
class Kick(LongCommand):
    """A kick that is under way."""

    heap = cython.declare(Heap)
    """The jobs to kick: the buried ones of a tube, or the delayed ones."""
    left = cython.declare(uint32_t)
    """Jobs that it still may move."""
    kicked_count = cython.declare(uint32_t)
    """Jobs that it moved so far."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Kick the next KICKS_PER_TURN jobs; those whose key another job has keep their place."""
        passed: list = []
        outcome: cython.int = self.kick_some(queue, now_ns, session, passed)
        job: Job
        for job, place in passed:
            self.heap.push(job, place, job.id)
        session.moved_count += len(passed)
        return outcome

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def kick_some(self, queue: Queue, now_ns: int64_t, session: Session, passed: list) -> cython.int:
        """Kick, and take out of the heap what is passed over."""
        heap: Heap = self.heap
        room: cython.Py_ssize_t = KICKS_PER_TURN
        cost: cython.Py_ssize_t
        while self.left and heap.count:
            if room <= 0:
                return 0
            job: Job = cython.cast(Job, heap.entries[0].item)
            if job.flags and not may_return(queue, job):
                if len(passed) == KICKS_PER_TURN:
                    break
                passed.append((job, heap.entries[0].key))
                heap.remove(job)
                continue
            change: cython.int = queue.records.room_for_change(job.tag_bytes)
            if change == Room.WAIT:
                return Outcome.AGAIN
            if change == Room.FULL:
                break
            kick_one(queue, now_ns, job)
            self.kicked_count += 1
            self.left -= 1
            cost = 1 + queue.failures.cost()
            session.moved_count += cost
            room -= cost
        session.work = None
        return session.out.number(Word.KICKED, self.kicked_count)


def kick(queue, now_ns, session, command):
    """kick: buried jobs of the used tube become ready, or where there are none delayed ones."""
    work: Kick = Kick()
    work.heap = session.used.buried if session.used.buried.count else session.used.delayed
    work.left = command.bound
    return begin(queue, now_ns, session, work)


def kick_one(queue, now_ns, job):
    """Make a buried or delayed job ready."""
    job.kick_count += 1
    job.tube.total_kick_count += 1
    if job.tag_bytes:
        forget_attempts(job)
    queue.leave(job)
    if job.flags & Flag.EXPIRES and job.state == State.BURIED:
        count_expiry(job, now_ns)
    queue.enter(job, State.READY, job.pri)
    queue.records.job_changed(job)
    return offer(queue, now_ns, job.tube)


def kick_job(queue, now_ns, session, command):
    """kick-job: the same for one job of any tube."""
    job: Job = queue.jobs.find(command.id)
    if (
        job is None
        or (job.state != State.BURIED and job.state != State.DELAYED)
        or (job.flags and not may_return(queue, job))
    ):
        return queue.not_found(session)
    room: cython.int = queue.records.room_for_change(job.tag_bytes)
    if room != Room.OK:
        return queue.no_room(session, room)
    session.out.word(Word.KICKED)
    return kick_one(queue, now_ns, job)
