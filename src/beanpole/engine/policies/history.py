"""The history of a job: how its last five attempts have ended, in a tag of the job (``state/tags.py``).

The latest stands first. Only attempts that failed are in it, and only of jobs for which that matters: of a tube whose
rules count attempts, or of which a worker has said with ``fail-job`` why one failed. It is in the record that the end
of an attempt leaves anyhow; where the tag has another size than before, that is the whole job again. An end that leaves
no record is not in it, and neither is one for which the log has no room.
"""

import cython
from cython.cimports.beanpole.engine.state.job import holder_of
from cython.cimports.beanpole.engine.state.queue import Queue
from cython.cimports.beanpole.engine.state.records import Room
from cython.cimports.beanpole.engine.state.session import Session
from cython.cimports.beanpole.engine.state.tags import Tag, find_tag, get_number, put_number, put_tag, tags_after
from cython.cimports.beanpole.engine.state.tube import RuleSet
from cython.cimports.libc.string import memcpy

HOLDERS_MAX = cython.declare(cython.Py_ssize_t, 1_000)

WORDS = {
    End.FAILED: b"failed",
    End.RELEASED: b"released",
    End.BURIED: b"buried",
    End.TIMED_OUT: b"timed-out",
    End.LOST: b"lost",
}
"""How an attempt ended, in a word for programs."""


def keeps_history(job):
    """Whether it is kept how attempts at a job fail."""
    size: cython.Py_ssize_t = 0
    rules: RuleSet = job.tube.rules
    if rules is not None and (rules.attempts or rules.backoff_ns or rules.group_strict):
        return True
    return job.tag_bytes != 0 and find_tag(job, Tag.HISTORY, cython.address(size)) is not cython.NULL


def make_history(queue, now_ns, job, end, error, error_bytes, history):
    """Make what the tag of a job is to say when the attempt at it has ended now, by `error` and who holds it."""
    at: cython.p_char = history.text
    before: cython.Py_ssize_t = 0
    holder: bytes = b"" if holder_of(job) is None else name_of(queue, holder_of(job))
    holder_bytes: cython.Py_ssize_t = cut(holder, len(holder), HOLDER_BYTES_MAX)
    while error_bytes and cython.cast(cython.uchar, error[0]) <= 32:
        error += 1
        error_bytes -= 1
    line_bytes: cython.Py_ssize_t = 0
    while line_bytes < error_bytes and error[line_bytes] != 10 and error[line_bytes] != 13:
        line_bytes += 1
    line_bytes = cut(error, line_bytes, ERROR_BYTES_MAX)
    put_number(at, now_ns, 8)
    at[8] = cython.cast(cython.char, end)
    put_number(at + 9, holder_bytes, 1)
    put_number(at + 10, line_bytes, 1)
    memcpy(at + ENTRY_FIXED, cython.cast(cython.p_const_char, holder), holder_bytes)
    memcpy(at + ENTRY_FIXED + holder_bytes, error, line_bytes)
    at += ENTRY_FIXED + holder_bytes + line_bytes
    old: cython.p_const_char = find_tag(job, Tag.HISTORY, cython.address(before)) if job.tag_bytes else cython.NULL
    if old is not cython.NULL:
        ended: Ended
        stop: cython.p_const_char = old
        count: cython.int = 1
        while count < ENTRIES_MAX and next_ended(cython.address(stop), old + before, cython.address(ended)):
            count += 1
        memcpy(at, old, stop - old)
        at += stop - old
    history.size = at - history.text
    return 0


def note_end(queue, now_ns, job, end, whole, size):
    """Let a job say how the attempt at it failed, if there is room; whether it is out of the log's accounts then.

    `whole`: it is already. `size` is what its record may need for what becomes of it next, but for its history.
    """
    history: History
    make_history(queue, now_ns, job, end, cython.NULL, 0, cython.address(history))
    longer: cython.Py_ssize_t = tags_after(job, Tag.HISTORY, history.size) - job.tag_bytes
    if not whole:
        # What comes next finds this room as well: else this would end once more when there is some.
        if queue.records.room_for_move(size + max(longer, 0)) != Room.OK:
            return False
        if longer:
            queue.records.job_dropped(job)
            whole = True
    put_tag(job, Tag.HISTORY, history.text, history.size)
    return whole


def next_ended(at, stop, ended):
    """Set what the entry says that stands at a place, and move the place behind it; False: there is none."""
    begin: cython.p_const_char = at[0]
    if stop - begin < ENTRY_FIXED:
        return False
    ended.at_ns = get_number(begin, 8)
    ended.how = cython.cast(cython.uchar, begin[8])
    ended.holder_bytes = min(cython.cast(cython.uchar, begin[9]), HOLDER_BYTES_MAX)
    ended.error_bytes = min(cython.cast(cython.uchar, begin[10]), ERROR_BYTES_MAX)
    ended.holder = begin + ENTRY_FIXED
    ended.error = ended.holder + ended.holder_bytes
    if stop - ended.error < ended.error_bytes:
        return False
    at[0] = ended.error + ended.error_bytes
    return True


@cython.cfunc
def name_of(queue: Queue, holder: Session) -> bytes:
    """Return how people recognize who holds a job: by its name, or its address as long as there is a connection."""
    if holder.name is not None:
        return holder.name
    found: bytes = queue.holders.get(holder.number)
    if found is None:
        if holder.used is None or holder.lost:
            return b""
        if len(queue.holders) >= HOLDERS_MAX:
            queue.holders.clear()
        # To ask the system takes longer than all else about a failure.
        found = queue.holders[holder.number] = queue.describe(holder.owner).encode()
    return found


@cython.cfunc
@cython.exceptval(check=False)
def cut(text: cython.p_const_char, size: cython.Py_ssize_t, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many bytes of a text have a place, where no character of it is parted."""
    if size <= most:
        return size
    while most and text[most] & 0xC0 == 0x80:
        most -= 1
    return most
