"""What becomes of a job whose attempt, delay or time has ended: it is ready or delayed again, dead, or deleted.

All of that by the rules of its tube (``attempts``, ``backoff``, ``dead``, ``expire``), as they are when it happens. A
job of a tube without rules comes back at once. One function decides about every job that comes back, however that came
about (:func:`come_back`), one lets jobs die (:func:`die`), and one takes away those that have no place outside the
hands of their holder (:func:`ends`).

What fails while the log has no room for it waits, delayed, until it can be recorded (:func:`settle_later`).
"""

import cython
from cython.cimports.beanpole.engine.policies.attempts import (
    backoff_ns,
    begin_count,
    counts,
    failed_attempt,
    has_count,
    is_last_attempt,
    is_under_way,
    is_unsettled,
    whole_bytes,
)
from cython.cimports.beanpole.engine.policies.expiry import begin_expiry, dies_of_age, expiry_of, stop_expiry
from cython.cimports.beanpole.engine.policies.uniqueness import end_key, forget_key
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.rules import TubeRules
from cython.cimports.beanpole.engine.state.tags import (
    DEATH_FIXED,
    TAG_FRAME_BYTES,
    KeyBit,
    Tag,
    attempt_of,
    find_tag,
    put_attempt,
    put_number,
    put_tag,
    read_flags,
)
from cython.cimports.beanpole.engine.state.times import Count
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.libc.string import memcpy

from beanpole.engine import limits

ROOM_RETRY_NS = cython.declare(int64_t, limits.ROOM_RETRY_NS)


def come_back(queue, now_ns, job, end, asked_ns, whole):
    """Let a job come back that somebody had: it is ready, delayed, dead or gone then. Return what it wrote, in bytes.

    `asked_ns` is the delay that was asked for; `whole`: the caller took it out of the log's accounts, as its size has
    changed. The caller offers ``job.tube`` to those who wait: if it died, that is another one.
    """
    rules: TubeRules = job.tube.rules
    under_way: cython.bint = False
    if rules is None and job.tag_bytes == 0 and not whole:  # by a command: else nobody asks
        queue.leave(job)
        queue.enter_after(now_ns, job, asked_ns)
        queue.records.job_changed(job)
        return CHANGE_BYTES
    over: int64_t = ends(queue, now_ns, job) if job.flags else 0
    if over:
        return over
    attempt: uint32_t = attempt_of(job, cython.address(under_way))
    is_counted: cython.bint = counts(rules) or under_way
    if end == End.SNOOZED:
        attempt -= under_way
    else:
        if is_last_attempt(job):
            return die(queue, now_ns, job, Why.ATTEMPTS, whole)
        attempt = failed_attempt(job)
        if asked_ns == 0 and rules is not None and rules.backoff_ns:
            asked_ns = backoff_ns(rules, attempt, job.id)
    if is_counted and not whole and not has_count(job) and end != End.SNOOZED:
        room: cython.int = queue.records.room_for_move(whole_bytes(job))
        if room == Room.WAIT:
            return settle_later(queue, now_ns, job, True)
        if room == Room.OK:
            queue.records.job_dropped(job)
            whole = True
    if is_counted and (whole or has_count(job)):
        put_attempt(job, attempt, False)
    queue.leave(job)
    if asked_ns or end <= End.SNOOZED:
        queue.enter_after(now_ns, job, asked_ns)
    else:
        queue.enter(job, State.READY, job.pri)  # its delay stays what was last asked for
    if whole:
        queue.records.job_put(job)
        return whole_bytes(job)
    if end <= End.SNOOZED or ((end == End.TIMED_OUT or is_counted) and queue.records.room_for_timeout(job.tag_bytes)):
        queue.records.job_changed(job)
    return CHANGE_BYTES


