"""What happens to a job that fails: attempts are counted, it waits before the next one, and after the last it is dead.

All of that by the rules of its tube (``attempts``, ``backoff``, ``dead``), as they are when it happens. A job of a tube
without rules comes back at once. One function decides about every job that comes back, however that came about
(:func:`come_back`), and one lets jobs die (:func:`die`).

How many attempts have begun stands in a tag, and so does whether one is under way: each attempt is recorded as it
begins, so that one during which the server crashes counts. A job of which the tag says so but which nobody holds has
failed: after a start such jobs wait, delayed until now, for the tick that settles them (:func:`come_due`).

A job that came before its rules has no such tag yet, and gets it with its first attempt, which the log must have room
for. FULL: it never will, and the attempt is not counted. WAIT: there may be room in the next turn. Then the beginning
of an attempt is counted by a later tick (:func:`count_begun`), a command that ends one runs again
(:func:`waits_to_count`), and what fails otherwise waits, delayed, until it can be counted (:func:`settle_later`).
"""

import cython
from cython.cimports.beanpole.engine.commands.change import arrive
from cython.cimports.beanpole.engine.policies.expiry import ends
from cython.cimports.beanpole.engine.policies.uniqueness import end_key
from cython.cimports.beanpole.engine.state.heap import Timed
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
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
from cython.cimports.beanpole.engine.state.tally import Count
from cython.cimports.beanpole.engine.state.tuberules import RULE_TAGS_BYTES, TubeRules
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy

from beanpole.engine import limits

MIX_ID = cython.declare(uint64_t, 0x9E3779B97F4A7C15)
MIX_ATTEMPT = cython.declare(uint64_t, 0xD6E8FEB86659FD93)
"""Odd numbers: multiplying with them spreads ids and attempts that follow each other."""

FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)
ROOM_RETRY_NS = cython.declare(int64_t, limits.ROOM_RETRY_NS)


# --- attempts ---------------------------------------------------------------------------------------------------------


def counts(rules):
    """Whether attempts are counted in a tube with these rules."""
    return rules is not None and (rules.attempts != 0 or rules.backoff_ns != 0)


def begin_count(job):
    """Let a job that arrives in its tube have had no attempt. The caller records it whole.

    Where attempts count it gets its tag now, so that it keeps its size as they begin and end.
    """
    if counts(job.tube.rules):
        return put_attempt(job, 0, False)
    return put_tag(job, Tag.ATTEMPTS, cython.NULL, 0) if job.tag_bytes else 0


def begin_attempt(engine, job):
    """Count and record that an attempt begins, of a job that somebody has just got from a tube with rules."""
    under_way: cython.bint = False
    if not counts(job.tube.rules):
        return 0
    attempt: uint32_t = attempt_of(job, cython.address(under_way)) + 1
    if has_count(job):
        put_attempt(job, attempt, True)
        return engine.records.attempt_begun(job)
    # It came before the rules did.
    room: cython.int = engine.records.room_for_move(whole_bytes(job))
    if room == Room.WAIT:
        if engine.uncounted is None:
            engine.uncounted = []
            engine.uncounted_until_ns = engine.now_ns + ROOM_RETRY_NS
        engine.uncounted.append(job.id)
    if room != Room.OK:
        return 0
    engine.records.job_dropped(job)
    put_attempt(job, attempt, True)
    return engine.records.job_put(job)


def count_begun(engine, now_ns):
    """Count the attempts that had no room in the log when they began, as far as there is room now."""
    ids: list = engine.uncounted
    at: cython.Py_ssize_t = 0
    engine.uncounted = None
    while at < len(ids) and engine.uncounted is None and engine.moves_left > 0:
        job: Job = engine.jobs.find(ids[at])
        if job is not None and job.state == State.RESERVED and not is_under_way(job):
            begin_attempt(engine, job)
            engine.moves_left -= whole_bytes(job) // FAILED_BYTES_PER_JOB
        engine.moves_left -= 1
        at += 1
    if at < len(ids):
        engine.uncounted = ids[at:] if engine.uncounted is None else engine.uncounted + ids[at:]
        engine.uncounted_until_ns = now_ns + ROOM_RETRY_NS
    return 0


def waits_to_count(engine, job):
    """Whether the command that ends the attempt at a job must run again: there is no room yet to count it."""
    if not counts(job.tube.rules) or has_count(job):
        return False
    size: int64_t = dead_bytes(job) if is_last_attempt(job) else whole_bytes(job)
    return engine.records.room_for_move(size) == Room.WAIT


def end_attempt(job):
    """Let no attempt be under way: it has ended, and not by failing."""
    under_way: cython.bint = False
    attempt: uint32_t = attempt_of(job, cython.address(under_way))
    return put_attempt(job, attempt, False) if under_way else 0


def forget_attempts(job):
    """Let a job have had no attempt, as if it had been put now."""
    return put_attempt(job, 0, False) if has_count(job) else 0


