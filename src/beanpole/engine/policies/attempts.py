"""Attempts at jobs: how they are counted, and what becomes of a job whose attempt, delay or time has ended.

It is ready or delayed again, dead, or deleted, by the rules of its tube (``attempts``, ``backoff``, ``dead``,
``expire``), as they are when it happens. A job of a tube without rules comes back at once. One function decides about
every job that comes back, however that came about (:func:`come_back`), one lets jobs die (:func:`die`), and one takes
away those that have no place outside the hands of their holder (:func:`ends`).

How many attempts have begun stands in a tag, and so does whether one is under way: each attempt is recorded as it
begins, so that one during which the server crashes counts. A job of which the tag says so but which nobody holds has
failed: after a start such jobs wait, delayed until now, for the tick that settles them (:func:`come_due`).

A job that came before its rules has no such tag yet, and gets it with its first attempt, which the log must have room
for. FULL: it never will, and the attempt is not counted. WAIT: there may be room in the next turn. Then the beginning
of an attempt is counted by a later tick (:func:`count_begun`), a command that ends one runs again
(:func:`waits_to_count`), and what fails otherwise waits, delayed, until it can be counted (:func:`settle_later`).
"""

import cython
from cython.cimports.beanpole.engine.policies.expiry import begin_expiry, dies_of_age, expiry_of, stop_expiry
from cython.cimports.beanpole.engine.policies.history import End, keeps_history, note_end
from cython.cimports.beanpole.engine.policies.uniqueness import end_key, forget_key
from cython.cimports.beanpole.engine.state.job import Flag, Job, JobCount, State, count_one, deadline_of, job_count
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import (
    ATTEMPT_BYTES,
    DEATH_FIXED,
    EXPIRY_BYTES,
    TAG_FRAME_BYTES,
    Death,
    KeyBit,
    Tag,
    attempt_of,
    find_tag,
    put_attempt,
    put_number,
    put_tag,
    read_death,
    read_flags,
)
from cython.cimports.beanpole.engine.state.times import Count
from cython.cimports.beanpole.engine.state.tube import RULE_TAGS_BYTES, RuleSet, Tube, note_bodies
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy

from beanpole.engine import limits

MIX_ID = cython.declare(uint64_t, 0x9E3779B97F4A7C15)
MIX_ATTEMPT = cython.declare(uint64_t, 0xD6E8FEB86659FD93)
"""Odd numbers: multiplying with them spreads ids and attempts that follow each other."""

FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)
ROOM_RETRY_NS = cython.declare(int64_t, limits.ROOM_RETRY_NS)


def counts(rules):
    return rules is not None and (rules.attempts != 0 or rules.backoff_ns != 0 or rules.group_strict)


def rule_tags(rules):
    """Return the bytes of the tags that rules give a new job, RULE_TAGS_BYTES at the most."""
    if rules is None:
        return 0
    size: cython.Py_ssize_t = TAG_FRAME_BYTES + ATTEMPT_BYTES if counts(rules) else 0
    if rules.expire_ns:
        size += TAG_FRAME_BYTES + EXPIRY_BYTES
    return size + (TAG_FRAME_BYTES + 1 if rules.unique else 0)


def begin_count(job):
    """Let a job that arrives in its tube have had no attempt. The caller records it whole.

    Where attempts count it gets its tag now, so that it keeps its size as they begin and end.
    """
    if counts(job.tube.rules):
        return put_attempt(job, 0, False)
    return put_tag(job, Tag.ATTEMPTS, cython.NULL, 0) if job.tag_bytes else 0


def begin_attempt(queue, job):
    """Count and record that an attempt begins, of a job that somebody has just got from a tube with rules."""
    under_way: cython.bint = False
    if not counts(job.tube.rules):
        return 0
    attempt: uint32_t = attempt_of(job, cython.address(under_way)) + 1
    if has_count(job):
        put_attempt(job, attempt, True)
        return queue.records.attempt_begun(job)
    # It came before the rules did.
    room: cython.int = queue.records.room_for_move(whole_bytes(job))
    if room == Room.WAIT:
        if queue.uncounted is None:
            queue.uncounted = []
            queue.uncounted_until_ns = queue.now_ns + ROOM_RETRY_NS
        queue.uncounted.append(job.id)
    if room != Room.OK:
        return 0
    queue.records.job_dropped(job)
    put_attempt(job, attempt, True)
    return queue.records.job_put(job)