def ends(queue, now_ns, job):
    """Take away a job that has flags if there is no place for it outside the hands of its holder; whether it is gone.

    That is one whose key another job took, or whose time is over: it is deleted, or dead and somewhere else. What is
    asked of a job that comes back; the caller offers ``job.tube``. The return value is what it wrote, in bytes.
    """
    if job.flags & Flag.SUPERSEDED:
        queue.discard(job)
        return CHANGE_BYTES
    if not job.flags & Flag.EXPIRES:
        return 0
    at_ns: int64_t = expiry_of(job)
    if at_ns == 0 or at_ns > now_ns:
        return 0
    before: Tube = job.tube
    written: int64_t = CHANGE_BYTES
    if dies_of_age(job):
        written = die(queue, now_ns, job, Why.EXPIRED, False)
        if job.state == State.DELAYED and job.flags & Flag.COUNTING:
            if job.tube is before and expiry_of(job) <= now_ns:  # there was no room: it is tried again
                queue.expiry.remove(job)
                return queue.expiry.add(job, deadline_of(job)) + written
    else:
        queue.discard(job)
    queue.tally(before, Count.EXPIRED, 1)
    return written


def waits_to_count(queue, job):
    """Whether the command that ends the attempt at a job must run again: there is no room yet to count it."""
    if not counts(job.tube.rules) or has_count(job):
        return False
    size: int64_t = dead_bytes(job) if is_last_attempt(job) else whole_bytes(job)
    return queue.records.room_for_move(size) == Room.WAIT


def come_due(queue, now_ns, job):
    """Do what is due with a delayed job that has tags or flags: it becomes ready, unless an attempt at it has failed.

    Return what that wrote, in bytes.
    """
    over: int64_t = ends(queue, now_ns, job) if job.flags else 0
    if over:
        return over
    if is_unsettled(job):
        return come_back(queue, now_ns, job, End.LOST, 0, False)
    return become_due(queue, job)


def become_due(queue, job):
    """Make a delayed job ready whose delay is over: it is so since then, however late that is noticed."""
    due_ns: int64_t = deadline_of(job)
    queue.leave(job)
    queue.enter_at(job, State.READY, job.pri, due_ns)
    job.flags |= Flag.DUE
    return 0


def defer(queue, due_ns, job):
    """Let a job that has failed wait for a tick to settle it: it is delayed, and its attempt still under way."""
    queue.leave(job)
    queue.enter(job, State.DELAYED, due_ns)
    return queue.arm(job.tube, due_ns)


@cython.cfunc
@cython.exceptval(-1, check=False)
def settle_later(queue: Queue, now_ns: int64_t, job: Job, failed: cython.bint) -> int64_t:
    """Let a job wait until there is room to record what becomes of it; `failed`: an attempt at it has."""
    defer(queue, now_ns + ROOM_RETRY_NS, job)
    if failed and not is_under_way(job):
        job.flags |= Flag.FAILED
    if queue.records.room_for_timeout(job.tag_bytes):
        queue.records.job_changed(job)
    return CHANGE_BYTES


# --- death ------------------------------------------------------------------------------------------------------------


def died_in(job):
    """Return the tube in which a job died that has not been brought back since, or None."""
    size: cython.Py_ssize_t = 0
    if job.tag_bytes == 0:
        return None
    said: cython.p_const_char = find_tag(job, Tag.DEATH, cython.address(size))
    if said is cython.NULL:
        return None
    return said[DEATH_FIXED:size]


def forget_death(job):
    """Let a job that is brought back be none that died. The caller records it whole."""
    return put_tag(job, Tag.DEATH, cython.NULL, 0) if job.tag_bytes else 0


def grave_of(job):
    """Return the name of the tube to which a job goes when it dies; None: it is buried where it is.

    A job goes once: who dies again where the dead are stays there.
    """
    rules: TubeRules = job.tube.rules
    if rules is None or rules.dead is None or rules.dead == job.tube.name:
        return None
    before: bytes = died_in(job)
    return rules.dead if before is None or before == job.tube.name else None


def dead_bytes(job):
    """Return the bytes of a job for which there must be room when it dies."""
    name: bytes = grave_of(job)
    longer: cython.Py_ssize_t = 0 if name is None else len(name) - len(job.tube.name)
    return whole_bytes(job) + longer + TAG_FRAME_BYTES + DEATH_FIXED + len(job.tube.name)


