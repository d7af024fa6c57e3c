"""move-jobs: jobs go to another tube, over as many turns as it takes. They stay the same jobs: nothing is put twice."""

import cython
from cython.cimports.beanpole.engine.commands.change import change_tube
from cython.cimports.beanpole.engine.commands.long_command import Work, begin
from cython.cimports.beanpole.engine.engine import Engine, Outcome
from cython.cimports.beanpole.engine.policies.attempts import died_in
from cython.cimports.beanpole.engine.policies.throttle import refuses
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.tuberules import RULE_TAGS_BYTES
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint32_t

from beanpole.engine import limits

JOBS_PER_PIECE = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_PIECE)


@cython.final
@cython.cclass
class Move(Work):
    """A move-jobs that is under way."""

    walk = cython.declare(Walk)
    target = cython.declare(bytes)
    """The name of the tube to which they go: it may be forgotten and made again while this goes on. None: each dead job
    goes back to the tube in which it died, and the others stay."""
    job = cython.declare(Job)
    """The next job to move, which had no room in the last turn; None: the walk finds it."""
    left = cython.declare(uint32_t)
    """Jobs that it still may move."""
    moved = cython.declare(uint32_t)
    """Jobs that it has moved."""

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def step(self, engine: Engine, now_ns: int64_t, session: Session) -> cython.int:
        """Move the next jobs, the oldest first."""
        room: cython.Py_ssize_t = JOBS_PER_PIECE
        fits: cython.int = Room.OK
        self.walk.begin_piece()
        while room and self.left and fits == Room.OK and self.find():
            fits = self.room(engine)
            if fits == Room.OK:
                self.move(engine, now_ns)
                self.job = None
                self.left -= 1
                self.moved += 1
                room -= 1
        session.moved_count += JOBS_PER_PIECE - room + self.walk.piece_cost()
        if fits == Room.WAIT:
            return Outcome.AGAIN
        if self.left == 0 or fits == Room.FULL or self.walk.done:
            session.work = None
            session.read_index = engine.records.index
            return session.out.number(Word.MOVED, self.moved)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def find(self) -> cython.bint:
        """Find the job to move next; False: there is none, or none in this turn."""
        if self.job is not None:
            self.job = self.walk.look_up(self.job.id)  # while it waited, somebody may have taken it
        if self.job is None:
            self.job = self.walk.next()
        while self.job is not None and not self.may_move():
            self.job = self.walk.next()
        return self.job is not None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def may_move(self) -> cython.bint:
        """Whether the command is about the job; one whose key another job has stays buried, as for kick."""
        job: Job = self.job
        if job.flags & Flag.SUPERSEDED:
            return False
        if self.target is not None:
            return True
        name: bytes = died_in(job)
        return name is not None and (name != job.tube.name or job.state == State.BURIED)

    @cython.cfunc
    def target_name(self) -> bytes:
        """Return the name of the tube to which the job goes that was found."""
        return died_in(self.job) if self.target is None else self.target

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def move(self, engine: Engine, now_ns: int64_t) -> cython.int:
        """Move the job that was found: a delayed one stays delayed, any other becomes ready."""
        job: Job = self.job
        target: Tube = engine.open_tube(self.target_name())
        state: cython.int = State.READY if job.state == State.BURIED else job.state
        change_tube(engine, now_ns, job, target, state, deadline_of(job))
        return engine.offer(now_ns, target)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def room(self, engine: Engine) -> cython.int:
        """Return whether the job can go to its new tube: a Room."""
        name: bytes = self.target_name()
        if engine.too_many_tubes(name):
            return Room.FULL
        if name != self.job.tube.name and refuses(engine, name, engine.tube_named(name), 1, self.job.body_bytes):
            return Room.FULL
        return engine.records.room_for_put(len(name) + self.job.body_bytes + self.job.tag_bytes + RULE_TAGS_BYTES)


def move_jobs(engine, now_ns, session, command):
    """move-jobs: move jobs of a tube from one state to another tube, or dead ones back to where they died."""
    work: Move = Move()
    source: Tube = engine.tube_named(command.args.tube_at[: command.args.tube_bytes])
    work.target = command.args.to_at[: command.args.to_bytes] if command.args.given & bit(Kind.TO) else None
    work.left = command.args.count
    if source is None:
        session.read_index = engine.records.index
        return session.out.number(Word.MOVED, 0)
    work.walk = Walk(engine.jobs, source, command.args.states, 0, engine.next_job_id - 1)
    return begin(engine, now_ns, session, work)
