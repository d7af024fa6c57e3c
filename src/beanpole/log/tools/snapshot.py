"""A log's directory as it was at one moment, for reading only, also while a server writes there.

A :class:`Snapshot` takes the place of a :class:`~beanpole.log.files.disk.Directory` in recovery: what recovery repairs,
it repairs in vain (:func:`nothing`). So the tools can say what a start of the server would do: they ask the code that
would do it.

While a server has the directory, segments may disappear and the last one grows. The snapshot opens all of them at once
(a removed file can be read as long as it is open) and keeps one copy of the last.
"""

import fcntl
import os
import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beanpole.log.files.disk import LOCK_NAME
from beanpole.log.files.diskfile import File
from beanpole.log.files.names import is_spare, segment_number
from beanpole.log.format import NEXT_RECORD
from beanpole.log.reader import durable_beyond
from beanpole.log.replay import Replay

LOCK = struct.Struct("hhqqi4x")
"""``struct flock`` of Linux: type, whence, start, length, process."""

READINGS_MAX = 10
"""How often the last segment is read, until no reading has caught the server in the middle of a write."""


def nothing(*_arguments: object) -> Any:  # noqa: ANN401 - it is any method that writes
    """Do nothing: what recovery writes is not written."""


class ForgetfulFile(File):
    """A file that forgets what is written to it."""

    def __init__(self, name: str) -> None:
        self.name = name


class Snapshot:
    """The files of a directory, for reading.

    Raises:
        OSError: the directory or a segment can't be opened.
    """

    on_read: Callable[[int], object] = staticmethod(nothing)
    """Called with the number of bytes that are read next."""

    def __init__(self, path: Path, *, is_ours: bool = False) -> None:
        self.path = path
        # A process loses its lock when it closes any descriptor of the file (fcntl(2)), so its holder must not ask.
        self.holder = None if is_ours else lock_holder(path)
        self.files: dict[str, int] = {}
        self.last = (-1, b"")
        self.all_names = sorted(each.name for each in path.iterdir())
        if self.holder is not None:
            self.open_all()
        self.sizes = {name: self.stat(name).st_size for name in self.all_names if self.is_of_log(name)}

    def is_of_log(self, name: str) -> bool:
        """Whether a file is a segment or a spare; with a server on the directory spares come and go and don't count."""
        return segment_number(name) is not None or (is_spare(name) and self.holder is None)

    def open_all(self) -> None:
        """Open every segment; begin again when the server removes or adds one in between."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        while True:
            try:
                for name in filter(self.is_of_log, self.all_names):
                    self.files[name] = os.open(self.path / name, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                self.close()
            names = sorted(each.name for each in self.path.iterdir())
            if list(self.files) == list(filter(self.is_of_log, names)):
                return
            self.close()
            self.all_names = names

    def close(self) -> None:
        for fd in self.files.values():
            os.close(fd)
        self.files = {}

    def stat(self, name: str) -> os.stat_result:
        return os.fstat(self.files[name]) if name in self.files else (self.path / name).stat()

    @property
    def numbers(self) -> list[int]:
        return sorted(number for name in self.sizes if (number := segment_number(name)) is not None)

    # --- what recovery asks a directory for ---------------------------------------------------------------------------

    def names(self) -> list[str]:
        return self.all_names

    def read(self, name: str) -> bytes:
        """Return what a file holds; of the last segment, always the same."""
        self.on_read(self.sizes[name])
        if name not in self.files:
            return (self.path / name).read_bytes()
        number = segment_number(name)
        if number != self.numbers[-1]:
            return read_all(self.files[name])
        if self.last[0] != number:
            self.last = number, read_growing(self.files[name], number)
        return self.last[1]

    def size(self, name: str) -> int:
        return self.sizes[name]

    def open(self, name: str) -> ForgetfulFile:
        """Return a file to write to in vain."""
        return ForgetfulFile(name)

    create = rename = unlink = fileno = sync = free_bytes = staticmethod(nothing)


def read_all(fd: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def read_growing(fd: int, number: int) -> bytes:
    """Return what the segment holds that a server writes.

    A reading that takes long may miss a record and see a later one, which says that the first was durable. That looks
    like damage; damage looks the same at the next reading, too.
    """
    data, seen_at, replay = read_all(fd), -1, Replay()
    for _ in range(READINGS_MAX):
        replay = Replay()
        try:
            replay.segment(data, number)
        except ValueError:
            break
        stop = replay.good_bytes
        if replay.ended or stop == seen_at or not durable_beyond(data, number, stop, replay.salt):
            break
        data, seen_at = read_all(fd), stop
    if replay.next_segment:  # begun since the directory was listed
        return data[: replay.good_bytes - NEXT_RECORD]
    return data


def lock_holder(path: Path) -> int | None:
    """Return the process that has the directory locked; None: nobody has. Nothing is locked by asking."""
    try:
        fd = os.open(path / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        question = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = LOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, question))
    finally:
        os.close(fd)
    return None if kind == fcntl.F_UNLCK else pid