def die(queue, now_ns, job, why, whole):
    """Let a job be dead: ready in the tube of the dead, or buried in its own. Return what it wrote, in bytes.

    A job that finds no room for that at once dies a little later, and on a full disk is buried without a word of it.
    """
    size: int64_t = dead_bytes(job)
    attempt: uint32_t = failed_attempt(job)
    if not whole:
        room: cython.int = queue.records.room_for_move(size)
        if room == Room.WAIT:
            return settle_later(queue, now_ns, job, why == Why.ATTEMPTS)
        if room != Room.OK:
            return bury_unrecorded(queue, job, attempt)
        queue.records.job_dropped(job)
    grave: bytes = grave_of(job)
    queue.leave(job)
    keep_death(queue, now_ns, job, why, attempt)
    queue.tally(job.tube, Count.DEAD, 1)
    if grave is not None:
        if job.flags & Flag.KEYED:
            end_key(queue, job, KeyBit.FREED)
        elif job.flags & Flag.SUPERSEDED:  # another job has the key for good: this one is as one without a key
            put_tag(job, Tag.KEY, cython.NULL, 0)
            read_flags(job)
        arrive(queue, now_ns, job, queue.open_tube(grave), State.READY, 0)
        return size
    if counts(job.tube.rules) or has_count(job):
        put_attempt(job, attempt, False)
    job.bury_count += 1
    job.tube.total_bury_count += 1
    bury_job(queue, job)
    queue.records.job_put(job)
    return size


@cython.cfunc
@cython.exceptval(-1, check=False)
def keep_death(queue: Queue, now_ns: int64_t, job: Job, why: cython.int, attempt: uint32_t) -> cython.int:
    """Let a job's tag say that it died; of a job that was moved by its death before, where it died first."""
    said: cython.char[256]
    before: bytes = died_in(job)
    name: bytes = job.tube.name if before is None else before
    put_number(said, now_ns, 8)
    put_number(cython.address(said[8]), attempt if counts(job.tube.rules) else job.reserve_count, 4)
    said[12] = cython.cast(cython.char, why)
    put_number(cython.address(said[13]), len(name), 1)
    memcpy(cython.address(said[DEATH_FIXED]), cython.cast(cython.p_const_char, name), len(name))
    return put_tag(job, Tag.DEATH, said, DEATH_FIXED + len(name))


@cython.cfunc
@cython.exceptval(-1, check=False)
def bury_unrecorded(queue: Queue, job: Job, attempt: uint32_t) -> int64_t:
    """Bury a job that died where it is, in a record of the size that it has: the disk is full."""
    queue.leave(job)
    queue.tally(job.tube, Count.DEAD, 1)
    if has_count(job):
        put_attempt(job, attempt, False)
    job.bury_count += 1
    job.tube.total_bury_count += 1
    bury_job(queue, job)
    if queue.records.room_for_timeout(job.tag_bytes):
        queue.records.job_changed(job)
    return CHANGE_BYTES


# --- places -----------------------------------------------------------------------------------------------------------


def bury_job(queue, job):
    """Make a job that left its state the last of the buried ones."""
    queue.buried_so_far_count += 1
    if job.flags & Flag.EXPIRES:
        stop_expiry(job)
    return queue.enter(job, State.BURIED, queue.buried_so_far_count)


def arrive(queue, now_ns, job, target, state, due_ns):
    """Let a job that left its state, and the log's accounts, be in another tube; DELAYED ends at `due_ns`."""
    before: Tube = job.tube
    forget_key(queue, job)
    before.body_bytes -= job.body_bytes
    target.body_bytes += job.body_bytes
    job.tube = target
    begin_count(job)
    if target.rules is not None or job.tag_bytes:
        begin_expiry(job, due_ns if state == State.DELAYED else now_ns)
    if state == State.DELAYED:
        queue.enter(job, State.DELAYED, due_ns)
        queue.arm(target, due_ns)
    elif state == State.BURIED:
        bury_job(queue, job)
    else:
        queue.enter(job, State.READY, job.pri)
    queue.records.job_put(job)
    if before is not target:
        queue.tally(before, Count.MOVED_OUT, 1)
        queue.tally(target, Count.MOVED_IN, 1)
    return queue.drop_if_unused(before)