def is_under_way(job):
    """Whether an attempt at a job is under way, by its tag."""
    under_way: cython.bint = False
    attempt_of(job, cython.address(under_way))
    return under_way


def is_unsettled(job):
    """Whether an attempt at a delayed job has failed, and a tick is still to say what becomes of it.

    Until then it is not back: nobody can reserve or change it by its id.
    """
    return job.flags & Flag.FAILED != 0 or is_under_way(job)


def has_count(job):
    """Whether a job has the tag of attempts."""
    size: cython.Py_ssize_t = 0
    return job.tag_bytes != 0 and find_tag(job, Tag.ATTEMPTS, cython.address(size)) is not cython.NULL


@cython.cfunc
@cython.exceptval(check=False)
def failed_attempt(job: Job) -> uint32_t:
    """Return which attempt has failed when one of a job that somebody holds does."""
    under_way: cython.bint = False
    attempt: uint32_t = attempt_of(job, cython.address(under_way))
    # The rule may have come while it was held, or the job before the rule, when there was no room for its tag.
    return attempt + (not under_way and (job.state == State.RESERVED or job.flags & Flag.FAILED != 0))


def is_last_attempt(job):
    """Whether a held job is dead when this attempt fails."""
    rules: TubeRules = job.tube.rules
    return rules is not None and rules.attempts != 0 and failed_attempt(job) >= rules.attempts


# --- coming back ------------------------------------------------------------------------------------------------------


def come_back(engine, now_ns, job, end, asked_ns, whole):
    """Let a job come back that somebody had: it is ready, delayed, dead or gone then. Return what it wrote, in bytes.

    `asked_ns` is the delay that was asked for; `whole`: the caller took it out of the log's accounts, as its size has
    changed. The caller offers ``job.tube`` to those who wait: if it died, that is another one.
    """
    rules: TubeRules = job.tube.rules
    under_way: cython.bint = False
    if rules is None and job.tag_bytes == 0 and not whole:  # by a command: else nobody asks
        engine.leave(job)
        engine.enter_after(now_ns, job, asked_ns)
        engine.records.job_changed(job)
        return CHANGE_BYTES
    over: int64_t = ends(engine, now_ns, job) if job.flags else 0
    if over:
        return over
    attempt: uint32_t = attempt_of(job, cython.address(under_way))
    is_counted: cython.bint = counts(rules) or under_way
    if end == End.SNOOZED:
        attempt -= under_way
    else:
        if is_last_attempt(job):
            return die(engine, now_ns, job, Why.ATTEMPTS, whole)
        attempt = failed_attempt(job)
        if asked_ns == 0 and rules is not None and rules.backoff_ns:
            asked_ns = backoff_ns(rules, attempt, job.id)
    if is_counted and not whole and not has_count(job) and end != End.SNOOZED:
        room: cython.int = engine.records.room_for_move(whole_bytes(job))
        if room == Room.WAIT:
            return settle_later(engine, now_ns, job, True)
        if room == Room.OK:
            engine.records.job_dropped(job)
            whole = True
    if is_counted and (whole or has_count(job)):
        put_attempt(job, attempt, False)
    engine.leave(job)
    if asked_ns or end <= End.SNOOZED:
        engine.enter_after(now_ns, job, asked_ns)
    else:
        engine.enter(job, State.READY, job.pri)  # its delay stays what was last asked for
    if whole:
        engine.records.job_put(job)
        return whole_bytes(job)
    if end <= End.SNOOZED or ((end == End.TIMED_OUT or is_counted) and engine.records.room_for_timeout(job.tag_bytes)):
        engine.records.job_changed(job)
    return CHANGE_BYTES


def come_due(engine, now_ns, job):
    """Do what is due with a delayed job that has tags or flags: it becomes ready, unless an attempt at it has failed.

    Return what that wrote, in bytes.
    """
    over: int64_t = ends(engine, now_ns, job) if job.flags else 0
    if over:
        return over
    if is_unsettled(job):
        return come_back(engine, now_ns, job, End.LOST, 0, False)
    return become_due(engine, job)


def become_due(engine, job):
    """Make a delayed job ready whose delay is over: it is so since then, however late that is noticed."""
    due_ns: int64_t = deadline_of(job)
    engine.leave(job)
    engine.enter_at(job, State.READY, job.pri, due_ns)
    job.flags |= Flag.DUE
    return 0


def defer(engine, due_ns, job):
    """Let a job that has failed wait for a tick to settle it: it is delayed, and its attempt still under way."""
    engine.leave(job)
    engine.enter(job, State.DELAYED, due_ns)
    return engine.arm(job.tube, due_ns)


