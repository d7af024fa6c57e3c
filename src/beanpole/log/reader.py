"""The one reader of a segment: its header, its records, and what they say.

Replay, compaction and the tools all pass here, so that a record means the same to each of them. The reader takes the
bytes of a segment as they are: no sequence of them raises anything but :class:`ValueError` of a header.

Sizes and numbers of kinds stand in ``format.pxd``; docs/wal-format.md describes them. Version 2 had a shorter header
and no tags; this is the only place that knows.
"""

from typing import Any, NamedTuple

import cython
from cython.cimports.beanpole.engine.state.job import State
from cython.cimports.beanpole.engine.state.tags import Tag
from cython.cimports.beanpole.log.crc32c import crc32c
from cython.cimports.beanpole.log.endian import get_u16, get_u32, get_u64
from cython.cimports.beanpole.log.format import (
    CHANGED_RECORD,
    DELETED_RECORD,
    FRAME,
    JOB_NUMBERS,
    ONCE_JOB_FIXED,
    ONCE_RECORD,
    OPTIONAL,
    SEGMENT_HEADER,
    STATE_BYTES,
    TAG_FIXED,
    TURN_RECORD,
    VERSION_2_HEADER,
    VERSION_2_WHOLE_FIXED,
    WHOLE_FIXED,
    Kind,
    record_crc,
)
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memchr, memcmp

from beanpole import limits
from beanpole.log.errors import VersionError
from beanpole.log.format import FIELDS, MAGIC, TAG_SIZES, VERSION

STATES = {State.READY: "ready", State.DELAYED: "delayed", State.BURIED: "buried"}
"""The states of a record, as the protocol calls them."""


FORMAT_VERSION = cython.declare(cython.int, VERSION)
GROUP_BYTES_MAX = cython.declare(cython.Py_ssize_t, TAG_SIZES[Tag.GROUP][1])
NAME_BYTES_MAX = cython.declare(cython.Py_ssize_t, limits.TUBE_NAME_BYTES_MAX)
SCHEDULE_LEVEL = cython.declare(cython.int, limits.SCHEDULE_LEVEL)


# --- the header -------------------------------------------------------------------------------------------------------


class Header(NamedTuple):
    """What a segment's header says."""

    number: int = 0
    next_job_id: int = 0
    log_ns: int = 0
    """The log's clock when the segment was begun."""

    lead_ns: int = 0
    """The wall clock minus that."""

    salt: int = 0
    version: int = VERSION
    size: int = SEGMENT_HEADER
    """Bytes of the header: the records follow."""

    first_segment: int = 0
    """The oldest segment when this one was begun; 0: not known, as in version 2."""

    file_bytes: int = 0
    """The size of the file until the segment has an end; 0: not known."""


def read_header(data: bytes) -> Header:
    """Read a segment's header. Raise ValueError with what is wrong; VersionError when another program wrote it."""
    if len(data) < VERSION_2_HEADER:
        raise ValueError(f"it has {len(data)} bytes, less than a header")
    at: cython.p_const_uchar = data
    if memcmp(at, cython.cast(cython.p_const_char, MAGIC), 8) != 0:
        raise ValueError("it does not begin with BEANPOLE")
    version: cython.int = get_u32(at + 8)
    size: cython.Py_ssize_t = get_u32(at + 12)
    if not 16 <= size <= len(data) or crc32c(at, size - 4) != get_u32(at + size - 4):
        raise ValueError("its header has a wrong checksum")
    if not 2 <= version <= VERSION or size < (SEGMENT_HEADER if version > 2 else VERSION_2_HEADER):
        raise VersionError(f"it has version {version} of the format; this program reads versions 2 to {VERSION}")
    log_ns: int64_t = get_u64(at + 32)
    lead_ns: int64_t = get_u64(at + 40)
    header = Header(get_u64(at + 16), get_u64(at + 24), log_ns, lead_ns, get_u32(at + size - 8), version, size)
    return header if version == 2 else header._replace(first_segment=get_u64(at + 48), file_bytes=get_u64(at + 56))


# --- a record ---------------------------------------------------------------------------------------------------------


fixed = cython.declare(cython.short[256])
"""The bytes of a record up to what has no fixed size, by kind in FIELDS; 0: it is not there."""

has_rest = cython.declare(cython.bint[256])
"""By kind: whether a row of FIELDS names what stands behind."""

for each in FIELDS:
    fixed[each] = FRAME + 1 + FIELDS[each].layout.size
    has_rest[each] = bool(FIELDS[each].rest)

