"""The extensions that change a job that is there: snooze-job, fail-job, change-job and change-body.

A log counts on a job's record to keep its size. What changes the size (another tube, another body, more tags) takes the
job out of the log's accounts first and then records it whole, as if it had just been put.
"""

import cython
from cython.cimports.beanpole.engine.engine import Outcome
from cython.cimports.beanpole.engine.policies.attempts import (
    End,
    Why,
    begin_count,
    come_back,
    dead_bytes,
    die,
    died_in,
    forget_death,
    is_last_attempt,
    is_unsettled,
    waits_to_count,
)
from cython.cimports.beanpole.engine.policies.expiry import begin_expiry, count_expiry, ends, give_expiry
from cython.cimports.beanpole.engine.policies.throttle import refuses
from cython.cimports.beanpole.engine.policies.uniqueness import end_key, forget_key, keep_key, rival
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of, replace_body
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.tags import (
    EXPIRY_BYTES,
    ExpireBit,
    KeyBit,
    Tag,
    put_tag,
    read_flags,
    tags_after,
)
from cython.cimports.beanpole.engine.state.tally import Count
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.tuberules import RULE_TAGS_BYTES
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t, uint64_t

OF_THE_BURIED = cython.declare(uint64_t, bit(Kind.TUBE) | bit(Kind.PRI) | bit(Kind.TTR))
OF_THE_RESERVED = cython.declare(uint64_t, bit(Kind.TTR) | bit(Kind.EXPIRE))
"""What change-job can change of a job in these states."""


def no_room(session, room):
    """Refuse a change that finds no room, or let it run again while compaction makes some."""
    if room == Room.FULL:
        return session.out.word(Word.OUT_OF_MEMORY)
    return Outcome.AGAIN


@cython.cfunc
@cython.exceptval(-1, check=False)
def bring_back(job: Job) -> cython.int:
    """Let a job that is moved be dead no more: a kick, for workers that count attempts themselves."""
    if job.tag_bytes and died_in(job) is not None:
        job.kick_count += 1
    forget_death(job)
    return 0


def change_tube(engine, now_ns, job, target, state, due_ns):
    """Move a job to another tube, into a state. The caller offers it to the sessions that wait there.

    The caller has asked for room as for a put. A key that is taken there stays behind.
    """
    engine.records.job_dropped(job)
    bring_back(job)
    engine.leave(job)
    forget_key(engine, job)
    if rival(engine, target, job) is not None:
        put_tag(job, Tag.KEY, cython.NULL, 0)
        read_flags(job)
    return arrive(engine, now_ns, job, target, state, due_ns)


def arrive(engine, now_ns, job, target, state, due_ns):
    """Let a job that left its state, and the log's accounts, be in another tube; DELAYED ends at `due_ns`."""
    before: Tube = job.tube
    forget_key(engine, job)
    before.body_bytes -= job.body_bytes
    target.body_bytes += job.body_bytes
    job.tube = target
    begin_count(job)
    if target.rules is not None or job.tag_bytes:
        begin_expiry(job, due_ns if state == State.DELAYED else now_ns)
    if state == State.DELAYED:
        engine.enter(job, State.DELAYED, due_ns)
        engine.arm(target, due_ns)
    elif state == State.BURIED:
        engine.bury_job(job)
    else:
        engine.enter(job, State.READY, job.pri)
    engine.records.job_put(job)
    if before is not target:
        engine.tally(before, Count.MOVED_OUT, 1)
        engine.tally(target, Count.MOVED_IN, 1)
    return engine.drop_if_unused(before)


def snooze_job(engine, now_ns, session, command):
    """snooze-job: a held job comes back, after a delay, with nothing wrong."""
    job: Job = engine.jobs.find(command.args.id)
    if job is None or job.holder is not session:
        return engine.not_found(session)
    if job.flags and ends(engine, now_ns, job):
        session.out.word(Word.RELEASED)
        return engine.offer(now_ns, job.tube)
    room: cython.int = engine.records.room_for_change(job.tag_bytes)
    if room != Room.OK:
        return no_room(session, room)
    if command.args.given & bit(Kind.PRI):
        job.pri = command.args.pri
    job.release_count += 1
    job.tube.total_release_count += 1
    come_back(engine, now_ns, job, End.SNOOZED, command.args.delay_ns, False)
    session.out.word(Word.RELEASED)
    return engine.offer(now_ns, job.tube)


def fail_job(engine, now_ns, session, command):
    """fail-job: a held job has failed; it comes back, or is dead, and keeps what its worker says of it."""
    job: Job = engine.jobs.find(command.args.id)
    dead_now: cython.bint = (command.args.given & bit(Kind.DEAD)) != 0
    if dead_now and command.args.given & bit(Kind.DELAY):
        return session.out.word(Word.BAD_FORMAT)
    if job is None or job.holder is not session:
        return engine.not_found(session)
    if job.flags and not dead_now and ends(engine, now_ns, job):
        session.out.word(Word.RELEASED)
        return engine.offer(now_ns, job.tube)
    dead: cython.bint = dead_now or is_last_attempt(job)
    longer: int64_t = tags_after(job, Tag.FAILURE_TEXT, command.body_bytes) - job.tag_bytes
    whole: cython.bint = longer != 0 or dead
    room: cython.int = (
        engine.records.room_for_put(dead_bytes(job) + longer)
        if whole
        else engine.records.room_for_change(job.tag_bytes)
    )
    if room == Room.OK and not whole and waits_to_count(engine, job):
        room = Room.WAIT
    if room != Room.OK:
        return no_room(session, room)
    if whole:
        engine.records.job_dropped(job)
    put_tag(job, Tag.FAILURE_TEXT, command.body_at, command.body_bytes)
    if command.args.given & bit(Kind.PRI):
        job.pri = command.args.pri
    job.release_count += not dead
    job.tube.total_release_count += not dead
    if dead:
        die(engine, now_ns, job, Why.FAILED if dead_now else Why.ATTEMPTS, whole)
    else:
        come_back(engine, now_ns, job, End.RELEASED, command.args.delay_ns, whole)
    session.out.word(Word.BURIED if dead else Word.RELEASED)
    return engine.offer(now_ns, job.tube)