def backoff_ns(rules, attempt, id):
    """Return how long a job waits after an attempt: longer after each, and not as long as others that failed then."""
    factor: int64_t = rules.backoff_factor_1000
    most: int64_t = rules.backoff_max_ns
    delay: int64_t = min(rules.backoff_ns, most)
    longer: int64_t
    mixed: uint64_t = (id * MIX_ID ^ attempt) * MIX_ATTEMPT
    while attempt > 1 and delay < most:
        longer = most
        if delay // 1000 < most // max(factor, 1):  # else it would be more, if there were a number for it
            longer = min(delay // 1000 * factor + delay % 1000 * factor // 1000, most)
        if longer == delay:
            break
        delay = longer
        attempt -= 1
    return delay - delay // 5 // 1024 * cython.cast(int64_t, mixed >> 54)


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


@cython.cfunc
@cython.exceptval(-1, check=False)
def whole_bytes(job: Job) -> int64_t:
    """Return the bytes of a job for which there must be room, with the tags that rules give it."""
    return len(job.tube.name) + job.body_bytes + job.tag_bytes + RULE_TAGS_BYTES


def dead_bytes(job):
    """Return the bytes of a job for which there must be room when it dies."""
    name: bytes = grave_of(job)
    longer: cython.Py_ssize_t = 0 if name is None else len(name) - len(job.tube.name)
    return whole_bytes(job) + longer + TAG_FRAME_BYTES + DEATH_FIXED + len(job.tube.name)


def die(engine, now_ns, job, why, whole):
    """Let a job be dead: ready in the tube of the dead, or buried in its own. Return what it wrote, in bytes.

    A job that finds no room for that at once dies a little later, and on a full disk is buried without a word of it.
    """
    size: int64_t = dead_bytes(job)
    attempt: uint32_t = failed_attempt(job)
    if not whole:
        room: cython.int = engine.records.room_for_move(size)
        if room == Room.WAIT:
            return settle_later(engine, now_ns, job, why == Why.ATTEMPTS)
        if room != Room.OK:
            return bury_unrecorded(engine, job, attempt)
        engine.records.job_dropped(job)
    grave: bytes = grave_of(job)
    keep_death(engine, now_ns, job, why, attempt)
    engine.leave(job)
    engine.tally(job.tube, Count.DEAD, 1)
    if grave is not None:
        if job.flags & Flag.KEYED:
            end_key(engine, job, KeyBit.FREED)
        elif job.flags & Flag.SUPERSEDED:  # another job has the key for good: this one is as one without a key
            put_tag(job, Tag.KEY, cython.NULL, 0)
            read_flags(job)
        arrive(engine, now_ns, job, engine.open_tube(grave), State.READY, 0)
        return size
    if counts(job.tube.rules) or has_count(job):
        put_attempt(job, attempt, False)
    job.bury_count += 1
    job.tube.total_bury_count += 1
    engine.bury_job(job)
    engine.records.job_put(job)
    return size


@cython.cfunc
@cython.exceptval(-1, check=False)
def settle_later(engine: Engine, now_ns: int64_t, job: Job, failed: cython.bint) -> int64_t:
    """Let a job wait until there is room to record what becomes of it; `failed`: an attempt at it has."""
    defer(engine, now_ns + ROOM_RETRY_NS, job)
    if failed and not is_under_way(job):
        job.flags |= Flag.FAILED
    if engine.records.room_for_timeout(job.tag_bytes):
        engine.records.job_changed(job)
    return CHANGE_BYTES


@cython.cfunc
@cython.exceptval(-1, check=False)
def keep_death(engine: Engine, now_ns: int64_t, job: Job, why: cython.int, attempt: uint32_t) -> cython.int:
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
def bury_unrecorded(engine: Engine, job: Job, attempt: uint32_t) -> int64_t:
    """Bury a job that died where it is, in a record of the size that it has: the disk is full."""
    engine.leave(job)
    engine.tally(job.tube, Count.DEAD, 1)
    if has_count(job):
        put_attempt(job, attempt, False)
    job.bury_count += 1
    job.tube.total_bury_count += 1
    engine.bury_job(job)
    if engine.records.room_for_timeout(job.tag_bytes):
        engine.records.job_changed(job)
    return CHANGE_BYTES


# --- the end of a server ----------------------------------------------------------------------------------------------


def take_back(engine):
    """Take back the attempts that are under way, as nothing is wrong with their jobs: the server stops."""
    timed: Timed
    session: Session
    job: Job
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    under_way: cython.bint = False
    for i in range(engine.timers.count):
        timed = cython.cast(Timed, engine.timers.entries[i].item)
        if not isinstance(timed, Session):
            continue
        session = cython.cast(Session, timed, typecheck=True)
        for at in range(session.reserved.count):
            job = cython.cast(Job, session.reserved.entries[at].item)
            attempt: uint32_t = attempt_of(job, cython.address(under_way))
            if under_way:
                put_attempt(job, attempt - 1, False)
                if engine.records.room_for_timeout(job.tag_bytes):
                    engine.records.job_changed(job)
    return 0