least_bytes = cython.declare(cython.Py_ssize_t[256])
most_bytes = cython.declare(cython.Py_ssize_t[256])
"""By tag of a job: the least and the most bytes of what it says; 0: this program doesn't know it."""

for each in TAG_SIZES:
    least_bytes[each], most_bytes[each] = TAG_SIZES[each]


def fixed_bytes(kind, version):
    """Return the bytes of a record up to what has no fixed size; 0: this program doesn't know the kind."""
    if kind == Kind.WHOLE:
        return WHOLE_FIXED if version > 2 else VERSION_2_WHOLE_FIXED
    return CHANGED_RECORD if kind == Kind.CHANGED else fixed[kind]


def read_record(at, left, salt, version, record):
    """Read the record at the start of `left` bytes; say what stands there."""
    if left < FRAME or get_u32(at) == 0:
        return Verdict.NOTHING
    record.size = cython.cast(cython.Py_ssize_t, get_u32(at)) + FRAME
    if record.size > left or record.size < DELETED_RECORD or record_crc(at, record.size, salt) != get_u32(at + 4):
        return Verdict.TORN
    return parse(at, version, record)


def parse(at, version, record):
    """Read the fields of a record whose checksum is good."""
    kind: cython.int = at[FRAME]
    size: cython.Py_ssize_t = fixed_bytes(kind, version)
    record.kind = kind
    record.payload = at + FRAME + 1
    record.tag = 0
    record.tag_bytes = 0
    record.is_whole = False
    if version == 2 and (size == 0 or kind > Kind.END):
        return Verdict.SENSELESS  # it had no other kinds, and none that may be passed over
    if size == 0:
        return Verdict.GOOD if kind & OPTIONAL else Verdict.UNKNOWN
    rest: cython.Py_ssize_t = record.size - size
    if rest < 0:
        return Verdict.SENSELESS
    if kind == Kind.WHOLE:
        return parse_whole(at + FRAME + 1, record.size - FRAME - 1, version, record)
    if kind == Kind.CHANGED:
        record.tags = at + size
        record.tag_bytes = rest
        return parse_job(at + FRAME + 1, record)
    if kind == Kind.TUBE or kind == Kind.GROUP:
        record.pause_s = get_u32(at + FRAME + 1)
        record.moment_ns = get_u64(at + FRAME + 5)
        record.name = at + size
        record.name_bytes = at[FRAME + 13]
        rest -= record.name_bytes
        if kind == Kind.TUBE:
            record.tags = record.name + record.name_bytes
            record.tag_bytes = rest
            return parse_tags(record)
        record.body = record.name + record.name_bytes
        record.body_bytes = rest
        return Verdict.GOOD if 1 <= rest <= GROUP_BYTES_MAX else Verdict.SENSELESS
    if kind == Kind.SCHEDULE or kind == Kind.FIRED:
        return parse_schedule(at, size, record)
    if kind == Kind.ONCE:
        record.moment_ns = get_u64(at + FRAME + 17)
        record.number = get_u64(at + FRAME + 25)
        if rest == 0:
            return Verdict.GOOD
        if rest < ONCE_JOB_FIXED - ONCE_RECORD + WHOLE_FIXED - FRAME - 1:
            return Verdict.SENSELESS
        return parse_whole(at + ONCE_JOB_FIXED, record.size - ONCE_JOB_FIXED, FORMAT_VERSION, record)
    if kind == Kind.TURN:
        record.moment_ns = get_u64(at + FRAME + 1)
        record.lead_ns = get_u64(at + FRAME + 9)
        record.number = get_u64(at + FRAME + 17)
        record.durable_bytes = get_u64(at + FRAME + 25)
    else:
        record.number = record.job.id = get_u64(at + FRAME + 1)
        if kind == Kind.RESERVED:
            record.moment_ns = get_u64(at + FRAME + 9)
            record.job.reserve_count = get_u32(at + FRAME + 17)
        elif kind == Kind.ATTEMPT:
            record.attempt = get_u32(at + FRAME + 9)
            record.job.reserve_count = get_u32(at + FRAME + 13)
        elif kind == Kind.KEPT:
            record.job.reserve_count = get_u32(at + FRAME + 9)
            record.pause_s = get_u16(at + FRAME + 13)
    return Verdict.SENSELESS if rest and not has_rest[kind] else Verdict.GOOD


