"""A disk in memory that forgets what was not synced, tears what was being written, and fails on demand.

What a file or the directory shows (the cache) is kept apart from what a loss of power leaves (the durable state). Each
change waits in order in `pending` until its file, or for names the directory, is synced. :meth:`SimDisk.lose_power`
keeps what it likes of that: any sectors of any write, part of one, any truncation, any change of a name. After
:meth:`SimDisk.kill` the cache stays: only the process is gone.

Every call is counted; the one numbered `fail_at` fails, and at `crash_at` the process ends. A file of zeros that was
created is durable at once, as `Directory.create` promises; its name is not. While a command runs no call is allowed
(:class:`Ban`).
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from beanpole.log.files.diskfile import File

SECTOR = 512
"""Bytes that a disk writes all or not at all."""


class CrashError(BaseException):
    """The process ends in this call."""


class Ban:
    """Lets every call on the disk, and on what works beside the log, fail while a command runs."""

    def __init__(self) -> None:
        self.holds = False
        self.broken: list[str] = []
        """The calls that were made all the same: compiled code may have dropped the exception."""

    def note(self, call: str) -> None:
        if self.holds:
            self.broken.append(call)
            raise AssertionError(f"a command asks for {call}")

    @contextmanager
    def while_a_command_runs(self) -> Iterator[None]:
        """Nothing may be asked for until the end of the block."""
        self.holds = True
        try:
            yield
        finally:
            self.holds = False
        assert not self.broken, f"a command asked for {self.broken}"


Change = tuple[int, bytes | None]
"""Bytes at an offset, or None: the file is cut at it."""


def change(content: bytearray, at: int, data: bytes | None) -> None:
    """Applies one change to what a file holds."""
    if data is None:
        del content[at:]
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


@dataclass(slots=True)
class Inode:
    """A file, whatever it is called."""

    cache: bytearray
    durable: bytearray
    pending: list[Change] = field(default_factory=list)
    settled_count: int = 0
    """Changes ever that are no longer pending."""

    def mark(self) -> int:
        """The changes so far."""
        return self.settled_count + len(self.pending)

    def settle(self, mark: int) -> list[Change]:
        """Takes the changes before a mark out of those that wait."""
        count = max(0, mark - self.settled_count)
        settled = self.pending[:count]
        del self.pending[:count]
        self.settled_count += len(settled)
        return settled

    def sync(self, mark: int) -> None:
        for at, data in self.settle(mark):
            change(self.durable, at, data)

    def become_durable_only(self) -> None:
        self.pending.clear()
        self.cache = bytearray(self.durable)


@dataclass(slots=True)
class Naming:
    """A change of the directory: a name that goes, a name that comes, or both in one step."""

    gone: str | None
    name: str | None = None
    inode: Inode | None = None

    def apply(self, names: dict[str, Inode]) -> None:
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.name is not None and self.inode is not None:
            names[self.name] = self.inode


class SimFile(File):
    """An open file."""

    def __init__(self, disk: "SimDisk", name: str, inode: Inode) -> None:
        self.disk = disk
        self.name = name
        self.inode = inode
        self.is_open = True

    def fileno(self) -> int:
        self.disk.ban.note("fileno")
        return -1

    def write(self, offset: int, data: bytes | memoryview) -> None:
        data = bytes(data)
        try:
            self.disk.call("write")
        except (OSError, CrashError):
            self._write(offset, data[: self.disk.rng.randint(0, len(data))])
            raise
        self._write(offset, data)

    def _write(self, offset: int, data: bytes) -> None:
        change(self.inode.cache, offset, data)
        self.inode.pending.append((offset, data))

    def zero(self, start: int, end: int) -> None:
        self.write(start, bytes(end - start))
        self.sync()

    def sync(self) -> None:
        self.sync_until(self.mark())

    def mark(self) -> int:
        return self.inode.mark()

    def sync_until(self, mark: int) -> None:
        """Makes the changes before a mark durable. A failure forgets them, but the cache goes on showing them."""
        try:
            self.disk.call("sync")
        except OSError:
            self.inode.settle(mark)
            raise
        self.inode.sync(mark)

    def close(self) -> None:
        self.disk.ban.note("close")
        assert self.is_open, f"{self.name} is closed twice"
        self.is_open = False


class SimDisk:
    """A directory and what is in it."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = Random(seed)
        self.ban = Ban()
        self.cache: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.pending: list[Naming] = []
        self.settled_count = 0
        self.capacity: int | None = None
        """Bytes that all files may take; None: there is always room."""

        self.call_count = 0
        self.crash_at = 0
        self.fail_at = 0
        self.fail_errno = errno.EIO
        self.fault_count = 0
        """Calls that failed so far."""

        self.fail_only = ""
        """The only kind of call that fails, counted among its like; empty: any."""

    def call(self, kind: str) -> None:
        """Counts a call, and ends it or the process when it is time for that."""
        self.ban.note(kind)
        if self.crash_at or not self.fail_only or kind == self.fail_only:
            self.call_count += 1
        if self.crash_at and self.call_count == self.crash_at:
            raise CrashError
        if self.call_count == self.fail_at and (not self.fail_only or kind == self.fail_only):
            self.fault_count += 1
            raise OSError(self.fail_errno, os.strerror(self.fail_errno))

    # --- what the log calls -------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        self.call("names")
        return self.rng.sample(sorted(self.cache), len(self.cache))

    def read(self, name: str) -> bytes:
        self.call("read")
        return bytes(self.cache[name].cache)

    def size(self, name: str) -> int:
        self.call("size")
        return len(self.cache[name].cache)

    def create(self, name: str, size: int) -> SimFile:
        self.call("create")
        if self.capacity is not None and self.used_bytes() + size > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        assert name not in self.cache, f"{name} is created, but it is there already"
        inode = Inode(bytearray(size), bytearray(size))
        self.rename_step(Naming(None, name, inode))
        return SimFile(self, name, inode)

    def open(self, name: str) -> SimFile:
        self.call("open")
        return SimFile(self, name, self.cache[name])

    def rename(self, old: str, new: str) -> None:
        self.call("rename")
        assert new not in self.cache, f"{new} is there already"
        self.rename_step(Naming(old, new, self.cache[old]))

    def unlink(self, name: str) -> None:
        self.call("unlink")
        assert name in self.cache, f"{name} is removed, but it is not there"
        self.rename_step(Naming(name))

    def rename_step(self, naming: Naming) -> None:
        naming.apply(self.cache)
        self.pending.append(naming)

    def fileno(self) -> int:
        self.ban.note("fileno")
        return -1

    def sync(self) -> None:
        self.sync_until(self.mark())

    def free_bytes(self) -> int:
        return 0 if self.capacity is None else self.capacity - self.used_bytes()

    def mark(self) -> int:
        return self.settled_count + len(self.pending)

    def sync_until(self, mark: int) -> None:
        """Makes the names before a mark durable."""
        self.call("sync directory")
        count = max(0, mark - self.settled_count)
        for naming in self.pending[:count]:
            naming.apply(self.durable)
        del self.pending[:count]
        self.settled_count += count

    # --- what happens to it -------------------------------------------------------------------------------------------

    def used_bytes(self) -> int:
        return sum(len(inode.cache) for inode in self.cache.values())

    def disarm(self) -> None:
        """Lets calls succeed again."""
        self.crash_at = self.fail_at = self.call_count = 0

    def kill(self) -> None:
        """Only the process is gone."""
        self.disarm()

    def lose_power(self) -> None:
        """Goes back to what was durable, and some of what was pending."""
        self.disarm()
        keep = self.rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for naming in self.pending:
            if self.rng.random() < keep:
                naming.apply(self.durable)
        self.settled_count += len(self.pending)
        self.pending.clear()
        self.cache = dict(self.durable)
        for inode in self.cache.values():
            self.tear(inode, self.rng.choice((keep, keep, 0.0, 0.5, 1.0)))
            inode.become_durable_only()

    def tear(self, inode: Inode, keep: float) -> None:
        """Lets some of a file's changes become durable: any sectors, and of the last write any number of bytes."""
        last = len(inode.pending) - 1
        for i, (at, data) in enumerate(inode.pending):
            if data is None:
                if self.rng.random() < keep:
                    change(inode.durable, at, data)
                continue
            start, length = 0, len(data)
            if i == last and self.rng.random() < 0.5:
                length = self.rng.randint(0, length)
            while start < length:
                end = min(length, start + SECTOR - (at + start) % SECTOR)
                if self.rng.random() < keep:
                    change(inode.durable, at + start, data[start:end])
                start = end

    def copy(self) -> "SimDisk":
        """Another disk that holds the same, and has all the room in the world."""
        other = SimDisk(self.rng.randrange(2**32))
        for name, inode in self.cache.items():
            other.cache[name] = Inode(bytearray(inode.cache), bytearray(inode.cache))
        other.durable = dict(other.cache)
        return other

    def put_file(self, name: str, content: bytes) -> None:
        """Puts a durable file there, in place of what is there."""
        self.cache[name] = self.durable[name] = Inode(bytearray(content), bytearray(content))
