"""change-job and change-body, and move-jobs, which goes on over as many turns as it takes: jobs stay the same jobs.

A log counts on a job's record to keep its size. What changes the size (another tube, another body, more tags) takes the
job out of the log's accounts first and then records it whole, as if it had just been put.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin, group_given
from cython.cimports.beanpole.engine.commands.serve import offer
from cython.cimports.beanpole.engine.policies.attempts import arrive, died_in, forget_death, is_unsettled
from cython.cimports.beanpole.engine.policies.expiry import count_expiry, give_expiry
from cython.cimports.beanpole.engine.policies.throttle import refuses
from cython.cimports.beanpole.engine.policies.uniqueness import end_key, forget_key, keep_key, rival
from cython.cimports.beanpole.engine.state.job import (
    Flag,
    Job,
    JobCount,
    State,
    count_one,
    deadline_of,
    is_held_by,
    replace_body,
)
from cython.cimports.beanpole.engine.state.queue import Outcome, Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import (
    EXPIRY_BYTES,
    ExpireBit,
    KeyBit,
    Tag,
    put_tag,
    read_flags,
    tags_after,
)
from cython.cimports.beanpole.engine.state.tube import RULE_TAGS_BYTES, Tube
from cython.cimports.beanpole.engine.state.user import User
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.beanpole.protocol.rights import Right
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t

from beanpole.engine import limits

JOBS_PER_PIECE = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_PIECE)
COST_WITH_GROUPS = cython.declare(cython.Py_ssize_t, limits.COST_WITH_GROUPS)
OF_THE_BURIED = cython.declare(uint64_t, bit(Kind.TUBE) | bit(Kind.PRI) | bit(Kind.TTR))
OF_THE_RESERVED = cython.declare(uint64_t, bit(Kind.TTR) | bit(Kind.EXPIRE))
"""What change-job can change of a job in these states."""


@cython.cfunc
def bring_back(job: Job) -> cython.int:
    """Let a job that is moved be dead no more: a kick, for workers that count attempts themselves."""
    if job.tag_bytes and died_in(job) is not None:
        count_one(job, JobCount.KICKS)
    forget_death(job)
    return 0


def change_tube(queue, now_ns, job, target, state, due_ns):
    """Move a job to another tube, into a state. The caller offers it to the sessions that wait there.

    The caller has asked for room as for a put. A key that is taken there stays behind.
    """
    queue.records.job_dropped(job)
    queue.leave(job)
    bring_back(job)
    forget_key(queue, job)
    if rival(queue, target, job) is not None:
        put_tag(job, Tag.KEY, cython.NULL, 0)
        read_flags(job)
    return arrive(queue, now_ns, job, target, state, due_ns)


def change_job(queue, now_ns, session, command):
    """change-job: another tube, pri, delay or ttr for a job; of a held one only what its holder may change."""
    job: Job = queue.jobs.find(command.args.id)
    given: uint64_t = command.args.given & ~bit(Kind.ID)
    if job is None or (job.state == State.RESERVED and not is_held_by(job, session)):
        return queue.not_found(session)
    if (job.state == State.RESERVED and given & ~OF_THE_RESERVED) or (
        job.state == State.BURIED and given & ~OF_THE_BURIED
    ):
        return queue.not_found(session)
    if job.state == State.DELAYED and is_unsettled(job):
        return queue.not_found(session)
    name: bytes = job.tube.name
    if given & bit(Kind.TUBE):
        name = command.args.tube_at[: command.args.tube_bytes]
    moves: cython.bint = name != job.tube.name
    if moves and queue.too_many_tubes(name):
        return session.out.word(Word.OUT_OF_MEMORY)
    if moves and job.state != State.BURIED:
        holder: Job = rival(queue, queue.tube_named(name), job)
        if holder is not None:
            session.read_index = queue.records.index
            return session.out.number(Word.EXISTS, holder.id)
    # Whatever can refuse comes before the first change. A record that keeps its size needs only room for a change; one
    # that moves or grows is taken out of the log's accounts and written whole.
    waits: cython.bint = job.state != State.BURIED
    if moves and refuses(queue, name, queue.tube_named(name), 1 if waits else 0, job.body_bytes, job.tube):
        return session.out.word(Word.OUT_OF_MEMORY)
    tag_bytes: cython.Py_ssize_t = job.tag_bytes
    if given & bit(Kind.EXPIRE):
        tag_bytes = tags_after(job, Tag.EXPIRE, EXPIRY_BYTES)
    whole: cython.bint = moves or tag_bytes != job.tag_bytes
    room: cython.int = (
        queue.records.room_for_put(len(name) + tag_bytes + job.body_bytes + RULE_TAGS_BYTES)
        if whole
        else queue.records.room_for_change(tag_bytes)
    )
    if room != Room.OK:
        return queue.no_room(session, room)
    session.out.word(Word.CHANGED)
    if whole:
        queue.records.job_dropped(job)
    change_numbers(queue, now_ns, job, command)
    if moves:
        state: cython.int = job.state
        due_ns: int64_t = deadline_of(job)
        queue.leave(job)
        bring_back(job)
        arrive(queue, now_ns, job, queue.open_tube(name), state, due_ns)
    elif whole:
        queue.records.job_put(job)
    else:
        queue.records.job_changed(job)
    return offer(queue, now_ns, job.tube)


def change_numbers(queue, now_ns, job, command):
    """Give a job the numbers that were given. Its time to wait starts over with another delay or another time."""
    given: uint64_t = command.args.given
    if given & bit(Kind.TTR):
        job.ttr_s = command.args.ttr_s
    if job.state == State.RESERVED:
        if given & bit(Kind.EXPIRE):
            give_expiry(job, command.args.expire_ns, ExpireBit.OWN)
            if job.flags & Flag.EXPIRES:
                count_expiry(job, now_ns)
        return 0
    if job.state == State.BURIED:
        if given & bit(Kind.PRI):
            job.pri = command.args.pri
        return 0
    if not given & (bit(Kind.PRI) | bit(Kind.DELAY) | bit(Kind.EXPIRE)):
        return 0
    due_ns: int64_t = deadline_of(job) if job.state == State.DELAYED else now_ns
    since_ns: int64_t = job.since_ns
    was_due: cython.int = job.flags & Flag.DUE
    queue.leave(job)
    if given & bit(Kind.PRI):
        job.pri = command.args.pri
    if given & bit(Kind.DELAY):
        due_ns = now_ns + command.args.delay_ns
    if given & bit(Kind.EXPIRE):
        give_expiry(job, command.args.expire_ns, ExpireBit.OWN)
    if job.flags & Flag.EXPIRES and given & (bit(Kind.DELAY) | bit(Kind.EXPIRE)):
        count_expiry(job, due_ns)
    if given & bit(Kind.DELAY):
        return queue.enter_after(now_ns, job, command.args.delay_ns)
    if job.state == State.DELAYED:
        return queue.enter_at(job, State.DELAYED, due_ns, since_ns)
    queue.enter_at(job, State.READY, job.pri, since_ns)
    job.flags |= was_due
    return 0


def change_body(queue, now_ns, session, command):
    """change-body: another body for a job that nobody holds."""
    job: Job = queue.jobs.find(command.args.id)
    if job is None or job.state == State.RESERVED:
        return queue.not_found(session)
    more: int64_t = command.body_bytes - cython.cast(int64_t, job.body_bytes)
    if refuses(queue, job.tube.name, job.tube, 0, more, None):
        return session.out.word(Word.OUT_OF_MEMORY)
    room: cython.int = queue.records.room_for_put(len(job.tube.name) + job.tag_bytes + command.body_bytes)
    if room != Room.OK:
        return queue.no_room(session, room)
    queue.records.job_dropped(job)
    forget_key(queue, job)  # which may be the body
    changed: cython.bint = replace_body(job, command.body_at, command.body_bytes)
    if job.flags:
        other: Job = rival(queue, job.tube, job)
        if other is not None and job.state != State.BURIED:
            end_key(queue, job, KeyBit.FREED)
        keep_key(queue, job)
    queue.records.job_put(job)
    return session.out.word(Word.CHANGED if changed else Word.OUT_OF_MEMORY)


# --- move-jobs --------------------------------------------------------------------------------------------------------


@cython.final
@cython.cclass
class Move(LongCommand):
    """A move-jobs that is under way."""

    walk = cython.declare(Walk)
    target = cython.declare(bytes)
    """The name of the tube to which they go: it may be forgotten and made again while this goes on. None: each dead job
    goes back to the tube in which it died, and the others stay."""
    job = cython.declare(Job)  # the next job to move, which had no room in the last turn; None: the walk finds it
    user = cython.declare(User)  # `User | None`: into what tubes it may put
    left = cython.declare(uint32_t)  # jobs that it still may move
    moved = cython.declare(uint32_t)  # jobs that it has moved

    @cython.cfunc
    def step(self, queue: Queue, now_ns: int64_t, session: Session) -> cython.int:
        """Move the next jobs, the oldest first."""
        if queue.recounting:
            return Outcome.AGAIN
        room: cython.Py_ssize_t = JOBS_PER_PIECE
        fits: cython.int = Room.OK
        self.walk.begin_piece()
        while room > 0 and self.left and fits == Room.OK and self.find():
            fits = self.room(queue)
            if fits == Room.OK:
                self.move(queue, now_ns)
                self.job = None
                self.left -= 1
                self.moved += 1
                room -= (1 if self.walk.tube.groups is None else COST_WITH_GROUPS) + queue.failures.cost()
        session.moved_count += JOBS_PER_PIECE - room + self.walk.piece_cost()
        if fits == Room.WAIT:
            return Outcome.AGAIN
        if self.left == 0 or fits == Room.FULL or self.walk.done:
            session.work = None
            session.read_index = queue.records.index
            return session.out.number(Word.MOVED, self.moved)
        return 0

    @cython.cfunc
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
    def may_move(self) -> cython.bint:
        """Whether the command is about the job; one whose key another job has stays buried, as for kick."""
        job: Job = self.job
        if job.flags & Flag.SUPERSEDED:
            return False
        if self.target is not None:
            return True
        name: bytes = died_in(job)
        if name is None or (name == job.tube.name and job.state != State.BURIED):
            return False
        return self.user is None or self.user.rights(name, len(name)) & Right.PUT != 0

    @cython.cfunc
    def target_name(self) -> bytes:
        return died_in(self.job) if self.target is None else self.target

    @cython.cfunc
    def move(self, queue: Queue, now_ns: int64_t) -> cython.int:
        """Move the job that was found: a delayed one stays delayed, any other becomes ready."""
        job: Job = self.job
        target: Tube = queue.open_tube(self.target_name())
        state: cython.int = State.READY if job.state == State.BURIED else job.state
        change_tube(queue, now_ns, job, target, state, deadline_of(job))
        return offer(queue, now_ns, target)

    @cython.cfunc
    def room(self, queue: Queue) -> cython.int:
        """Return whether the job can go to its new tube: a Room."""
        name: bytes = self.target_name()
        if queue.too_many_tubes(name):
            return Room.FULL
        source: Tube = self.job.tube
        if name != source.name and refuses(queue, name, queue.tube_named(name), 1, self.job.body_bytes, source):
            return Room.FULL
        return queue.records.room_for_put(len(name) + self.job.body_bytes + self.job.tag_bytes + RULE_TAGS_BYTES)


def move_jobs(queue, now_ns, session, command):
    """move-jobs: move jobs of a tube from one state to another tube, or dead ones back to where they died."""
    work: Move = Move()
    source: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    work.target = command.args.to_at[: command.args.to_bytes] if command.args.given & bit(Kind.TO) else None
    work.user = session.user
    work.left = command.args.count
    if source is None:
        session.read_index = queue.records.index
        return session.out.number(Word.MOVED, 0)
    work.walk = Walk(queue.jobs, source, command.args.states, 0, queue.next_job_id - 1, group=group_given(command))
    return begin(queue, now_ns, session, work)
