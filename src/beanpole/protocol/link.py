"""Links, as far as both ends do the same: the first lines, and frames as bytes. docs/link.md describes them.

Whether a frame may come now is for who reads it: an end knows its channels. What can be said of a frame alone is said
here, by one table.
"""

import re

import cython
from cython.cimports.beanpole.protocol.buffer import reserve
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memmove

from beanpole.protocol import limits

READ_BYTES = cython.declare(cython.Py_ssize_t, limits.LINK_READ_BYTES)
HEADER_BYTES = cython.declare(cython.Py_ssize_t, 8)
assert READ_BYTES >= 2 * (8 + limits.LINK_DATA_BYTES_MAX), "a frame and the next read find room"

NONE = (-1, -1)
KINDS: tuple[tuple[str, bool, tuple[int, int], tuple[int, int]], ...] = (
    ("OPEN", True, (0, limits.LINK_OPEN_BYTES_MAX), NONE),
    ("DATA", True, (1, limits.LINK_DATA_BYTES_MAX), (1, limits.LINK_DATA_BYTES_MAX)),
    ("FIN", True, (0, 1), NONE),
    ("CLOSE", True, (1, 1), (0, 0)),
    ("ROOM", True, (4, 4), (4, 4)),
    ("PING", False, (1, 1), (1, 1)),
    ("DRAIN", False, (0, 0), NONE),
)
"""Each kind from 1 on: name, whether it means a client;
bytes of its payload at least and at most, from a front and from a server."""

FIRST_LINE = re.compile(rb"beanpole-link 1 (-|[A-Za-z0-9_-]{1,64}) (\d{1,18}) (\d{1,18})\r\n")
MAP = re.compile(rb"map (\d{1,18})\n")
LINK = re.compile(rb"LINK (\d{1,18}) (\d{1,18})\r\n")
LEADER = re.compile(rb"LEADER ([!-~]{1,400})\r\n")


def first_line(cluster: str = "-", epoch: int = 0, map_epoch: int = 0) -> bytes:
    """Return the line with which a front begins."""
    return f"beanpole-link 1 {cluster} {epoch} {map_epoch}\r\n".encode()


def read_first_line(line: bytes) -> tuple[str, int, int] | None:
    """Return cluster, epoch and map epoch of a front's first line; None: it is none."""
    found = FIRST_LINE.fullmatch(line)
    return (found[1].decode(), int(found[2]), int(found[3])) if found else None


def read_map_epoch(about: bytes, before: int) -> int:
    """Return the epoch of a front's map, as an OPEN says it in front of all else; if it does not, what it was."""
    found = MAP.match(about)
    return int(found[1]) if found else before


def link_line(shard: int, body_bytes_max: int) -> bytes:
    """Return the answer of a server that takes the link."""
    return b"LINK %d %d\r\n" % (shard, body_bytes_max)


def read_link_line(line: bytes) -> tuple[int, int] | None:
    """Return shard and largest body of a server that takes the link; None: it does not."""
    found = LINK.fullmatch(line)
    return (int(found[1]), int(found[2])) if found else None


def leader_line(address: str) -> bytes:
    """Return the answer of a server that does not take the link, but knows who does."""
    return f"LEADER {address}\r\n".encode()


def read_leader_line(line: bytes) -> str | None:
    """Return the address of the server that takes the link, as another says it; None: it does not say so."""
    found = LEADER.fullmatch(line)
    return found[1].decode() if found else None


