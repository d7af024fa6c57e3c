"""delete, delete-many and clear-tube; and touch-many, which goes through ids as delete-many does."""

import cython
from cython.cimports.beanpole.engine.commands.held import touch_job
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.queue import Outcome, Queue
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.times import Count
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.commands import Command, Verb
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.engine import limits

JOBS_PER_PIECE = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_PIECE)
RESTING = cython.declare(cython.int, 1 << State.READY | 1 << State.DELAYED | 1 << State.BURIED)
"""The states of jobs that nobody holds."""


def delete(queue, now_ns, session, command):
    """delete: a job in any state, unless another session holds it."""
    return session.out.word(Word.DELETED) if delete_job(queue, session, command.id) else queue.not_found(session)


def delete_job(queue, session, id):
    """Delete a job for a session; False: it has none of this id that it may delete."""
    job: Job = queue.jobs.find(id)
    if job is None or (job.state == State.RESERVED and job.holder is not session):
        return False
    job.tube.delete_count += 1
    queue.discard(job)
    return True


@cython.final
@cython.cclass
class Ids(LongCommand):
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
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Delete or touch the next JOBS_PER_PIECE jobs, and reply when none is left."""
        line: cython.p_const_char = self.line
        size: cython.Py_ssize_t = len(self.line)
        room: cython.Py_ssize_t = JOBS_PER_PIECE
        cost: cython.Py_ssize_t
        id: uint64_t
        while self.at < size:
            if room <= 0:
                return Outcome.DONE
            id = 0
            while self.at < size and line[self.at] != 32:
                id = id * 10 + cython.cast(uint64_t, line[self.at] - 48)
                self.at += 1
            self.at += 1
            if touch_job(queue, now_ns, session, id) if self.touches else delete_job(queue, session, id):
                self.done_count += 1
            else:
                self.lost.append(id)
            cost = 1 + queue.failures.cost()
            room -= cost
            session.moved_count += cost
        session.work = None
        if not self.touches:  # whoever watches how many jobs are done goes by this counter
            queue.command_counts[cython.cast(cython.int, Verb.DELETE)] += self.done_count
        session.out.begin(Word.TOUCHED if self.touches else Word.DELETED)
        session.out.add_number(self.done_count)
        if self.lost:
            session.read_index = queue.records.index
        for lost in self.lost:
            session.out.add(b" ", 1)
            session.out.add_number(lost)
        return session.out.end()


@cython.cfunc
@cython.exceptval(-1, check=False)
def begin_ids(queue: Queue, now_ns: int64_t, session: Session, command: Command, touches: cython.bint) -> cython.int:
    """Begin a command for the ids of its line."""
    work: Ids = Ids()
    work.line = command.args.ids_at[: command.args.ids_bytes]
    work.touches = touches
    work.lost = []
    return begin(queue, now_ns, session, work)


def delete_many(queue, now_ns, session, command):
    """delete-many: delete by id; the reply counts the deleted jobs and names the others."""
    return begin_ids(queue, now_ns, session, command, False)


def touch_many(queue, now_ns, session, command):
    """touch-many: the same with touch."""
    return begin_ids(queue, now_ns, session, command, True)


@cython.final
@cython.cclass
class Clear(LongCommand):
    """A clear-tube that is under way."""

    walk = cython.declare(Walk)
    tube = cython.declare(Tube)
    cleared_count = cython.declare(uint64_t)
    """Jobs that it has deleted so far."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Delete the next jobs, the latest first: those leave their heaps at no cost."""
        job: Job
        room: cython.Py_ssize_t = JOBS_PER_PIECE
        if queue.records.backlog_full():
            return Outcome.AGAIN
        self.walk.begin_piece()
        cleared: cython.Py_ssize_t = 0
        while room > 0:
            job = self.walk.next()
            if job is None:
                break
            queue.discard(job)
            cleared += 1
            room -= 1 + queue.failures.cost()
        session.moved_count += JOBS_PER_PIECE - room + self.walk.piece_cost()
        self.cleared_count += cleared
        queue.tally(self.tube, Count.CLEARED, cleared)
        if self.walk.done:
            session.work = None
            session.read_index = queue.records.index
            return session.out.number(Word.CLEARED, self.cleared_count)
        return 0


def clear_tube(queue, now_ns, session, command):
    """clear-tube: delete the jobs that a tube has now in some states; those that are held stay."""
    states: cython.int = command.args.states or RESTING
    work: Clear = Clear()
    work.tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    if work.tube is None:
        session.read_index = queue.records.index
        return session.out.number(Word.CLEARED, 0)
    work.walk = Walk(queue.jobs, work.tube, states, 0, queue.next_job_id - 1, True)
    return begin(queue, now_ns, session, work)