def count_begun(queue, now_ns):
    """Count the attempts that had no room in the log when they began, as far as there is room now."""
    ids: list = queue.uncounted
    at: cython.Py_ssize_t = 0
    queue.uncounted = None
    while at < len(ids) and queue.uncounted is None and queue.moves_left > 0:
        job: Job = queue.jobs.find(ids[at])
        if job is not None and job.state == State.RESERVED and not is_under_way(job):
            begin_attempt(queue, job)
            queue.moves_left -= whole_bytes(job) // FAILED_BYTES_PER_JOB
        queue.moves_left -= 1
        at += 1
    if at < len(ids):
        queue.uncounted = ids[at:] if queue.uncounted is None else queue.uncounted + ids[at:]
        queue.uncounted_until_ns = now_ns + ROOM_RETRY_NS
    return 0


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


def failed_attempt(job):
    """Return which attempt has failed when one of a job that somebody holds does."""
    under_way: cython.bint = False
    attempt: uint32_t = attempt_of(job, cython.address(under_way))
    # The rule may have come while it was held, or the job before the rule, when there was no room for its tag.
    return attempt + (
        not under_way and (job.state == State.RESERVED or (job.state == State.DELAYED and job.flags & Flag.FAILED != 0))
    )


def is_last_attempt(job):
    """Whether a held job is dead when this attempt fails."""
    rules: RuleSet = job.tube.rules
    return rules is not None and rules.attempts != 0 and failed_attempt(job) >= rules.attempts


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


def whole_bytes(job):
    """Return the bytes of a job for which there must be room, with the tags that rules give it."""
    return len(job.tube.name) + job.body_bytes + job.tag_bytes + RULE_TAGS_BYTES


# --- the end of a server ----------------------------------------------------------------------------------------------


def take_back(queue):
    """Take back the attempts that are under way, as nothing is wrong with their jobs: the server stops."""
    under_way: cython.bint = False
    at: cython.Py_ssize_t
    for each in queue.sessions.all_sessions():
        session: Session = cython.cast(Session, each, typecheck=True)
        if session.keep is not None:
            continue  # whoever has its token goes on with them
        for at in range(session.reserved.count):
            job: Job = cython.cast(Job, session.reserved.entries[at].item)
            attempt: uint32_t = attempt_of(job, cython.address(under_way))
            if under_way:
                put_attempt(job, attempt - 1, False)
                if queue.records.room_for_timeout(job.tag_bytes):
                    queue.records.job_changed(job)
    return 0


# --- the end of an attempt or a delay ---------------------------------------------------------------------------------


def come_back(queue, now_ns, job, end, asked_ns, whole):
    """Let a job come back that somebody had: it is ready, delayed, dead or gone then. Return what it wrote, in bytes.

    `asked_ns` is the delay that was asked for; `whole`: the caller took it out of the log's accounts, as its size has
    changed. The caller offers ``job.tube`` to those who wait: if it died, that is another one.
    """
    rules: RuleSet = job.tube.rules
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
    fails: cython.bint = end != End.SNOOZED and end != End.EXCUSED
    if not fails:
        attempt -= under_way
    else:
        if end != End.FAILED and (end != End.LOST or is_counted) and keeps_history(job):
            whole = note_end(queue, now_ns, job, end, whole, dead_bytes(job))
        if is_last_attempt(job):
            return die(queue, now_ns, job, Why.ATTEMPTS, whole)
        attempt = failed_attempt(job)
        if asked_ns == 0 and rules is not None and rules.backoff_ns:
            asked_ns = backoff_ns(rules, attempt, job.id)
    if is_counted and not whole and not has_count(job) and fails:
        room: cython.int = queue.records.room_for_move(whole_bytes(job))
        if room == Room.WAIT:
            return settle_later(queue, now_ns, job, True)
        if room == Room.OK:
            queue.records.job_dropped(job)
            whole = True
    if is_counted and ((whole and fails) or has_count(job)):
        put_attempt(job, attempt, False)
    queue.leave(job)
    if asked_ns or end <= End.BURIED:
        queue.enter_after(now_ns, job, asked_ns)
    else:
        queue.enter(job, State.READY, job.pri)  # its delay stays what was last asked for
    if whole:
        queue.records.job_put(job)
        return whole_bytes(job)
    if end <= End.BURIED or ((end == End.TIMED_OUT or is_counted) and queue.records.room_for_timeout(job.tag_bytes)):
        queue.records.job_changed(job)
    return CHANGE_BYTES


