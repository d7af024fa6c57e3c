"""A job: a body, the numbers that the protocol gives it, and its state.

The body lies in C memory with its CRLF, ready to be copied into a reply: with a ``bytes`` object, a job of 100 bytes
would take 32 bytes more. For the same reason the fields are ordered by size and nothing is stored that can be derived:
when a delay or a reservation ends is the key of the job in its heap.
"""

import cython
from cython.cimports.beanpole.engine.state.heap import Item
from cython.cimports.beanpole.engine.state.tube import Tube
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy


@cython.no_gc
@cython.cclass
class Job(Item):
    """One job. The fields stand in ``job.pxd``; only :func:`new_job` makes one."""

    def __dealloc__(self):
        free(self.body)

    @property
    def text(self) -> bytes:
        return self.body[: self.body_bytes]

    @property
    def deadline_at_ns(self) -> int:
        """When its state ends, engine clock; 0: it does not end by time."""
        return deadline_of(self)

    @property
    def tags(self) -> bytes:
        """Its tagged fields (``state/tags.py``), those of a newer program among them."""
        return self.body[self.body_bytes + 2 : self.body_bytes + 2 + self.tag_bytes]


@cython.cfunc
def new_job(id: uint64_t, tube: Tube, body: cython.p_const_char, body_bytes: cython.Py_ssize_t) -> Job:
    """Make a job in no state yet; `body` is copied and its CRLF added. None: there is no memory for it."""
    job: Job = Job.__new__(Job)
    job.body = cython.cast(cython.p_char, malloc(body_bytes + 2))
    if job.body is cython.NULL:
        return None
    memcpy(job.body, body, body_bytes)
    job.body[body_bytes] = 13
    job.body[body_bytes + 1] = 10
    job.body_bytes = body_bytes
    job.id = id
    job.tube = tube
    return job


def replace_body(job, body, body_bytes):
    """Give a job another body; `body` is copied. False: there is no memory for it, and nothing has changed."""
    fresh = cython.cast(cython.p_char, malloc(body_bytes + 2 + job.tag_bytes))
    if fresh is cython.NULL:
        return False
    memcpy(fresh, body, body_bytes)
    memcpy(fresh + body_bytes, job.body + job.body_bytes, 2 + job.tag_bytes)
    free(job.body)
    job.body = fresh
    job.tube.body_bytes += body_bytes - cython.cast(int64_t, job.body_bytes)
    job.body_bytes = body_bytes
    return True


def set_tags(job, tags, tag_bytes):
    """Give a job these tags in place of those that it has. They lie behind the body: none take no memory."""
    at: cython.Py_ssize_t = job.body_bytes + 2
    if tag_bytes != job.tag_bytes:
        grown = cython.cast(cython.p_char, realloc(job.body, at + tag_bytes))
        if grown is cython.NULL:
            raise MemoryError
        job.body = grown
        job.tag_bytes = tag_bytes
    memcpy(job.body + at, tags, tag_bytes)
    return 0
