"""The disk as the log sees it: one directory, a few files, and the calls whose order decides what a crash leaves.

Everything that the log does to a disk goes through :class:`Directory` and
:class:`~beanpole.log.files.diskfile.File`, so that a simulated disk can
take their place and lose, tear or refuse what it likes.
"""

import errno
import fcntl
import os
from pathlib import Path
from typing import Protocol

from beanpole.errors import ExitCode, StartError
from beanpole.log.files.diskfile import DiskFile, File

LOCK_NAME = "lock"
"""The same file and the same kind of lock as beanstalkd's, so that the two can't use a directory at once."""


class Directory(Protocol):
    """The directory of a log."""

    def names(self) -> list[str]:
        """Return the names of all files."""

    def read(self, name: str) -> bytes:
        """Return what a file holds."""

    def size(self, name: str) -> int:
        """Return the bytes of a file."""

    def create(self, name: str, size: int) -> File:
        """Create a file of zeros with its space on disk. Raise OSError(ENOSPC), leaving nothing, when there is none."""

    def open(self, name: str) -> File:
        """Open a file that is there, to write."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file; it is certain when the directory is synced."""

    def unlink(self, name: str) -> None:
        """Remove a file; it is certain when the directory is synced."""

    def fileno(self) -> int:
        """Return the descriptor, for the thread that syncs."""

    def sync(self) -> None:
        """Return when all creations, renames and removals are on disk."""

    def free_bytes(self) -> int:
        """Return what the disk has left for more files; 0 if it does not say."""


class DiskDirectory:
    """A directory of the operating system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def names(self) -> list[str]:
        return [each.name for each in self.path.iterdir()]

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def size(self, name: str) -> int:
        return (self.path / name).stat().st_size

    def create(self, name: str, size: int) -> DiskFile:
        file = DiskFile(name, os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600, dir_fd=self.fd))
        try:
            if size:
                os.posix_fallocate(file.fd, 0, size)
            os.fsync(file.fd)
        except OSError:
            file.close()
            self.unlink(name)
            raise
        return file

    def open(self, name: str) -> DiskFile:
        return DiskFile(name, os.open(name, os.O_RDWR | os.O_CLOEXEC, dir_fd=self.fd))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self.fd)

    def fileno(self) -> int:
        return self.fd

    def sync(self) -> None:
        os.fsync(self.fd)

    def free_bytes(self) -> int:
        try:
            found = os.fstatvfs(self.fd)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize


def open_directory(path: Path, *, create: bool = True) -> DiskDirectory:
    """Open the directory of a log.

    Raises:
        StartError: it can't be made or opened.
    """
    try:
        if create:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return DiskDirectory(path)
    except OSError as error:
        raise StartError(f"cannot use the data directory {path}: {error.strerror}", ExitCode.FAILED) from error


def lock(directory: DiskDirectory) -> int:
    """Lock a directory for this process; return the descriptor that holds the lock as long as it is open.

    Raises:
        StartError: another server, ours or beanstalkd, has it.
    """
    path = directory.path / LOCK_NAME
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"cannot write into {directory.path}: {error.strerror}", ExitCode.FAILED) from error
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise StartError(f"cannot lock {path}: {error.strerror}", ExitCode.DATA_DIR_LOCKED) from error
        raise StartError(
            f"the data directory {directory.path} is in use by another server; stop that one or name another directory",
            ExitCode.DATA_DIR_LOCKED,
        ) from error
    return fd
