"""JOB frames: a job with what a worker would ask ``stats-job`` for, on one line, and its body behind it.

::

    JOB <id> <bytes> tube=<tube> state=<state> pri=<pri> ttr=<s> age=<s> delay=<s> reserves=<n> ...

A line has at most 1 024 bytes. Clients ignore fields that they don't know, so that there can be more of them.
"""

import cython
from cython.cimports.beanpole.engine.tags import Tag, find_tag
from cython.cimports.beanpole.protocol.replies import ReplyBuffer
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import strlen

SECOND_NS = cython.declare(int64_t, 1_000_000_000)
MILLISECOND_NS = cython.declare(int64_t, 1_000_000)

STATES = (b" state=ready", b" state=reserved", b" state=delayed", b" state=buried")
states = cython.declare("const char *[4]")
"""What a frame says of each State."""


def fill_states():
    """Copy the names of the states into C memory."""
    i: cython.int
    for i in range(4):
        states[i] = STATES[i]


fill_states()


def add_frame(out, job, now_ns):
    """Append a job with its whole body."""
    out.add(b"JOB ", 4)
    out.add_number(job.id)
    out.add(b" ", 1)
    out.add_number(job.body_bytes)
    add_fields(out, job, now_ns)
    out.end()
    return out.add(job.body, job.body_bytes + 2)


def add_short_frame(out, job, now_ns, body_bytes):
    """Append a job with the first `body_bytes` of its body at the most, and with the size of the whole."""
    shown: cython.Py_ssize_t = min(body_bytes, job.body_bytes)
    out.add(b"JOB ", 4)
    out.add_number(job.id)
    out.add(b" ", 1)
    out.add_number(shown)
    add_fields(out, job, now_ns)
    out.add(b" size=", 6)
    out.add_number(job.body_bytes)
    out.end()
    out.add(job.body, shown)
    return out.end()


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_count(out: ReplyBuffer, name: cython.p_const_char, number: int64_t) -> cython.int:
    """Append a field that is a number."""
    out.add(name, strlen(name))
    return out.add_number(number)


def add_fields(out, job, now_ns):
    """Append what the line of every frame says of a job."""
    out.add(b" tube=", 6)
    out.add_bytes(job.tube.name)
    out.add(states[job.state], strlen(states[job.state]))
    add_count(out, b" pri=", job.pri)
    add_count(out, b" ttr=", job.ttr_s)
    out.add(b" age=", 5)
    add_seconds(out, max(now_ns - job.created_at_ns, 0))
    add_count(out, b" delay=", job.delay_s)
    add_count(out, b" reserves=", job.reserve_count)
    add_count(out, b" timeouts=", job.timeout_count)
    add_count(out, b" releases=", job.release_count)
    add_count(out, b" buries=", job.bury_count)
    add_count(out, b" kicks=", job.kick_count)
    return add_key(out, job) if job.tag_bytes else 0


def add_key(out, job):
    """Append the key of a job that has one, whether it holds it or not."""
    size: cython.Py_ssize_t = 0
    key: cython.p_const_char = find_tag(job, Tag.KEY, cython.address(size))
    if key is cython.NULL:
        return 0
    out.add(b" key=", 5)
    return out.add(key + 1, size - 1)


def add_seconds(out, ns):
    """Append a duration: seconds with up to three decimals, cut off, without zeros at the end."""
    decimals: int64_t = ns % SECOND_NS // MILLISECOND_NS
    out.add_number(ns // SECOND_NS)
    if decimals == 0:
        return 0
    digits: cython.char[4]
    digits[0] = 46
    digits[1] = cython.cast(cython.char, 48 + decimals // 100)
    digits[2] = cython.cast(cython.char, 48 + decimals // 10 % 10)
    digits[3] = cython.cast(cython.char, 48 + decimals % 10)
    size: cython.Py_ssize_t = 4
    while digits[size - 1] == 48:
        size -= 1
    return out.add(digits, size)
