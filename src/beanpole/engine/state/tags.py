"""The tags of a job: fields that few jobs have, behind the body, as they stand in the log.

Each is a number, a size and as many bytes. They stand in the order of their numbers, so that two engines that were told
the same have the same bytes. A tag of no bytes is none.

A tag that means something here has as many bytes as it can have: the log's reader takes a record for damage in which
one has not (``TAG_SIZES`` of ``log/format.py``). So whoever has found a tag reads it without a look at its size.
"""

import cython
from cython.cimports.beanpole.engine.state.job import Flag, Job, resize_tags, tags_of
from cython.cimports.libc.stdint import uint8_t, uint64_t
from cython.cimports.libc.string import memcpy, memmove


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def size_at(at: cython.p_const_uchar) -> cython.Py_ssize_t:
    return at[1] | at[2] << 8


@cython.cfunc
@cython.exceptval(check=False)
def place_of(job: Job, tag: cython.int) -> cython.Py_ssize_t:
    """Return where among the tags the first one stands whose number is not smaller."""
    tags = cython.cast(cython.p_const_uchar, tags_of(job))
    at: cython.Py_ssize_t = 0
    while at < job.tag_bytes and tags[at] < tag:
        at += TAG_FRAME_BYTES + size_at(tags + at)
    return at


def find_tag(job, tag, size):
    """Return what a tag says, and set its size; NULL: the job doesn't have it."""
    at: cython.Py_ssize_t = place_of(job, tag)
    found = cython.cast(cython.p_const_uchar, tags_of(job) + at)
    if at == job.tag_bytes or found[0] != cython.cast(cython.int, tag):
        return cython.NULL
    size[0] = size_at(found)
    return cython.cast(cython.p_const_char, found + TAG_FRAME_BYTES)


def read_flags(job):
    """Let the flags of a job say what its tags say; those that say where it stands stay."""
    size: cython.Py_ssize_t = 0
    flags: uint8_t = job.flags & (Flag.HOLDS_KEY | Flag.COUNTING | Flag.DUE | Flag.FAILED)
    key: cython.p_const_char = find_tag(job, Tag.KEY, cython.address(size))
    if key is not cython.NULL:
        if key[0] & KeyBit.SUPERSEDED:
            flags |= Flag.SUPERSEDED
        elif not key[0] & KeyBit.FREED:
            flags |= Flag.KEYED | (Flag.UNTIL_RESERVE if key[0] & KeyBit.UNTIL_RESERVE else 0)
    expire: cython.p_const_char = find_tag(job, Tag.EXPIRE, cython.address(size))
    if expire is not cython.NULL and get_number(expire + 8, 8) != 0:
        flags |= Flag.EXPIRES
    if find_tag(job, Tag.GROUP, cython.address(size)) is not cython.NULL:
        flags |= Flag.GROUPED
    job.flags = flags
    return 0


def tags_after(job, tag, size):
    """Return the bytes of all tags when this one says `size` bytes; 0: when it is gone."""
    before: cython.Py_ssize_t = 0
    after: cython.Py_ssize_t = TAG_FRAME_BYTES + size if size else 0
    if find_tag(job, tag, cython.address(before)) is not cython.NULL:
        before += TAG_FRAME_BYTES
    return job.tag_bytes - before + after


def put_tag(job, tag, data, size):
    """Let a tag say `size` bytes, or be gone: 0. Of the same size as before, it changes where it lies."""
    before: cython.Py_ssize_t = 0
    old: cython.p_const_char = find_tag(job, tag, cython.address(before))
    if old is not cython.NULL:
        before += TAG_FRAME_BYTES
    after: cython.Py_ssize_t = TAG_FRAME_BYTES + size if size else 0
    tag_bytes: cython.Py_ssize_t = job.tag_bytes - before + after
    behind: cython.Py_ssize_t = job.tag_bytes - before
    at: cython.Py_ssize_t = place_of(job, tag)
    if tag_bytes > 65535:
        raise OverflowError("the tags of a job have no place in its record")
    tags = cython.cast(cython.p_uchar, resize_tags(job, tag_bytes))
    memmove(tags + at + after, tags + at + before, behind - at)
    if after:
        tags[at] = cython.cast(cython.uchar, tag)
        tags[at + 1] = size & 0xFF
        tags[at + 2] = size >> 8
        memcpy(tags + at + TAG_FRAME_BYTES, data, size)
    return 0


def put_number(at, number, size):
    """Write a number in `size` bytes, the lowest first, as numbers stand in the log."""
    i: cython.int
    for i in range(size):
        at[i] = cython.cast(cython.char, number >> 8 * i & 0xFF)


def get_number(at, size):
    """Read what :func:`put_number` wrote."""
    number: uint64_t = 0
    i: cython.int
    for i in range(size):
        number |= cython.cast(uint64_t, cython.cast(cython.uchar, at[i])) << 8 * i
    return number


def read_death(job, death):
    """Set when, why and where a job died that has not been brought back since; False: it did not."""
    size: cython.Py_ssize_t = 0
    said: cython.p_const_char = find_tag(job, Tag.DEATH, cython.address(size)) if job.tag_bytes else cython.NULL
    if said is cython.NULL:
        return False
    death.at_ns = get_number(said, 8)
    death.attempts = get_number(said + 8, 4)
    death.why = cython.cast(cython.uchar, said[12])
    death.tube = said + DEATH_FIXED
    death.tube_bytes = size - DEATH_FIXED
    return True


def read_scheduled(job, scheduled):
    """Set which schedule has put a job, and for when; False: none did."""
    size: cython.Py_ssize_t = 0
    said: cython.p_const_char = find_tag(job, Tag.SCHEDULED, cython.address(size)) if job.tag_bytes else cython.NULL
    if said is cython.NULL:
        return False
    scheduled.at_ns = get_number(said, 8)
    scheduled.fire = get_number(said + 8, 8)
    scheduled.name = said + SCHEDULED_FIXED
    scheduled.name_bytes = size - SCHEDULED_FIXED
    return True


def put_scheduled(job, at_ns, fire, name):
    """Let a job's tag say which schedule has put it, and for when."""
    said: cython.char[256]
    put_number(said, at_ns, 8)
    put_number(cython.address(said[8]), fire, 8)
    memcpy(cython.address(said[SCHEDULED_FIXED]), cython.cast(cython.p_const_char, name), len(name))
    return put_tag(job, Tag.SCHEDULED, said, SCHEDULED_FIXED + len(name))


def attempt_of(job, under_way):
    """Return which attempt at a job was the last one to begin, and set whether it is under way; 0: none was counted."""
    size: cython.Py_ssize_t = 0
    under_way[0] = False
    if job.tag_bytes == 0:
        return 0
    said: cython.p_const_char = find_tag(job, Tag.ATTEMPTS, cython.address(size))
    if said is cython.NULL:
        return 0
    under_way[0] = said[4] != 0
    return get_number(said, 4)


def put_attempt(job, attempt, under_way):
    """Let a job's tag say which attempt was the last one to begin."""
    said: cython.char[5]
    put_number(said, attempt, 4)
    said[4] = under_way
    return put_tag(job, Tag.ATTEMPTS, said, ATTEMPT_BYTES)