def is_at_end(job, now_ns):
    """Whether a job that comes back from its holder now is taken away, as :func:`ends` does it."""
    if job.flags & Flag.SUPERSEDED:
        return True
    return job.flags & Flag.EXPIRES != 0 and 0 < expiry_of(job) <= now_ns


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
    death: Death
    return death.tube[: death.tube_bytes] if read_death(job, cython.address(death)) else None


def forget_death(job):
    """Let a job that is brought back be none that died. The caller records it whole."""
    return put_tag(job, Tag.DEATH, cython.NULL, 0) if job.tag_bytes else 0


def grave_of(job):
    """Return the name of the tube to which a job goes when it dies; None: it is buried where it is.

    A job goes once: who dies again where the dead are stays there.
    """
    rules: RuleSet = job.tube.rules
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
    count_one(job, JobCount.BURIES)
    job.tube.total_bury_count += 1
    bury_job(queue, job)
    queue.records.job_put(job)
    return size


@cython.cfunc
def keep_death(queue: Queue, now_ns: int64_t, job: Job, why: cython.int, attempt: uint32_t) -> cython.int:
    """Let a job's tag say that it died; of a job that was moved by its death before, where it died first."""
    said: cython.char[256]
    before: bytes = died_in(job)
    name: bytes = job.tube.name if before is None else before
    put_number(said, now_ns, 8)
    put_number(cython.address(said[8]), attempt if counts(job.tube.rules) else job_count(job, JobCount.RESERVES), 4)
    said[12] = cython.cast(cython.char, why)
    put_number(cython.address(said[13]), len(name), 1)
    memcpy(cython.address(said[DEATH_FIXED]), cython.cast(cython.p_const_char, name), len(name))
    return put_tag(job, Tag.DEATH, said, DEATH_FIXED + len(name))


@cython.cfunc
def bury_unrecorded(queue: Queue, job: Job, attempt: uint32_t) -> int64_t:
    """Bury a job that died where it is, in a record of the size that it has: the disk is full."""
    queue.leave(job)
    queue.tally(job.tube, Count.DEAD, 1)
    if has_count(job):
        put_attempt(job, attempt, False)
    count_one(job, JobCount.BURIES)
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


def add_new(queue, now_ns, job, delay_ns):
    """Add a new job whose id, tube, priority and TTR are set; the caller records it and offers it to sessions."""
    job.created_at_ns = now_ns
    queue.jobs.add(job)
    queue.next_job_id += 1
    queue.total_jobs_count += 1
    if job.tube.rules is not None:
        begin_count(job)
    if job.tube.rules is not None or job.tag_bytes:
        begin_expiry(job, now_ns + delay_ns)
    job.tube.total_jobs_count += 1
    note_bodies(job.tube, 1, job.body_bytes)
    return queue.enter_after(now_ns, job, delay_ns)


def arrive(queue, now_ns, job, target, state, due_ns):
    """Let a job that left its state, and the log's accounts, be in another tube; DELAYED ends at `due_ns`."""
    before: Tube = job.tube
    if before.groups is not None:
        queue.end_of_group(job)
    forget_key(queue, job)
    note_bodies(before, -1, -cython.cast(int64_t, job.body_bytes))
    note_bodies(target, 1, job.body_bytes)
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
