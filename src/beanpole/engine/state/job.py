"""A job: a body, the numbers that the protocol gives it, and its state.

A job and its body are one piece of memory: the body follows the fields with its CRLF, ready to be copied into a reply,
and behind it lie the tags. Both move out into memory of their own when they grow beyond what there is, for the address
of a job stays what it is; those of more than INSIDE_MAX bytes do so at once.

A job of 100 bytes takes 192 bytes, which pymalloc hands out in steps of 16. So the fields are ordered by size, and
nothing is stored that can be derived: when a delay or a reservation ends is the key of the job in its heap. A count has
one byte, for few jobs are reserved 256 times: when it is full, the body moves out, and what is more stands in front.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Item
from cython.cimports.beanpole.engine.state.tube import Tube, note_bodies
from cython.cimports.cpython.mem import PyObject_Malloc
from cython.cimports.cpython.object import PyTypeObject
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.libc.stdint import int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy, memmove, memset


@cython.no_gc
@cython.cclass
class Job(Item):
    """One job. The fields stand in ``job.pxd``; only :func:`new_job` makes one."""

    def __dealloc__(self):
        if self.spare == APART:
            free(body_of(self) - CARRIES_BYTES)

    def count(self, what: JobCount) -> int:
        """Return how often something has become of it."""
        return job_count(self, what)

    @property
    def text(self) -> bytes:
        return body_of(self)[: self.body_bytes]

    @property
    def deadline_at_ns(self) -> int:
        """When its state ends, engine clock; 0: it does not end by time."""
        return deadline_of(self)

    @property
    def tags(self) -> bytes:
        """Its tagged fields (``state/tags.py``), those of a newer program among them."""
        return tags_of(self)[: self.tag_bytes]


BLANK = cython.declare(Job, Job.__new__(Job))
"""A job with no field set, of which each new one begins as a copy."""


@cython.cfunc
@cython.exceptval(check=False)
def fields_bytes() -> cython.Py_ssize_t:
    """Return the bytes of a job in front of its body."""
    return cython.cast(cython.p_char, BLANK.inside) - cython.cast(cython.p_char, cython.cast(cython.p_void, BLANK))


@cython.cfunc
@cython.exceptval(check=False)
def memory_apart(job: Job, size: cython.Py_ssize_t) -> cython.p_char:
    """Return memory for the body and tags of a job, with the rest of its counts in front; NULL: there is none."""
    memory = cython.cast(cython.p_char, malloc(CARRIES_BYTES + size))
    if memory is cython.NULL:
        return cython.NULL
    if job.spare == APART:
        memcpy(memory, carries_of(job), CARRIES_BYTES)
    else:
        memset(memory, 0, CARRIES_BYTES)
    return memory + CARRIES_BYTES


@cython.cfunc
@cython.exceptval(check=False)
def move_apart(job: Job, text: cython.p_char) -> cython.void:
    """Note that the body and tags of a job lie in memory of their own, which is the job's now."""
    job.spare = APART
    memcpy(job.inside, cython.address(text), cython.sizeof(text))


def set_count(job, what, count):
    """Set how often something has become of a job. If there is no memory for what does not fit, it stays 255."""
    used: cython.Py_ssize_t = job.body_bytes + 2 + job.tag_bytes
    if count > 255 and job.spare != APART:
        text: cython.p_char = memory_apart(job, used)
        if text is cython.NULL:
            count = 255
        else:
            memcpy(text, job.inside, used)
            move_apart(job, text)
    job.low_counts[cython.cast(cython.int, what)] = cython.cast(uint8_t, count & 0xFF)
    if job.spare == APART:
        carries_of(job)[cython.cast(cython.int, what)] = count >> 8


@cython.cfunc
def new_job(
    id: uint64_t, tube: Tube, body: cython.p_const_char, body_bytes: cython.Py_ssize_t, tag_room: cython.Py_ssize_t
) -> Job:
    """Make a job in no state yet; `body` is copied and its CRLF added. None: there is no memory for it.

    It has room for tags of `tag_room` bytes.
    """
    used: cython.Py_ssize_t = body_bytes + 2
    fits: cython.bint = used + tag_room <= INSIDE_MAX and tag_room < APART  # more can't be spare
    inside: cython.Py_ssize_t = used + tag_room if fits else 0
    fields: cython.Py_ssize_t = fields_bytes()
    size: cython.Py_ssize_t = (fields + max(inside, cython.sizeof(cython.p_char)) + 15) & ~15  # as pymalloc rounds it
    memory: cython.p_void = PyObject_Malloc(size)
    if memory is cython.NULL:
        return None
    memcpy(memory, cython.cast(cython.p_void, BLANK), fields)
    Py_INCREF(BLANK.tube)  # the reference of the copy
    kind = cython.cast(cython.pointer(PyTypeObject), cython.cast(cython.p_void, Job))
    job: Job = cython.cast(Job, PyObject_Init(memory, kind), typecheck=True)
    job.spare = min(size - fields - used, APART - 1) if inside else 0
    text: cython.p_char = job.inside
    if inside == 0:
        text = memory_apart(job, used + tag_room)
        if text is cython.NULL:
            return None
        move_apart(job, text)
    memcpy(text, body, body_bytes)
    text[body_bytes] = 13
    text[body_bytes + 1] = 10
    job.body_bytes = body_bytes
    job.id = id
    job.tube = tube
    return job


def replace_body(job, body, body_bytes):
    """Give a job another body; `body` is copied. False: there is no memory for it, and nothing has changed."""
    old: cython.p_char = body_of(job)
    behind: cython.Py_ssize_t = 2 + job.tag_bytes
    spare: cython.Py_ssize_t = job.spare + job.body_bytes - body_bytes
    fresh: cython.p_char = old
    if job.spare == APART or spare < 0:
        fresh = memory_apart(job, body_bytes + behind)
        if fresh is cython.NULL:
            return False
    memmove(fresh + body_bytes, old + job.body_bytes, behind)
    memcpy(fresh, body, body_bytes)
    if fresh is old:
        job.spare = min(spare, APART - 1)
    else:
        if job.spare == APART:
            free(old - CARRIES_BYTES)
        move_apart(job, fresh)
    note_bodies(job.tube, 0, body_bytes - cython.cast(int64_t, job.body_bytes))
    job.body_bytes = body_bytes
    return True


def resize_tags(job, tag_bytes):
    """Give a job room for tags of so many bytes, and return where they lie. As many of the old ones stay as fit."""
    more: cython.Py_ssize_t = tag_bytes - job.tag_bytes
    text: cython.p_char = body_of(job)
    fresh: cython.p_char = text
    if job.spare == APART:
        if more > 0:
            grown: cython.p_void = realloc(text - CARRIES_BYTES, CARRIES_BYTES + job.body_bytes + 2 + tag_bytes)
            if grown is cython.NULL:
                raise MemoryError
            fresh = cython.cast(cython.p_char, grown) + CARRIES_BYTES
            move_apart(job, fresh)
    elif more > job.spare:
        fresh = memory_apart(job, job.body_bytes + 2 + tag_bytes)
        if fresh is cython.NULL:
            raise MemoryError
        memcpy(fresh, text, job.body_bytes + 2 + job.tag_bytes)
        move_apart(job, fresh)
    else:
        job.spare = min(job.spare - more, APART - 1)
    job.tag_bytes = tag_bytes
    return fresh + job.body_bytes + 2


def set_tags(job, tags, tag_bytes):
    """Give a job these tags in place of those that it has. They lie behind the body: none take no memory."""
    memcpy(resize_tags(job, tag_bytes), tags, tag_bytes)
    return 0
