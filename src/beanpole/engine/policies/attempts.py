"""Attempts at jobs: they are counted, where the rules of a tube ask for it, and after each a job waits for longer.

How many attempts have begun stands in a tag, and so does whether one is under way: each attempt is recorded as it
begins, so that one during which the server crashes counts. A job of which the tag says so but which nobody holds has
failed: after a start such jobs wait, delayed until now, for the tick that settles them (``come_due`` of ``retry.py``).

A job that came before its rules has no such tag yet, and gets it with its first attempt, which the log must have room
for. FULL: it never will, and the attempt is not counted. WAIT: there may be room in the next turn. Then the beginning
of an attempt is counted by a later tick (:func:`count_begun`), a command that ends one runs again
(``waits_to_count`` of ``retry.py``), and what fails otherwise waits, delayed, until it can be counted.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Timed
from cython.cimports.beanpole.engine.state.job import Flag, Job, State
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.rules import RULE_TAGS_BYTES, TubeRules
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import Tag, attempt_of, find_tag, put_attempt, put_tag
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t

from beanpole.engine import limits

MIX_ID = cython.declare(uint64_t, 0x9E3779B97F4A7C15)
MIX_ATTEMPT = cython.declare(uint64_t, 0xD6E8FEB86659FD93)
"""Odd numbers: multiplying with them spreads ids and attempts that follow each other."""

FAILED_BYTES_PER_JOB = cython.declare(int64_t, limits.FAILED_BYTES_PER_JOB)
ROOM_RETRY_NS = cython.declare(int64_t, limits.ROOM_RETRY_NS)


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
    return attempt + (not under_way and (job.state == State.RESERVED or job.flags & Flag.FAILED != 0))


def is_last_attempt(job):
    """Whether a held job is dead when this attempt fails."""
    rules: TubeRules = job.tube.rules
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
    timed: Timed
    session: Session
    job: Job
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t
    under_way: cython.bint = False
    for i in range(queue.timers.count):
        timed = cython.cast(Timed, queue.timers.entries[i].item)
        if not isinstance(timed, Session):
            continue
        session = cython.cast(Session, timed, typecheck=True)
        for at in range(session.reserved.count):
            job = cython.cast(Job, session.reserved.entries[at].item)
            attempt: uint32_t = attempt_of(job, cython.address(under_way))
            if under_way:
                put_attempt(job, attempt - 1, False)
                if queue.records.room_for_timeout(job.tag_bytes):
                    queue.records.job_changed(job)
    return 0