def parse_schedule(at, size, record):
    """Read a schedule's state and name, which ends `size` bytes, and what follows: its document or a job."""
    number: cython.p_const_uchar = at + FRAME + 1
    record.state.next_ns = get_u64(number)
    record.state.due_ns = get_u64(number + 8)
    record.state.last_ns = get_u64(number + 16)
    record.state.fires = get_u64(number + 24)
    record.state.skips = get_u64(number + 32)
    record.state.misses = get_u64(number + 40)
    record.state.job = get_u64(number + 48)
    record.state.paused = number[56]
    record.schedule = at + size
    record.schedule_bytes = at[size - 1]
    record.body = record.schedule + record.schedule_bytes
    record.body_bytes = record.size - size - record.schedule_bytes
    if record.state.paused > 1 or not 1 <= record.schedule_bytes <= NAME_BYTES_MAX or record.body_bytes < 0:
        return Verdict.SENSELESS
    if record.kind == Kind.FIRED:
        if record.body_bytes == 0:
            return Verdict.GOOD
        if record.body_bytes < WHOLE_FIXED - FRAME - 1:
            return Verdict.SENSELESS
        return parse_whole(record.body, record.body_bytes, FORMAT_VERSION, record)
    record.moment_ns = get_u64(number + STATE_BYTES)
    record.level = number[STATE_BYTES + 8]
    return Verdict.UNKNOWN if record.body_bytes and record.level > SCHEDULE_LEVEL else Verdict.GOOD


def parse_whole(at, size, version, record):
    """Read a job with its tube, tags and body, in `size` bytes: its numbers and the lengths at least."""
    record.is_whole = True
    fixed: cython.Py_ssize_t = fixed_bytes(Kind.WHOLE, version) - FRAME - 1
    record.name_bytes = at[JOB_NUMBERS]
    record.tag_bytes = get_u16(at + JOB_NUMBERS + 1) if version > 2 else 0
    record.name = at + fixed
    record.tags = record.name + record.name_bytes
    record.body = record.tags + record.tag_bytes
    record.body_bytes = size - fixed - record.name_bytes - record.tag_bytes
    return parse_job(at, record) if record.body_bytes >= 0 else Verdict.SENSELESS


def parse_job(at, record):
    """Read a job's numbers, and check them and its tags."""
    record.job.id = get_u64(at)
    record.job.created_at_ns = get_u64(at + 8)
    record.job.deadline_at_ns = get_u64(at + 16)
    record.job.bury_order = get_u64(at + 24)
    record.job.pri = get_u32(at + 32)
    record.job.delay_s = get_u32(at + 36)
    record.job.ttr_s = get_u32(at + 40)
    record.job.reserve_count = get_u32(at + 44)
    record.job.timeout_count = get_u32(at + 48)
    record.job.release_count = get_u32(at + 52)
    record.job.bury_count = get_u32(at + 56)
    record.job.kick_count = get_u32(at + 60)
    record.job.state = at[64]
    if record.job.state > State.BURIED or record.job.state == State.RESERVED:
        return Verdict.SENSELESS
    if record.job.id == 0 or record.job.ttr_s == 0:
        return Verdict.SENSELESS
    return parse_tags(record) if record.tag_bytes else Verdict.GOOD


def parse_tags(record):
    """Check the tagged fields of a job or a tube: each must be known or optional, and of a size that it can have."""
    at: cython.p_const_uchar = record.tags
    left: cython.Py_ssize_t = record.tag_bytes
    size: cython.Py_ssize_t
    known: cython.bint
    while left:
        size = TAG_FIXED + get_u16(at + 1) if left >= TAG_FIXED else left + 1
        if size > left:
            return Verdict.SENSELESS
        known = record.kind != Kind.TUBE and most_bytes[at[0]] != 0
        if not known and not at[0] & OPTIONAL:
            record.tag = at[0]
            return Verdict.UNKNOWN
        if known and not least_bytes[at[0]] <= size - TAG_FIXED <= most_bytes[at[0]]:
            return Verdict.SENSELESS
        at += size
        left -= size
    return Verdict.GOOD


