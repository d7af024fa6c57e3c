"""The log's format: records as bytes. docs/wal-format.md describes it byte by byte.

A record is ``length u32 | crc u32 | payload``; the CRC-32C covers the length and the payload, so that neither can lie.
It begins with a random number, the salt, so that nobody can put a body that is taken for records.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

import cython
from cython.cimports.beanpole.engine.policies.history import ENTRY_FIXED, HISTORY_BYTES_MAX
from cython.cimports.beanpole.engine.state.tags import (
    ATTEMPT_BYTES,
    DEATH_FIXED,
    EXPIRY_BYTES,
    SCHEDULED_FIXED,
    Tag,
)
from cython.cimports.beanpole.log.crc32c import crc32c, extend
from cython.cimports.beanpole.log.endian import put_u32, put_u64
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy

from beanpole.limits import TUBE_NAME_BYTES_MAX
from beanpole.protocol.limits import KEY_BYTES_MAX, META_BYTES_MAX, TEXT_BYTES_MAX

MAGIC = b"BEANPOLE"
VERSION = 3


class Fields(NamedTuple):
    """What stands behind the kind of a record."""

    layout: Struct
    """Numbers of a fixed size, at least eight bytes."""

    names: tuple[str, ...]
    """What `beanpole wal dump` calls them."""

    rest: str = ""
    """What it calls the bytes behind them; empty: there are none, or others read them."""

    restore: str = ""
    """The method of :class:`~beanpole.engine.restore.Restore` that is called with all of them; empty: none is."""

    def values(self, payload: bytes) -> Iterator[Any]:
        """Return what a record says, in the order of the names."""
        yield from self.layout.unpack_from(payload)
        if self.rest:
            yield payload[self.layout.size :]

    def described(self, payload: bytes) -> dict[str, Any]:
        """Return what a record says, by name."""
        return dict(zip((*self.names, self.rest), self.values(payload), strict=False))

    def payload(self, values: tuple[Any, ...]) -> bytes:
        """Return values as bytes: `values` backwards."""
        count = len(self.names)
        return self.layout.pack(*values[:count]) + b"".join(values[count:])


STATE = ("next_ns", "due_ns", "last_ns", "fires", "skips", "misses", "last_job", "paused")
"""A schedule's state, as two kinds of records say it."""

FIELDS = {
    Kind.DELETED: Fields(Struct("<Q"), ("job",)),
    Kind.TUBE: Fields(Struct("<Iqx"), ("pause_s", "paused_until_ns")),
    Kind.TURN: Fields(Struct("<qqQQ4x"), ("time_ns", "clock_lead_ns", "durable_segment", "durable_bytes")),
    Kind.END: Fields(Struct("<Q"), ("next_job_id",), restore="reach_job_id"),
    Kind.RULES: Fields(Struct("<q"), ("set_at_ns",), "rules"),
    Kind.SCHEDULE: Fields(Struct("<3q4QBqBx"), (*STATE, "set_at_ns", "level")),
    Kind.FIRED: Fields(Struct("<3q4QBx"), STATE),
    Kind.GROUP: Fields(Struct("<Iqx"), ("pause_s", "paused_until_ns")),
    Kind.ONCE: Fields(Struct("<16sqQ"), ("token_hash", "until_ns", "job")),
    Kind.SHARD: Fields(Struct("<4H"), ("number", "second", "third", "fourth"), restore="shard"),
    Kind.FIRST: Fields(Struct("<Q"), ("segment_number",)),
    Kind.NEXT: Fields(Struct("<Q"), ("segment_number",)),
    Kind.RESERVED: Fields(Struct("<QqI"), ("job", "until_ns", "reserve_count")),
    Kind.ATTEMPT: Fields(Struct("<QII"), ("job", "attempt", "reserve_count")),
    Kind.KEPT: Fields(Struct("<QIH"), ("job", "reserve_count", "seconds"), "token_hash"),
}
"""Of each kind but those of whole jobs. The frequent ones are read and written by code of their own besides."""

TAG_SIZES = {
    Tag.KEY: (1, 1 + KEY_BYTES_MAX),
    Tag.EXPIRE: (EXPIRY_BYTES, EXPIRY_BYTES),
    Tag.GROUP: (1, KEY_BYTES_MAX),
    Tag.ATTEMPTS: (ATTEMPT_BYTES, ATTEMPT_BYTES),
    Tag.DEATH: (DEATH_FIXED + 1, DEATH_FIXED + TUBE_NAME_BYTES_MAX),
    Tag.FAILURE_TEXT: (1, TEXT_BYTES_MAX),
    Tag.SCHEDULED: (SCHEDULED_FIXED + 1, SCHEDULED_FIXED + TUBE_NAME_BYTES_MAX),
    Tag.META: (1, META_BYTES_MAX),
    Tag.HISTORY: (ENTRY_FIXED, HISTORY_BYTES_MAX),
}
"""The tags of a job that this program knows, and of each the least and the most bytes of what it says."""


def record_crc(at, size, salt):
    """Return the checksum that a record of `size` bytes must have: over its length and its payload."""
    return ~extend(extend(~salt, at, 4), at + FRAME, size - FRAME)


def whole_bytes(job):
    """Return the size of a job's whole record."""
    return WHOLE_FIXED + len(job.tube.name) + job.tag_bytes + job.body_bytes


def pause_bytes(tube):
    """Return the size of a tube's record."""
    return TUBE_FIXED + len(tube.name) + (0 if tube.tags is None else len(tube.tags))


def group_bytes(pause):
    """Return the size of the record of a group's pause."""
    return TUBE_FIXED + len(pause.tube) + len(pause.group)


def rules_bytes(rules):
    """Return the size of the record of rules."""
    return RULES_FIXED + len(rules.pattern) + 1 + len(rules.text)


def schedule_bytes(schedule):
    """Return the size of the record of a schedule's document."""
    return SCHEDULE_FIXED + len(schedule.name) + len(schedule.text)


def segment_header(
    number: uint64_t,
    next_job_id: uint64_t,
    clock: tuple[int, int],
    salt: uint32_t,
    first_segment: uint64_t = 0,
    file_bytes: uint64_t = 0,
) -> bytes:
    """Return the header of a segment; `clock` is (the log's clock, the wall clock's lead), in nanoseconds."""
    header: cython.uchar[72]
    log_ns: int64_t = clock[0]
    lead_ns: int64_t = clock[1]
    at: cython.p_uchar = header
    memcpy(at, cython.cast(cython.p_const_char, MAGIC), 8)
    put_u32(at + 8, VERSION)
    put_u32(at + 12, SEGMENT_HEADER)
    put_u64(at + 16, number)
    put_u64(at + 24, next_job_id)
    put_u64(at + 32, log_ns)
    put_u64(at + 40, lead_ns)
    put_u64(at + 48, first_segment)
    put_u64(at + 56, file_bytes)
    put_u32(at + 64, salt)
    put_u32(at + 68, crc32c(at, 68))
    return at[:72]


def number_record(kind: cython.int, number: uint64_t, salt: uint32_t) -> bytes:
    """Return a record that holds one number: END, FIRST or NEXT."""
    record: cython.uchar[17]
    at: cython.p_uchar = record
    at[FRAME] = kind
    put_u64(at + FRAME + 1, number)
    put_u32(at, END_RECORD - FRAME)
    put_u32(at + 4, record_crc(at, END_RECORD, salt))
    return at[:17]