def change_job(engine, now_ns, session, command):
    """change-job: another tube, pri, delay or ttr for a job; of a held one only what its holder may change."""
    job: Job = engine.jobs.find(command.args.id)
    given: uint64_t = command.args.given & ~bit(Kind.ID)
    if job is None or (job.state == State.RESERVED and job.holder is not session):
        return engine.not_found(session)
    if (job.state == State.RESERVED and given & ~OF_THE_RESERVED) or (
        job.state == State.BURIED and given & ~OF_THE_BURIED
    ):
        return engine.not_found(session)
    if job.state == State.DELAYED and is_unsettled(job):
        return engine.not_found(session)
    name: bytes = job.tube.name
    if given & bit(Kind.TUBE):
        name = command.args.tube_at[: command.args.tube_bytes]
    moves: cython.bint = name != job.tube.name
    if moves and engine.too_many_tubes(name):
        return session.out.word(Word.OUT_OF_MEMORY)
    if moves and job.state != State.BURIED:
        holder: Job = rival(engine, engine.tube_named(name), job)
        if holder is not None:
            session.read_index = engine.records.index
            return session.out.number(Word.EXISTS, holder.id)
    waits: cython.bint = job.state != State.BURIED
    if moves and refuses(engine, name, engine.tube_named(name), 1 if waits else 0, job.body_bytes):
        return session.out.word(Word.OUT_OF_MEMORY)
    tag_bytes: cython.Py_ssize_t = job.tag_bytes
    if given & bit(Kind.EXPIRE):
        tag_bytes = tags_after(job, Tag.EXPIRE, EXPIRY_BYTES)
    whole: cython.bint = moves or tag_bytes != job.tag_bytes
    room: cython.int = (
        engine.records.room_for_put(len(name) + tag_bytes + job.body_bytes + RULE_TAGS_BYTES)
        if whole
        else engine.records.room_for_change(tag_bytes)
    )
    if room != Room.OK:
        return no_room(session, room)
    session.out.word(Word.CHANGED)
    if whole:
        engine.records.job_dropped(job)
    if moves:
        bring_back(job)
    change_numbers(engine, now_ns, job, command)
    if moves:
        state: cython.int = job.state
        due_ns: int64_t = deadline_of(job)
        engine.leave(job)
        arrive(engine, now_ns, job, engine.open_tube(name), state, due_ns)
    elif whole:
        engine.records.job_put(job)
    else:
        engine.records.job_changed(job)
    return engine.offer(now_ns, job.tube)


def change_numbers(engine, now_ns, job, command):
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
    engine.leave(job)
    if given & bit(Kind.PRI):
        job.pri = command.args.pri
    if given & bit(Kind.DELAY):
        due_ns = now_ns + command.args.delay_ns
    if given & bit(Kind.EXPIRE):
        give_expiry(job, command.args.expire_ns, ExpireBit.OWN)
    if job.flags & Flag.EXPIRES and given & (bit(Kind.DELAY) | bit(Kind.EXPIRE)):
        count_expiry(job, due_ns)
    if given & bit(Kind.DELAY):
        return engine.enter_after(now_ns, job, command.args.delay_ns)
    if job.state == State.DELAYED:
        return engine.enter_at(job, State.DELAYED, due_ns, since_ns)
    engine.enter_at(job, State.READY, job.pri, since_ns)
    job.flags |= was_due
    return 0


def change_body(engine, now_ns, session, command):
    """change-body: another body for a job that nobody holds."""
    job: Job = engine.jobs.find(command.args.id)
    if job is None or job.state == State.RESERVED:
        return engine.not_found(session)
    more: int64_t = command.body_bytes - cython.cast(int64_t, job.body_bytes)
    if refuses(engine, job.tube.name, job.tube, 0, more):
        return session.out.word(Word.OUT_OF_MEMORY)
    room: cython.int = engine.records.room_for_put(len(job.tube.name) + job.tag_bytes + command.body_bytes)
    if room != Room.OK:
        return no_room(session, room)
    engine.records.job_dropped(job)
    forget_key(engine, job)  # which may be the body
    changed: cython.bint = replace_body(job, command.body_at, command.body_bytes)
    if job.flags:
        other: Job = rival(engine, job.tube, job)
        if other is not None and job.state != State.BURIED:
            end_key(engine, job, KeyBit.FREED)
        keep_key(engine, job)
    engine.records.job_put(job)
    return session.out.word(Word.CHANGED if changed else Word.OUT_OF_MEMORY)