def problem_of(verdict, record):
    """Return what is wrong, as the end of a sentence about the segment."""
    if verdict == Verdict.NOTHING:
        return "it has no end"
    if verdict == Verdict.TORN:
        return "a record has a wrong length or checksum"
    if verdict == Verdict.SENSELESS:
        return f"a record of kind {record.kind} with {record.size} bytes says what no program writes"
    if record.tag == 0 and record.kind == Kind.RULES:
        return "a record holds rules of tubes that this program doesn't know"
    if record.tag == 0 and record.kind == Kind.SCHEDULE:
        name: bytes = record.schedule[: record.schedule_bytes]
        return (
            f"schedule {name.decode('ascii', 'backslashreplace')} needs level {record.level}, and this program knows "
            f"those up to {SCHEDULE_LEVEL}"
        )
    if record.tag == 0:
        return f"a record is of kind {record.kind}, which this program doesn't know"
    whose: str = f"job {record.job.id}"
    if record.kind == Kind.TUBE:
        name = record.name[: record.name_bytes]
        whose = f"tube {name.decode('ascii', 'backslashreplace')}"
    return f"{whose} has tag {record.tag}, which this program doesn't know"


# --- for the tools and for compaction ---------------------------------------------------------------------------------


def describe(data: bytes, start: cython.Py_ssize_t, header: Header) -> tuple[int, int, dict[str, Any]] | None:
    """Return (size, kind, fields by name) of the record at `start`; None: there is none that counts."""
    record: Record
    at: cython.p_const_uchar = cython.cast(cython.p_const_uchar, data) + start
    left: cython.Py_ssize_t = len(data) - start
    verdict: Verdict = read_record(at, left, header.salt, header.version, cython.address(record))
    if verdict != Verdict.GOOD and verdict != Verdict.UNKNOWN:
        return None
    fields: dict = {}
    if verdict == Verdict.UNKNOWN:
        fields["unknown"] = problem_of(verdict, cython.address(record))
    elif record.kind in FIELDS:
        fields = FIELDS[record.kind].described(data[start + FRAME + 1 : start + record.size])
        if record.kind == Kind.SCHEDULE or record.kind == Kind.FIRED:
            fields = {"schedule": record.schedule[: record.schedule_bytes], **fields}
    if verdict == Verdict.GOOD and (record.is_whole or record.kind == Kind.CHANGED):
        numbers: dict = record.job
        fields |= {"job": numbers.pop("id"), **numbers, "state": STATES[record.job.state]}
    if record.is_whole or record.kind == Kind.TUBE or record.kind == Kind.GROUP:
        fields["tube"] = record.name[: record.name_bytes]
    if record.tag_bytes:
        fields["tags"] = record.tags[: record.tag_bytes].hex()
    if record.is_whole:
        fields["body_bytes"] = record.body_bytes
    elif record.kind == Kind.GROUP:
        fields["group"] = record.body[: record.body_bytes]
    elif record.kind == Kind.SCHEDULE:
        fields["document_bytes"] = record.body_bytes
    return record.size, record.kind, fields


def items_in(data: bytes) -> list[int | bytes]:
    """Return the ids of the jobs that a segment holds whole, and the names of schedules that it holds, in order."""
    record: Record
    at: cython.p_const_uchar = data
    header: Header = read_header(data)
    salt: uint32_t = header.salt
    version: cython.int = header.version
    i: cython.Py_ssize_t = header.size
    end: cython.Py_ssize_t = len(data)
    found: list = []
    while read_record(at + i, end - i, salt, version, cython.address(record)) == Verdict.GOOD:
        if record.is_whole:
            found.append(record.job.id)
        elif record.kind == Kind.SCHEDULE:
            found.append(record.schedule[: record.schedule_bytes])
        i += record.size
    return found


def durable_beyond(data: bytes, number: uint64_t, start: cython.Py_ssize_t, salt: int | None) -> bool:
    """Whether a good turn record behind `start` says that segment `number` was durable beyond `start`.

    If so, what is wrong at `start` is not what a crash leaves. `salt` is the segment's; None: its header is not good,
    and each turn record is taken at its word.
    """
    record: Record
    at: cython.p_const_uchar = data
    length: cython.int = TURN_RECORD - FRAME
    i: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = len(data) - TURN_RECORD
    while i <= end:
        found = cython.cast(cython.p_const_uchar, memchr(at + i, length, end - i + 1))
        if found is cython.NULL:
            return False
        i = found - at
        if get_u32(found) == cython.cast(uint32_t, length) and found[FRAME] == Kind.TURN:
            named: uint32_t = get_u32(found + FRAME + 33)
            if (
                (salt is None or named == salt)
                and read_record(found, TURN_RECORD, named, VERSION, cython.address(record)) == Verdict.GOOD
                and (record.number, record.durable_bytes) > (number, start)
            ):
                return True
        i += 1
    return False
