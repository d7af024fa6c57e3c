"""What is done to one job, and to many of them by id or by state.

release, bury, touch, snooze-job and fail-job, which its holder sends; kick, kick-job and delete; delete-many,
touch-many and clear-tube; cancel-job and cancel-key, for which it does not matter who holds a job.
"""

import cython
from cython.cimports.beanpole.engine.commands.long_command import LongCommand, begin, group_given
from cython.cimports.beanpole.engine.commands.rights import may_delete, refuse_delete
from cython.cimports.beanpole.engine.commands.serve import offer
from cython.cimports.beanpole.engine.policies.attempts import (
    Why,
    bury_job,
    come_back,
    dead_bytes,
    die,
    end_attempt,
    ends,
    forget_attempts,
    is_at_end,
    is_last_attempt,
    waits_to_count,
    whole_bytes,
)
from cython.cimports.beanpole.engine.policies.breaker import is_excused, note_failure, note_success
from cython.cimports.beanpole.engine.policies.expiry import count_expiry
from cython.cimports.beanpole.engine.policies.history import End, History, keeps_history, make_history, note_end
from cython.cimports.beanpole.engine.policies.uniqueness import key_holder, may_return
from cython.cimports.beanpole.engine.state.heap import Heap
from cython.cimports.beanpole.engine.state.job import Flag, Job, JobCount, State, count_one, is_held_by
from cython.cimports.beanpole.engine.state.queue import Outcome, Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import Tag, put_tag, tags_after
from cython.cimports.beanpole.engine.state.times import Count
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.walk import Walk
from cython.cimports.beanpole.protocol.commands import Command, Verb
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t

from beanpole.engine import limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)


def release(queue, now_ns, session, command):
    """release: a held job becomes ready or delayed."""
    job: Job = queue.jobs.find(command.id)
    return give_back(queue, now_ns, session, job, End.RELEASED, command.pri, command.delay_ns)


def snooze_job(queue, now_ns, session, command):
    """snooze-job: a held job comes back, after a delay, with nothing wrong."""
    job: Job = queue.jobs.find(command.args.id)
    pri: int64_t = command.args.pri if command.args.given & bit(Kind.PRI) else -1
    return give_back(queue, now_ns, session, job, End.SNOOZED, pri, command.args.delay_ns)


def give_back(queue, now_ns, session, job, end, pri, delay_ns):
    """Let a job come back from its holder, with its own pri if that is below 0."""
    if job is None or not is_held_by(job, session):
        return queue.not_found(session)
    fails: cython.bint = end == End.RELEASED
    if fails and is_excused(job, now_ns):
        end = End.SNOOZED
    if not (job.flags and is_at_end(job, now_ns)):
        room: cython.int = queue.records.room_for_change(job.tag_bytes)
        if room == Room.OK and end == End.RELEASED and waits_to_count(queue, job):
            room = Room.WAIT
        if room != Room.OK:
            return queue.no_room(session, room)
        if pri >= 0:
            job.pri = pri
        count_one(job, JobCount.RELEASES)
        job.tube.total_release_count += 1
    if fails:
        note_failure(queue, now_ns, job)
    written: int64_t = come_back(queue, now_ns, job, end, delay_ns, False)
    session.moved_count += written // FAILED_BYTES_PER_JOB
    session.out.word(Word.RELEASED)
    return offer(queue, now_ns, job.tube)


def bury(queue, now_ns, session, command):
    """bury: a held job is put aside."""
    job: Job = queue.jobs.find(command.id)
    if job is None or not is_held_by(job, session):
        return queue.not_found(session)
    room: cython.int = queue.records.room_for_change(job.tag_bytes)
    if room != Room.OK:
        return queue.no_room(session, room)
    note_failure(queue, now_ns, job)
    whole: cython.bint = keeps_history(job) and note_end(queue, now_ns, job, End.BURIED, False, dead_bytes(job))
    queue.leave(job)
    job.pri = command.pri
    count_one(job, JobCount.BURIES)
    job.tube.total_bury_count += 1
    if job.tag_bytes:
        end_attempt(job)
    bury_job(queue, job)
    if whole:
        queue.records.job_put(job)
        session.moved_count += whole_bytes(job) // FAILED_BYTES_PER_JOB
    else:
        queue.records.job_changed(job)
    return session.out.word(Word.BURIED)


