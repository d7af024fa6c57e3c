"""What the holder of a job does with it: release, bury, touch, snooze-job and fail-job."""

import cython
from cython.cimports.beanpole.engine.commands.serve import offer
from cython.cimports.beanpole.engine.policies.attempts import end_attempt, is_last_attempt
from cython.cimports.beanpole.engine.policies.retry import (
    End,
    Why,
    bury_job,
    come_back,
    dead_bytes,
    die,
    ends,
    waits_to_count,
)
from cython.cimports.beanpole.engine.state.job import Job
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.tags import Tag, put_tag, tags_after
from cython.cimports.beanpole.protocol.extensions import Kind, bit
from cython.cimports.beanpole.protocol.replies import Word
from cython.cimports.libc.stdint import int64_t

from beanpole.engine import limits

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)


def release(queue, now_ns, session, command):
    """release: a held job becomes ready or delayed."""
    job: Job = queue.jobs.find(command.id)
    if job is None or job.holder is not session:
        return queue.not_found(session)
    if job.flags and ends(queue, now_ns, job):
        session.out.word(Word.RELEASED)
        return offer(queue, now_ns, job.tube)
    room: cython.int = queue.records.room_for_change(job.tag_bytes)
    if room == Room.OK and waits_to_count(queue, job):
        room = Room.WAIT
    if room != Room.OK:
        return queue.no_room(session, room)
    job.pri = command.pri
    job.release_count += 1
    job.tube.total_release_count += 1
    written: int64_t = come_back(queue, now_ns, job, End.RELEASED, command.delay_ns, False)
    session.moved_count += written // FAILED_BYTES_PER_JOB
    session.out.word(Word.RELEASED)
    return offer(queue, now_ns, job.tube)


def bury(queue, now_ns, session, command):
    """bury: a held job is put aside."""
    job: Job = queue.jobs.find(command.id)
    if job is None or job.holder is not session:
        return queue.not_found(session)
    room: cython.int = queue.records.room_for_change(job.tag_bytes)
    if room != Room.OK:
        return queue.no_room(session, room)
    queue.leave(job)
    job.pri = command.pri
    job.bury_count += 1
    job.tube.total_bury_count += 1
    if job.tag_bytes:
        end_attempt(job)
    bury_job(queue, job)
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
    if job is None or job.holder is not session:
        return False
    due_ns: int64_t = now_ns + job.ttr_s * SECOND_NS
    session.reserved.move(job, due_ns)
    queue.arm(session, due_ns)  # change-job may have made the time shorter
    if queue.records.wants_reservations:
        queue.records.job_reserved(job)
    return True


def snooze_job(queue, now_ns, session, command):
    """snooze-job: a held job comes back, after a delay, with nothing wrong."""
    job: Job = queue.jobs.find(command.args.id)
    if job is None or job.holder is not session:
        return queue.not_found(session)
    if job.flags and ends(queue, now_ns, job):
        session.out.word(Word.RELEASED)
        return offer(queue, now_ns, job.tube)
    room: cython.int = queue.records.room_for_change(job.tag_bytes)
    if room != Room.OK:
        return queue.no_room(session, room)
    if command.args.given & bit(Kind.PRI):
        job.pri = command.args.pri
    job.release_count += 1
    job.tube.total_release_count += 1
    come_back(queue, now_ns, job, End.SNOOZED, command.args.delay_ns, False)
    session.out.word(Word.RELEASED)
    return offer(queue, now_ns, job.tube)


def fail_job(queue, now_ns, session, command):
    """fail-job: a held job has failed; it comes back, or is dead, and keeps what its worker says of it."""
    job: Job = queue.jobs.find(command.args.id)
    dead_now: cython.bint = (command.args.given & bit(Kind.DEAD)) != 0
    if dead_now and command.args.given & bit(Kind.DELAY):
        return session.out.word(Word.BAD_FORMAT)
    if job is None or job.holder is not session:
        return queue.not_found(session)
    if job.flags and not dead_now and ends(queue, now_ns, job):
        session.out.word(Word.RELEASED)
        return offer(queue, now_ns, job.tube)
    dead: cython.bint = dead_now or is_last_attempt(job)
    longer: int64_t = tags_after(job, Tag.FAILURE_TEXT, command.body_bytes) - job.tag_bytes
    whole: cython.bint = longer != 0 or dead
    room: cython.int = (
        queue.records.room_for_put(dead_bytes(job) + longer) if whole else queue.records.room_for_change(job.tag_bytes)
    )
    if room == Room.OK and not whole and waits_to_count(queue, job):
        room = Room.WAIT
    if room != Room.OK:
        return queue.no_room(session, room)
    if whole:
        queue.records.job_dropped(job)
    queue.failures.remove(job)
    put_tag(job, Tag.FAILURE_TEXT, command.body_at, command.body_bytes)
    queue.failures.add(job)
    if command.args.given & bit(Kind.PRI):
        job.pri = command.args.pri
    job.release_count += not dead
    job.tube.total_release_count += not dead
    if dead:
        die(queue, now_ns, job, Why.FAILED if dead_now else Why.ATTEMPTS, whole)
    else:
        come_back(queue, now_ns, job, End.RELEASED, command.args.delay_ns, whole)
    session.out.word(Word.BURIED if dead else Word.RELEASED)
    return offer(queue, now_ns, job.tube)
