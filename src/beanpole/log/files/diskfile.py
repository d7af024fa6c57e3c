"""An open file of the log, and one of the operating system.

Any thread may write and sync one, without Python's lock. The loop has calls of its own that keep the lock, which takes
longer to give and to get back than to write a record: while it waits for the disk, it has nothing else to do.
"""

import os

import cython
from cython.cimports.beanpole.log.files.syncer import fill, sync_fd, write_at
from cython.cimports.cpython.buffer import (
    Py_buffer,
    PyBUF_READ,
    PyBUF_SIMPLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
from cython.cimports.libc.stdint import int64_t


@cython.cclass
class File:
    """An open file of the log. This one keeps nothing; others replace all of its methods.

    A compiled one overrides ``write_here`` and ``sync_here`` besides, which are the loop's. The fields stand in
    ``diskfile.pxd``.
    """

    def fileno(self) -> int:
        """Return the descriptor, for the thread that syncs; -1: it has none."""
        return -1

    def write(self, offset: int64_t, data: bytes | memoryview) -> None:
        """Write all of `data` at an offset. Raise OSError when not all of it can be."""

    def write_here(self, offset, data, size):
        """Do what `write` does."""
        self.write(offset, PyMemoryView_FromMemory(cython.cast(cython.p_char, data), size, PyBUF_READ))
        return 0

    def zero(self, start: int64_t, end: int64_t) -> None:
        """Return when all that was written, and zeros from `start` to `end`, are on disk."""

    def sync(self) -> None:
        """Return when everything written is on disk."""

    def sync_here(self):
        """Do what `sync` does."""
        self.sync()
        return 0

    def close(self) -> None:
        """Close the file."""


@cython.cclass
class DiskFile(File):
    """A file of the operating system."""

    def __cinit__(self, name: str, fd: cython.int):
        self.name = name
        self.fd = fd

    def fileno(self) -> int:
        return self.fd

    def write(self, offset: int64_t, data: bytes | memoryview) -> None:
        view: Py_buffer
        failure: cython.int
        PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
        with cython.nogil:
            failure = write_at(self.fd, cython.cast(cython.p_char, view.buf), view.len, offset)
        PyBuffer_Release(cython.address(view))
        check(failure)

    def write_here(self, offset, data, size):
        return check(write_at(self.fd, data, size, offset))

    def zero(self, start: int64_t, end: int64_t) -> None:
        failure: cython.int
        with cython.nogil:
            failure = fill(self.fd, start, end)
        check(failure)

    def sync(self) -> None:
        failure: cython.int
        with cython.nogil:
            failure = sync_fd(self.fd, False)
        check(failure)

    def sync_here(self):
        return check(sync_fd(self.fd, False))

    def close(self) -> None:
        os.close(self.fd)


def check(failure):
    """Raise OSError for an errno that is not 0."""
    if failure:
        raise OSError(failure, os.strerror(failure))
    return 0