def touch(queue, now_ns, session, command):
    """touch: the TTR of a held job starts again."""
    if not touch_job(queue, now_ns, session, command.id):
        return queue.not_found(session)
    return session.out.word(Word.TOUCHED)


def touch_job(queue, now_ns, session, id):
    """Touch a job for a session; False: it holds none of this id."""
    job: Job = queue.jobs.find(id)
    if job is None or not is_held_by(job, session):
        return False
    due_ns: int64_t = now_ns + job.ttr_s * SECOND_NS
    session.reserved.move(job, due_ns)
    queue.arm(session, due_ns)  # change-job may have made the time shorter
    if queue.records.wants_reservations:
        queue.records.job_reserved(job)
    return True


def fail_job(queue, now_ns, session, command):
    """fail-job: a held job has failed; it comes back, or is dead, and keeps what its worker says of it."""
    job: Job = queue.jobs.find(command.args.id)
    dead_now: cython.bint = (command.args.given & bit(Kind.DEAD)) != 0
    if dead_now and command.args.given & bit(Kind.DELAY):
        return session.out.word(Word.BAD_FORMAT)
    if job is None or not is_held_by(job, session):
        return queue.not_found(session)
    if job.flags and not dead_now and is_at_end(job, now_ns):
        note_failure(queue, now_ns, job)
        ends(queue, now_ns, job)
        session.out.word(Word.RELEASED)
        return offer(queue, now_ns, job.tube)
    excused: cython.bint = is_excused(job, now_ns)
    dead: cython.bint = dead_now or (not excused and is_last_attempt(job))
    history: History
    make_history(queue, now_ns, job, End.FAILED, command.body_at, command.body_bytes, cython.address(history))
    longer: int64_t = (
        tags_after(job, Tag.FAILURE_TEXT, command.body_bytes)
        + tags_after(job, Tag.HISTORY, history.size)
        - 2 * cython.cast(int64_t, job.tag_bytes)
    )
    whole: cython.bint = longer != 0 or dead
    room: cython.int = (
        queue.records.room_for_put(dead_bytes(job) + longer) if whole else queue.records.room_for_change(job.tag_bytes)
    )
    if room == Room.OK and not whole and not excused and waits_to_count(queue, job):
        room = Room.WAIT
    if room != Room.OK:
        return queue.no_room(session, room)
    note_failure(queue, now_ns, job)
    if whole:
        queue.records.job_dropped(job)
    queue.failures.remove(job)
    put_tag(job, Tag.FAILURE_TEXT, command.body_at, command.body_bytes)
    put_tag(job, Tag.HISTORY, history.text, history.size)
    queue.failures.add(job)
    if command.args.given & bit(Kind.PRI):
        job.pri = command.args.pri
    if not dead:
        count_one(job, JobCount.RELEASES)
    job.tube.total_release_count += not dead
    if dead:
        die(queue, now_ns, job, Why.FAILED if dead_now else Why.ATTEMPTS, whole)
    else:
        come_back(queue, now_ns, job, End.SNOOZED if excused else End.FAILED, command.args.delay_ns, whole)
    session.out.word(Word.BURIED if dead else Word.RELEASED)
    return offer(queue, now_ns, job.tube)


# --- kick -------------------------------------------------------------------------------------------------------------


KICKS_PER_TURN = cython.declare(uint32_t, limits.KICKS_PER_TURN)


@cython.final
@cython.cclass
class Kick(LongCommand):
    """A kick that is under way."""

    heap = cython.declare(Heap)  # the jobs to kick: the buried ones of a tube, or the delayed ones
    left = cython.declare(uint32_t)  # jobs that it still may move
    kicked_count = cython.declare(uint32_t)  # jobs that it moved so far

    @cython.cfunc
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
    count_one(job, JobCount.KICKS)
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


# --- delete -----------------------------------------------------------------------------------------------------------


