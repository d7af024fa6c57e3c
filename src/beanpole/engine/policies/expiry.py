"""Expiry: a job that has waited too long is deleted, or dead by a rule of its tube, and never handed out.

Its time counts from when it is due in its tube: when it was put there or has come there, or when the delay is over that
was asked for then. It is fixed at that moment, and stands among the job's tags (``state/tags.py``). While the
job is ready or delayed, it stands in the engine's queue of expiry; a held job whose time is over is deleted when it
comes back. The time does not count while the job is buried, and begins again when that is kicked.

The queue is one of the engine's timers, so that a job goes at its moment. Where more are over than one tick deletes,
whoever hands out jobs looks at each (:func:`ends`).
"""

import cython
from cython.cimports.beanpole.engine.policies.attempts import CHANGE_BYTES, Why, die
from cython.cimports.beanpole.engine.state.expiryqueue import ExpiryQueue
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, deadline_of
from cython.cimports.beanpole.engine.state.tags import (
    EXPIRY_BYTES,
    ExpireBit,
    Tag,
    find_tag,
    get_number,
    put_number,
    put_tag,
    read_flags,
)
from cython.cimports.beanpole.engine.state.tally import Count
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.beanpole.engine.state.tuberules import TubeRules
from cython.cimports.libc.stdint import INT64_MAX, int64_t

from beanpole.engine import limits

FAILED_BYTES_PER_JOB = cython.declare(cython.int, limits.FAILED_BYTES_PER_JOB)

ENDS_PER_TURN = cython.declare(cython.int, limits.ENDS_PER_TURN)

AT = cython.declare(cython.Py_ssize_t, 0)
"""Where in the tag it stands when the time is over; 0: it does not count."""

DURATION = cython.declare(cython.Py_ssize_t, 8)
BITS = cython.declare(cython.Py_ssize_t, 16)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def tag_of(job: Job) -> cython.p_char:
    """Return the tag of a job that expires."""
    size: cython.Py_ssize_t = 0
    return cython.cast(cython.p_char, find_tag(job, Tag.EXPIRE, cython.address(size)))


def give_expiry(job, duration_ns, bits):
    """Let a job in no state expire after a time, which :func:`count_expiry` begins; 0: never, whatever a rule says."""
    tag: cython.char[17]
    put_number(cython.address(tag[AT]), 0, 8)
    put_number(cython.address(tag[DURATION]), duration_ns, 8)
    tag[BITS] = bits
    put_tag(job, Tag.EXPIRE, tag, EXPIRY_BYTES)
    return read_flags(job)


def take_expiry(job):
    """Let a job in no state never expire, but for a rule."""
    put_tag(job, Tag.EXPIRE, cython.NULL, 0)
    return read_flags(job)


def begin_expiry(job, due_ns):
    """Let the time of a job that arrives in its tube begin when it is due: as who put it said, else as a rule says."""
    size: cython.Py_ssize_t = 0
    rules: TubeRules = job.tube.rules
    tag: cython.p_const_char = find_tag(job, Tag.EXPIRE, cython.address(size)) if job.tag_bytes else cython.NULL
    if tag is cython.NULL or not tag[BITS] & ExpireBit.OWN:
        if rules is not None and rules.expire_ns:
            give_expiry(job, rules.expire_ns, ExpireBit.DEAD if rules.expire_dead else 0)
        elif tag is not cython.NULL:
            take_expiry(job)
    if job.flags & Flag.EXPIRES:
        count_expiry(job, due_ns)
    return 0


def count_expiry(job, due_ns):
    """Let the time of a job that expires, and is in no state, begin when it is due."""
    tag: cython.p_char = tag_of(job)
    duration_ns: int64_t = get_number(tag + DURATION, 8)
    put_number(tag + AT, INT64_MAX if due_ns > INT64_MAX - duration_ns else due_ns + duration_ns, 8)


def stop_expiry(job):
    """Let the time of a job that expires, and is in no state, not count."""
    put_number(tag_of(job) + AT, 0, 8)


def expiry_of(job):
    """Return when the time of a job that expires is over; 0: it does not count."""
    return get_number(tag_of(job) + AT, 8)


def follow_expiry(engine, job):
    """Let a job that expires, and has just become ready or delayed, stand in the queue."""
    at_ns: int64_t = expiry_of(job)
    if at_ns == 0:
        return 0
    if engine.expiry is None:
        engine.expiry = ExpiryQueue()
    engine.expiry.add(job, at_ns)
    return engine.arm(engine.expiry, at_ns)


def dies_of_age(job):
    """Whether a job that expires is dead when its time is over, and not deleted."""
    return tag_of(job)[BITS] & ExpireBit.DEAD != 0


def ends(engine, now_ns, job):
    """Take away a job that has flags if there is no place for it outside the hands of its holder; whether it is gone.

    That is one whose key another job took, or whose time is over: it is deleted, or dead and somewhere else. What is
    asked of a job that comes back; the caller offers ``job.tube``. The return value is what it wrote, in bytes.
    """
    if job.flags & Flag.SUPERSEDED:
        engine.discard(job)
        return CHANGE_BYTES
    if not job.flags & Flag.EXPIRES:
        return 0
    at_ns: int64_t = expiry_of(job)
    if at_ns == 0 or at_ns > now_ns:
        return 0
    before: Tube = job.tube
    written: int64_t = CHANGE_BYTES
    if dies_of_age(job):
        written = die(engine, now_ns, job, Why.EXPIRED, False)
        if job.state == State.DELAYED and job.flags & Flag.COUNTING:
            if job.tube is before and expiry_of(job) <= now_ns:  # there was no room: it is tried again
                engine.expiry.remove(job)
                return engine.expiry.add(job, deadline_of(job)) + written
    else:
        engine.discard(job)
    engine.tally(before, Count.EXPIRED, 1)
    return written


def may_offer(now_ns, tube, passed):
    """Whether a tube goes on to offer its jobs after it has passed over some that were over.

    After ENDS_PER_TURN of them it does not if the next one is over as well: the next tick takes that, and goes on then.
    """
    job: Job = cython.cast(Job, tube.ready.entries[0].item)
    return passed < ENDS_PER_TURN or not (job.flags & Flag.COUNTING and expiry_of(job) <= now_ns)


def end_cost(job):
    """As how many of ENDS_PER_TURN the end of a job counts that is in the way: one that dies is written whole."""
    if job.flags & Flag.COUNTING and dies_of_age(job):
        return 1 + job.body_bytes // FAILED_BYTES_PER_JOB
    return 1


def is_over(engine, now_ns, job):
    """Whether the time of a job that is about to be handed out is over: then it is gone, and offered where it went."""
    before: Tube = job.tube
    if not ends(engine, now_ns, job):
        return False
    if job.tube is not before:
        engine.offer(now_ns, job.tube)
    return True
