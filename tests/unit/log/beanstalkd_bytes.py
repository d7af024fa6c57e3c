"""Builds beanstalkd's records by hand, field by field and not through the reader's tables, for tests of the reader."""

from dataclasses import dataclass

from beanpole.log.migration.beanstalkd_binlog import BinlogJob, BinlogReplay, BinlogReport

NOW_NS = 1_700_000_000_123_456_000
"""A moment of the wall clock, in whole microseconds so that version 5 can say it too."""

READY, RESERVED, BURIED, DELAYED, DELETED = 1, 2, 3, 4, 0


def number(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little", signed=value < 0)


@dataclass(frozen=True)
class Record:
    """What one record says. An empty tube makes a record without name and body: a change, or a delete."""

    id: int
    tube: bytes = b"default"
    body: bytes = b"hello"
    state: int = READY
    pri: int = 1000
    delay_s: int = 0
    ttr_s: int = 60
    created_at_ns: int = NOW_NS
    deadline_at_ns: int = 0
    counts: tuple[int, ...] = (0, 0, 0, 0, 0)
    """Reserves, timeouts, releases, buries, kicks."""

    def encode(self, version: int = 7) -> bytes:
        """The bytes of the record in a file of a version."""
        unit_ns = 1 if version == 7 else 1000
        fields = [
            number(len(self.tube), 4 if version == 7 else 8),
            self.tube,
            number(self.id, 8),
            number(self.pri, 4) + b"\0\0\0\0",
            number(self.delay_s * 1_000_000_000 // unit_ns, 8),
            number(self.ttr_s * 1_000_000_000 // unit_ns, 8),
            number(len(self.body) + 2, 4) + b"\0\0\0\0",
            number(self.created_at_ns // unit_ns, 8),
            number(self.deadline_at_ns // unit_ns, 8),
            *(number(count, 4) for count in self.counts),
            number(self.state, 1) + (b"\0\0\0" if version == 7 else b""),
        ]
        return b"".join(fields) + (self.body + b"\r\n" if self.tube else b"")


def binlog(*records: Record, version: int = 7, unused: int = 0) -> bytes:
    """The bytes of a file, with so many unused ones at the end."""
    return number(version, 4) + b"".join(record.encode(version) for record in records) + b"\0" * unused


def read_binlog(name: str, data: bytes) -> tuple[dict[int, BinlogJob], BinlogReport]:
    """Read one file, as if there were no other."""
    replay = BinlogReplay()
    replay.feed(name, data)
    return replay.finish()