JOBS_PER_PIECE = cython.declare(cython.Py_ssize_t, limits.JOBS_PER_PIECE)
COST_WITH_GROUPS = cython.declare(cython.Py_ssize_t, limits.COST_WITH_GROUPS)
RESTING = cython.declare(cython.int, 1 << State.READY | 1 << State.DELAYED | 1 << State.BURIED)
"""The states of jobs that nobody holds."""


def delete(queue, now_ns, session, command):
    """delete: a job in any state, unless another session holds it."""
    if delete_job(queue, session, command.id):
        return session.out.word(Word.DELETED)
    return queue.not_found(session) if session.user is None else refuse_delete(queue, session, command)


def delete_job(queue, session, id):
    """Delete a job for a session; False: it has none of this id that it may delete."""
    job: Job = queue.jobs.find(id)
    if job is None or (job.state == State.RESERVED and not is_held_by(job, session)):
        return False
    if session.user is not None and not is_held_by(job, session) and not may_delete(session, job):
        return False
    job.tube.delete_count += 1
    if job.tube.breaker is not None and job.state == State.RESERVED:
        note_success(queue, job)
    queue.discard(job)
    return True


def cancel_job(queue, now_ns, session, command):
    """cancel-job: delete a job in any state, whoever holds it. Its holder hears NOT_FOUND when it says more of it."""
    job: Job = queue.jobs.find(command.args.id)
    if job is None:
        return queue.not_found(session)
    cancel(queue, job)
    return session.out.word(Word.CANCELLED)


def cancel_key(queue, now_ns, session, command):
    """cancel-key: the same with the job that has a key."""
    tube: Tube = queue.tube_named(command.args.tube_at[: command.args.tube_bytes])
    job: Job = key_holder(queue, tube, command.args.key_at, command.args.key_bytes, False)
    if job is None:
        return queue.not_found(session)
    session.out.number(Word.CANCELLED, job.id)
    return cancel(queue, job)


def cancel(queue, job):
    """Delete a job that was not done."""
    queue.tally(job.tube, Count.CANCELLED, 1)
    return queue.discard(job)


@cython.final
@cython.cclass
class Ids(LongCommand):
    """A command for ids of jobs that is under way."""

    line = cython.declare(bytes)  # the ids in decimal, with one space between them; the decoder has looked at them
    at = cython.declare(cython.Py_ssize_t)  # bytes of it that are done
    touches = cython.declare(cython.bint)  # it is a touch-many, not a delete-many
    done_count = cython.declare(cython.Py_ssize_t)  # jobs that it deleted or touched so far
    lost = cython.declare(list)  # the ids of those that it could not, in the order of the line

    @cython.cfunc
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
            if not self.touches and session.user is not None:
                note_delete(queue, session, id)
            if touch_job(queue, now_ns, session, id) if self.touches else delete_job(queue, session, id):
                self.done_count += 1
            else:
                self.lost.append(id)
            cost = 1 + queue.failures.cost()
            room -= cost
            session.moved_count += cost
        session.work = None
        if not self.touches:  # whoever watches how many jobs are done goes by this counter
            queue.count_command(Verb.DELETE, self.done_count)
        session.out.begin(Word.TOUCHED if self.touches else Word.DELETED)
        session.out.add_number(self.done_count)
        if self.lost:
            session.read_index = queue.records.index
        for lost in self.lost:
            session.out.add(b" ", 1)
            session.out.add_number(lost)
        return session.out.end()


@cython.cfunc
def note_delete(queue: Queue, session: Session, id: uint64_t) -> cython.int:
    """Take note of a job that a user's delete-many names, and that nobody holds."""
    job: Job = queue.jobs.find(id)
    if job is not None and job.state != State.RESERVED and queue.audit is not None:
        user: bytes = session.user.name
        queue.audit(session.owner, user, Verb.DELETE_MANY, job.tube.name, may_delete(session, job))
    return 0


@cython.cfunc
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
    cleared_count = cython.declare(uint64_t)  # jobs that it has deleted so far

    @cython.cfunc
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
            room -= (1 if self.tube.groups is None else COST_WITH_GROUPS) + queue.failures.cost()
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
    work.walk = Walk(queue.jobs, work.tube, states, 0, queue.next_job_id - 1, True, group=group_given(command))
    return begin(queue, now_ns, session, work)
