"""Rows: what a cluster's log is made of, in the order in which they are appended.

A row holds records, cut where one ends. Its place is its lock: behind a row comes the next row of the same segment,
behind an END row the first of the next, and nobody writes anywhere else. Each row names the hash of the one before, so
that a reader notices a log that was set back; the place that its writer knew to be confirmed, so that a reader knows
what it may apply; and its writer, so that a node which doesn't know the outcome of an append can tell its own row from
another's.
"""

import hashlib
import json
import secrets
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

WRITER_BYTES = 16
"""A writer is so many random bytes, drawn once a process: names are for people."""

HASH_BYTES = 16

FIXED = struct.Struct("<QQQHQQ")
"""What of a row is hashed before its bytes: segment, row, epoch, kind, and the confirmed place."""

LENGTH = struct.Struct("<I")


class Place(NamedTuple):
    """Where a row stands. Places are ordered as the log is."""

    segment: int
    row: int

    def __str__(self) -> str:
        return f"row {self.row} of segment {self.segment}"


NOWHERE = Place(0, 0)
"""Before every row."""


class RowKind(IntEnum):
    """What a row is."""

    RECORDS = 1
    """Records of clients, of compaction, or only the time."""

    END = 2
    """Records, the last of which ends the segment."""

    EPOCH = 3
    """A node leads from here on: a header with its salt, behind what it says of itself."""

    HANDOVER = 4
    """The leader's last row: the node that it names may lead at once."""

    CLOSED = 5
    """The log was exported: no node may lead any more."""

    HEAD = 6
    """The first records of a segment, behind what the leader says of itself: its EPOCH row may be gone by then."""


NOTED = frozenset({RowKind.EPOCH, RowKind.HANDOVER, RowKind.HEAD})
"""The kinds of rows whose records have a note before them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the log."""

    place: Place
    epoch: int
    """Counts those who led, from 1."""

    kind: int
    """A RowKind; another number if the row is damaged."""

    writer: bytes
    confirmed: Place
    """The last place that the writer knew to be confirmed."""

    previous: bytes
    """The hash of the row before."""

    data: bytes
    hash: bytes

    @property
    def next_place(self) -> Place:
        """Where the row behind this one goes."""
        return (
            Place(self.place.segment + 1, 0)
            if self.kind == RowKind.END
            else self.place._replace(row=self.place.row + 1)
        )

    @property
    def has_header(self) -> bool:
        """Whether its records, if it has any, begin with the header of a segment."""
        return self.kind == RowKind.EPOCH or (self.place.row == 0 and self.epoch > 0)

    def unpack(self) -> tuple[dict[str, Any], bytes]:
        """Return what its writer says of itself, nothing in most kinds, and its records.

        Raises ValueError: no writer has made such bytes.
        """
        return unpack_note(self.data) if self.kind in NOTED else ({}, self.data)

    @property
    def is_sound(self) -> bool:
        """Whether the row is what its writer wrote."""
        try:
            return self.hash == row_hash(
                self.place, self.epoch, self.kind, self.writer, self.confirmed, self.previous, self.data
            )
        except struct.error:  # a number that no writer writes
            return False

    def is_copy_of(self, row: "Row") -> bool:
        """Whether this is the row that a writer meant to append."""
        return self.writer == row.writer and self.hash == row.hash


def new_writer() -> bytes:
    """Draw what a process signs its rows with."""
    return secrets.token_bytes(WRITER_BYTES)


def row_hash(  # noqa: PLR0913, PLR0917 - the columns of a row
    place: Place, epoch: int, kind: int, writer: bytes, confirmed: Place, previous: bytes, data: bytes
) -> bytes:
    """Return the hash over everything that a row says (BLAKE2b, RFC 7693)."""
    state = hashlib.blake2b(FIXED.pack(*place, epoch, kind, *confirmed), digest_size=HASH_BYTES)
    state.update(writer)
    state.update(previous)
    state.update(data)
    return state.digest()


def row_behind(  # noqa: PLR0913 - the columns of a row
    tip: Row, *, epoch: int, kind: RowKind, writer: bytes, confirmed: Place, data: bytes
) -> Row:
    """Return the row that would come behind the last one."""
    place, previous = tip.next_place, tip.hash
    digest = row_hash(place, epoch, kind, writer, confirmed, previous, data)
    return Row(place, epoch, kind, writer, confirmed, previous, data, digest)


def first_row(writer: bytes) -> Row:
    """Return the row that a new log begins with: it holds nothing, and is what the first leader writes behind."""
    place, previous = Place(1, 0), bytes(HASH_BYTES)
    digest = row_hash(place, 0, RowKind.RECORDS, writer, place, previous, b"")
    return Row(place, 0, RowKind.RECORDS, writer, place, previous, b"", digest)


def pack_note(note: dict[str, Any], records: bytes = b"") -> bytes:
    """Return what a row of the kinds in :data:`NOTED` holds: what its writer says, and records behind it."""
    text = json.dumps(note, sort_keys=True).encode()
    return LENGTH.pack(len(text)) + text + records


def unpack_note(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return what :func:`pack_note` was given. Raise ValueError if it is nothing like that."""
    if len(data) < LENGTH.size:
        raise ValueError("a row of this kind is shorter than the length of its note")
    end = LENGTH.size + LENGTH.unpack_from(data)[0]
    if end > len(data):
        raise ValueError("a row of this kind ends in its note")
    note = json.loads(data[LENGTH.size : end])
    if not isinstance(note, dict):
        raise ValueError("the note of a row is no object")  # noqa: TRY004 - the bytes are wrong, not our types
    return note, data[end:]
