"""Records one by one, for the tools that look into a log which may be damaged.

A record counts when its checksum is right and it is one that the server could have written: a kind that we know, of a
size that the kind has. The cheap half comes first, so that a search through bytes that are no records stays fast.
The server itself does not pass here: see :mod:`beanpole.log.replay`.
"""

import cython
from cython.cimports.beanpole.engine.job import State
from cython.cimports.beanpole.log.endian import get_u32, get_u64
from cython.cimports.beanpole.log.format import (
    CHANGED_RECORD,
    DELETED_RECORD,
    FRAME,
    JOB_NUMBERS,
    SEGMENT_HEADER,
    TUBE_FIXED,
    TURN_RECORD,
    WHOLE_FIXED,
    JobNumbers,
    Kind,
    read_job,
    record_crc,
)
from cython.cimports.libc.stdint import int64_t, uint32_t


def sound(at, left, salt):
    """Return the size of the record at the start of `left` bytes; 0: there is none."""
    if left < DELETED_RECORD:
        return 0
    size: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, get_u32(at)) + FRAME
    kind: cython.int = at[FRAME]
    state: cython.int = State.READY
    if size > left:
        return 0
    if kind == Kind.WHOLE:
        if size < WHOLE_FIXED or size < WHOLE_FIXED + at[WHOLE_FIXED - 1]:
            return 0
        state = at[FRAME + JOB_NUMBERS]
    elif kind == Kind.CHANGED:
        if size != CHANGED_RECORD:
            return 0
        state = at[FRAME + JOB_NUMBERS]
    elif kind == Kind.DELETED or kind == Kind.END:
        if size != DELETED_RECORD:
            return 0
    elif kind == Kind.TUBE:
        if size < TUBE_FIXED or size != TUBE_FIXED + at[TUBE_FIXED - 1]:
            return 0
    elif kind != Kind.TURN or size != TURN_RECORD:
        return 0
    if state != State.READY and state != State.DELAYED and state != State.BURIED:
        return 0
    return size if record_crc(at, size, salt) == get_u32(at + 4) else 0


def find_salt(data: bytes, salt_before: uint32_t) -> int:
    """Return the salt of a segment whose header is not good, given that of the segment before.

    Turn records name it, but a body may hold forged ones. So a salt is asked for that makes good what no client writes:
    the record behind the header, or the END record. Where both are damaged, the one that most turn records name is
    taken, unless any record is good with that of the segment before.
    """
    at: cython.p_const_uchar = data
    i: cython.Py_ssize_t
    salt: uint32_t
    named: dict = {}
    for i in range(len(data) - TURN_RECORD + 1):
        if at[i + FRAME] == Kind.TURN:
            salt = get_u32(at + i + TURN_RECORD - 4)
            if sound(at + i, len(data) - i, salt):
                named[salt] = named.get(salt, 0) + 1
    often: list = sorted(named, key=named.get, reverse=True)
    in_header: list = [get_u32(at + SEGMENT_HEADER - 8)] if len(data) >= SEGMENT_HEADER else []
    last: cython.Py_ssize_t = len(data) - DELETED_RECORD
    for each in [*in_header, salt_before, *often]:
        salt = each
        if last >= SEGMENT_HEADER and (
            sound(at + SEGMENT_HEADER, len(data) - SEGMENT_HEADER, salt)
            or (at[last + FRAME] == Kind.END and sound(at + last, DELETED_RECORD, salt))
        ):
            return salt
    if not often or next_record(data, 0, salt_before) >= 0:
        return salt_before
    return often[0]


def walk(
    data: bytes, start: cython.Py_ssize_t, salt: uint32_t, counts: list[int], changed: set[int], deleted: set[int]
) -> tuple[int, bool]:
    """Pass over records that count, from `start` on; return where that ended and whether an END record did it.

    `counts` of records by kind and the ids of jobs that were changed or deleted are added to.
    """
    at: cython.p_const_uchar = data
    end: cython.Py_ssize_t = len(data)
    i: cython.Py_ssize_t = start
    size: cython.Py_ssize_t = sound(at + i, end - i, salt)
    kind: cython.int = 0
    seen: cython.long[7] = [0, 0, 0, 0, 0, 0, 0]
    while size:
        kind = at[i + FRAME]
        seen[kind] += 1
        if kind == Kind.CHANGED:
            changed.add(get_u64(at + i + FRAME + 1))
        elif kind == Kind.DELETED:
            deleted.add(get_u64(at + i + FRAME + 1))
        i += size
        if kind == Kind.END:
            break
        size = sound(at + i, end - i, salt)
    for kind_number in range(7):
        counts[kind_number] += seen[kind_number]
    return i, kind == Kind.END


def next_record(data: bytes, start: cython.Py_ssize_t, salt: uint32_t) -> int:
    """Return where the next record that counts begins, at `start` or behind; -1: nowhere."""
    at: cython.p_const_uchar = data
    end: cython.Py_ssize_t = len(data)
    i: cython.Py_ssize_t = start
    while i <= end - DELETED_RECORD:
        if Kind.WHOLE <= at[i + FRAME] <= Kind.END and sound(at + i, end - i, salt):
            return i
        i += 1
    return -1


def decode(data: bytes, start: cython.Py_ssize_t, salt: uint32_t) -> tuple[int, int, tuple[int | bytes, ...]] | None:
    """Return (size, kind, fields) of the record at `start`; None: there is none that counts.

    The fields stand in the order of docs/wal-format.md, without lengths of names; of a job's body there is its size.
    """
    at: cython.p_const_uchar = cython.cast(cython.p_const_uchar, data) + start
    size: cython.Py_ssize_t = sound(at, len(data) - start, salt)
    numbers: JobNumbers
    name_bytes: cython.Py_ssize_t
    if size == 0:
        return None
    kind: cython.int = at[FRAME]
    if kind == Kind.WHOLE or kind == Kind.CHANGED:
        read_job(at + FRAME + 1, cython.address(numbers))
        fields: tuple = (
            numbers.id,
            numbers.created_at_ns,
            numbers.deadline_at_ns,
            numbers.bury_order,
            numbers.pri,
            numbers.delay_s,
            numbers.ttr_s,
            numbers.reserve_count,
            numbers.timeout_count,
            numbers.release_count,
            numbers.bury_count,
            numbers.kick_count,
            numbers.state,
        )
        if kind == Kind.CHANGED:
            return size, kind, fields
        name_bytes = at[WHOLE_FIXED - 1]
        name: bytes = at[WHOLE_FIXED : WHOLE_FIXED + name_bytes]
        return size, kind, (*fields, name, size - WHOLE_FIXED - name_bytes)
    if kind == Kind.TUBE:
        name = at[TUBE_FIXED:size]
        return size, kind, (get_u32(at + FRAME + 1), cython.cast(int64_t, get_u64(at + FRAME + 5)), name)
    if kind == Kind.TURN:
        log_ns: int64_t = get_u64(at + FRAME + 1)
        lead_ns: int64_t = get_u64(at + FRAME + 9)
        return size, kind, (log_ns, lead_ns, get_u64(at + FRAME + 17), get_u64(at + FRAME + 25))
    return size, kind, (get_u64(at + FRAME + 1),)
