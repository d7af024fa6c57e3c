"""Keys: at most one job of a tube holds a key, while it is ready, delayed or reserved.

A key stands among its job's tags (``state/tags.py``), also while the job does not hold it: a buried job takes
it again when it is kicked, unless another job has it by then. ``Job.flags`` say what the tag says, so that a job
without a key costs one test of a byte where its state changes.

In a tube with the rule ``unique`` the body of a job that was put without a key is its key. No key of the other kind is
the same, whatever it says. What changes the body takes the job out of the index first.
"""

import cython
from cython.cimports.beanpole.engine.state.job import Flag, Job, State, holder_of
from cython.cimports.beanpole.engine.state.keys import KeyIndex, is_body, key_of
from cython.cimports.beanpole.engine.state.tags import KeyBit, Tag, find_tag, put_tag, read_flags
from cython.cimports.libc.stdint import uint8_t
from cython.cimports.libc.string import memcpy


def key_holder(queue, tube, key, size, body):
    """Return the job that holds a key in a tube, or None; `body`: the key is its body."""
    return None if queue.keys is None or tube is None else queue.keys.find(tube, key, size, body)


def rival(queue, tube, job):
    """Return the job that holds, in a tube, the key which a job wants that doesn't hold it; or None."""
    size: cython.Py_ssize_t = 0
    if not job.flags & Flag.KEYED:
        return None
    key: cython.p_const_char = key_of(job, cython.address(size))
    return key_holder(queue, tube, key, size, is_body(job))


def give_key(job, key, size, until_reserve):
    """Give a job a key, which it holds when it enters its next state."""
    text: cython.char[256]
    text[0] = KeyBit.UNTIL_RESERVE if until_reserve else 0
    memcpy(cython.address(text[1]), key, size)
    put_tag(job, Tag.KEY, text, size + 1)
    return read_flags(job)


def give_body_key(job, until_reserve):
    """Let the body of a job be its key."""
    text: cython.char[1]
    text[0] = KeyBit.BODY | (KeyBit.UNTIL_RESERVE if until_reserve else 0)
    put_tag(job, Tag.KEY, text, 1)
    return read_flags(job)


def keep_key(queue, job):
    """Let a job that enters a state hold its key, or no more.

    Only in a log that lost records can another job hold it: then the job that comes later has it.
    """
    wants: cython.bint = job.flags & Flag.KEYED and job.state != State.BURIED
    if wants == (job.flags & Flag.HOLDS_KEY != 0):
        return 0
    if not wants:
        return forget_key(queue, job)
    if queue.keys is None:
        queue.keys = KeyIndex()
    job.flags |= Flag.HOLDS_KEY
    other: Job = queue.keys.add(job)
    return 0 if other is None else end_key(queue, other, KeyBit.FREED)


def forget_key(queue, job):
    """Let a job that goes, or whose tube or tags change, not hold its key."""
    if not job.flags & Flag.HOLDS_KEY:
        return 0
    job.flags &= ~cython.cast(uint8_t, Flag.HOLDS_KEY)
    return queue.keys.remove(job)


def end_key(queue, job, bits):
    """Let a job never hold its key again: its tag says why, by a bit. Its size stays; the caller records it."""
    size: cython.Py_ssize_t = 0
    text: cython.p_const_char = find_tag(job, Tag.KEY, cython.address(size))
    cython.cast(cython.p_uchar, text)[0] |= bits
    forget_key(queue, job)
    return read_flags(job)


def may_return(queue, job):
    """Whether a job that has flags may leave the buried ones: nobody else has its key."""
    if job.flags & Flag.SUPERSEDED:
        return False
    return job.state != State.BURIED or rival(queue, job.tube, job) is None


def settle(queue):
    """Delete the superseded jobs whose holders a restart took away: they have come back."""
    ids: list = queue.unsettled
    queue.unsettled = None
    for id in ids:
        job: Job = queue.jobs.find(id)
        if job is not None and job.flags & Flag.SUPERSEDED and job.state != State.BURIED and holder_of(job) is None:
            queue.discard(job)
    return 0
