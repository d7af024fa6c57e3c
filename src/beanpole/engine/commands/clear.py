"""clear-tube: the jobs of a tube are deleted, as many as there are, over as many turns as it takes."""

import cython
from cython.cimports.beanpole.engine.commands.long_command import Work, begin
from cython.cimports.beanpole.engine.engine import Engine, Outcome
from cython.cimports.beanpole.engine.state.job import Job, State
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tally import Count
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.engine import limits

JOBS_PER_PIECE = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_PIECE)
RESTING = cython.declare(cython.int, 1 << State.READY | 1 << State.DELAYED | 1 << State.BURIED)
"""The states of jobs that nobody holds."""


@cython.final
@cython.cclass
class Clear(Work):
    """A clear-tube that is under way."""

    walk = cython.declare(Walk)
    tube = cython.declare(Tube)
    cleared_count = cython.declare(uint64_t)
    """Jobs that it has deleted so far."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, engine: Engine, now_ns: int64_t, session: Session) -> cython.int:
        """Delete the next jobs, the latest first: those leave their heaps at no cost."""
        job: Job
        room: cython.Py_ssize_t = JOBS_PER_PIECE
        if engine.records.backlog_full():
            return Outcome.AGAIN
        self.walk.begin_piece()
        while room:
            job = self.walk.next()
            if job is None:
                break
            engine.discard(job)
            room -= 1
        cleared: cython.Py_ssize_t = JOBS_PER_PIECE - room
        session.moved_count += cleared + self.walk.piece_cost()
        self.cleared_count += cleared
        engine.tally(self.tube, Count.CLEARED, cleared)
        if self.walk.done:
            session.work = None
            session.read_index = engine.records.index
            return session.out.number(Word.CLEARED, self.cleared_count)
        return 0


def clear_tube(engine, now_ns, session, command):
    """clear-tube: delete the jobs that a tube has now in some states; those that are held stay."""
    states: cython.int = command.args.states or RESTING
    work: Clear = Clear()
    work.tube = engine.tube_named(command.args.tube_at[: command.args.tube_bytes])
    if work.tube is None:
        session.read_index = engine.records.index
        return session.out.number(Word.CLEARED, 0)
    work.walk = Walk(engine.jobs, work.tube, states, 0, engine.next_job_id - 1, True)
    return begin(engine, now_ns, session, work)