@cython.cclass
class FrameReader:
    """Turns what comes over a link into frames, in whatever pieces it comes. The fields stand in ``link.pxd``."""

    def __cinit__(self, of_front: cython.bint):
        """Read what a front sends, or what a server does."""
        for kind, (_, channel, from_front, from_server) in enumerate(KINDS, 1):
            self.rows[kind].channel = channel
            self.rows[kind].least, self.rows[kind].most = from_front if of_front else from_server
        self.data = cython.cast(cython.p_char, malloc(READ_BYTES))
        if self.data is cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.data)

    def room(self):
        """Return where what comes next can be written: `free_bytes` of it. Payloads found before are gone."""
        if self.start:
            memmove(self.data, self.data + self.start, self.end - self.start)
            self.end -= self.start
            self.start = 0
        return self.data + self.end

    def free_bytes(self):
        """Return how many bytes can be written where `room` said; count those that were in `end`."""
        return READ_BYTES - self.end

    def take_line(self) -> bytes | None:
        """Return the first line with its CRLF; None: it has not all come, or there is a mistake."""
        most: cython.Py_ssize_t = limits.LINK_LINE_BYTES_MAX
        there: bytes = self.data[self.start : min(self.end, self.start + most)]
        size = there.find(b"\r\n") + 2
        if size >= 2:
            self.start += size
            return there[:size]
        if len(there) == most:
            self.refuse("first line")
        return None

    def next(self):
        """Find the next frame. False: it has not all come, or there is a mistake."""
        left: cython.Py_ssize_t = self.end - self.start - HEADER_BYTES
        if left < 0 or self.mistake is not None:
            return False
        at = cython.cast(cython.pointer(cython.uchar), self.data + self.start)
        self.channel = little_endian(at)
        self.kind = at[4]
        self.size = little_endian(at + 4) >> 8
        # What is wrong is said before the payload has come: of a wrong size it may never come.
        if not 0 < self.kind < Kind.KIND_END or self.rows[self.kind].least < 0:
            return self.refuse(f"kind {self.kind}")
        row = cython.address(self.rows[self.kind])
        size: cython.int = self.size
        if size < row.least or size > row.most:
            return self.refuse(f"size of {KINDS[self.kind - 1][0]}")
        if row.channel != (self.channel != 0):
            return self.refuse(f"channel of {KINDS[self.kind - 1][0]}")
        if left < size:
            return False
        self.payload = self.data + self.start + HEADER_BYTES
        self.start += HEADER_BYTES + size
        if self.kind == Kind.ROOM:
            self.value = little_endian(at + 8)
            return self.value > 0 or self.refuse("ROOM of 0")
        if self.kind == Kind.PING or (self.kind == Kind.CLOSE and size):
            self.value = at[8]
            return self.value < 2 or self.refuse(f"{KINDS[self.kind - 1][0]} of {self.value}")
        return True

    def refuse(self, mistake):
        self.mistake = mistake
        return False

    # --- for those who have bytes -------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take what has come, at most what there is room for."""
        target = self.room()
        assert len(data) <= self.free_bytes(), "there is no room for so much"
        memcpy(target, cython.cast(cython.p_const_char, data), len(data))
        self.end += len(data)

    def next_frame(self) -> tuple[int, int, bytes] | None:
        """Return channel, kind and payload of the next frame; None: it has not all come, or there is a mistake."""
        return (self.channel, self.kind, self.payload[: self.size]) if self.next() else None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def little_endian(at: cython.pointer(cython.uchar)) -> uint32_t:
    """Return a number of four bytes."""
    high: uint32_t = at[3]
    return at[0] | at[1] << 8 | at[2] << 16 | high << 24


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put_little_endian(at: cython.pointer(cython.uchar), value: uint32_t):
    at[0] = value & 0xFF
    at[1] = value >> 8 & 0xFF
    at[2] = value >> 16 & 0xFF
    at[3] = value >> 24


def put_header(at, channel, kind, size):
    """Write the header of a frame whose payload is written by somebody else."""
    put_little_endian(cython.cast(cython.pointer(cython.uchar), at), channel)
    put_little_endian(cython.cast(cython.pointer(cython.uchar), at) + 4, kind | cython.cast(uint32_t, size) << 8)


def add_frame(out, channel, kind, payload, size):
    """Append a frame."""
    at = reserve(out, HEADER_BYTES + size)
    put_header(at, channel, kind, size)
    memcpy(at + HEADER_BYTES, payload, size)
    out.size += HEADER_BYTES + size
    return 0


def add_number(out, channel, kind, value):
    """Append a frame whose payload is a number: of four bytes for ROOM, of one for PING and CLOSE."""
    payload: cython.uchar[4]
    put_little_endian(payload, value)
    return add_frame(out, channel, kind, cython.cast(cython.p_const_char, payload), 4 if kind == Kind.ROOM else 1)


def frame(channel: int, kind: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return channel.to_bytes(4, "little") + bytes([kind]) + len(payload).to_bytes(3, "little") + payload
