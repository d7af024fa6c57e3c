"""Expiry: a job that has waited too long is deleted, or dead by a rule of its tube, and never handed out.

Its time counts from when it is due in its tube: when it was put there or has come there, or when the delay is over that
was asked for then. It is fixed at that moment, and stands among the job's tags (``state/tags.py``). While the
job is ready or delayed, it stands in the engine's queue of expiry; a held job whose time is over is deleted when it
comes back. The time does not count while the job is buried, and begins again when that is kicked.

The queue is one of the engine's timers, so that a job goes at its moment. Where more are over than one tick deletes,
whoever hands out jobs looks at each (:func:`ends`).
"""

import cython
from cython.cimports.beanpole.engine.state.job import Flag, Job
from cython.cimports.beanpole.engine.state.jobtable import ExpiryQueue
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
from cython.cimports.beanpole.engine.state.tube import RuleSet
from cython.cimports.libc.stdint import INT64_MAX, int64_t

AT = cython.declare(cython.Py_ssize_t, 0)  # where in the tag it stands when the time is over; 0: it does not count
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
    rules: RuleSet = job.tube.rules
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
    put_number(tag_of(job) + AT, 0, 8)


def expiry_of(job):
    """Return when the time of a job that expires is over; 0: it does not count."""
    return get_number(tag_of(job) + AT, 8)


def follow_expiry(queue, job):
    """Let a job that expires, and has just become ready or delayed, stand in the queue."""
    at_ns: int64_t = expiry_of(job)
    if at_ns == 0:
        return 0
    if queue.expiry is None:
        queue.expiry = ExpiryQueue()
    queue.expiry.add(job, at_ns)
    return queue.arm(queue.expiry, at_ns)


def dies_of_age(job):
    """Whether a job that expires is dead when its time is over, and not deleted."""
    return tag_of(job)[BITS] & ExpireBit.DEAD != 0
