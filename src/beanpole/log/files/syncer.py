"""What waits for the disk without Python's lock, so that it and a turn never wait for each other.

A thread syncs. One list of descriptors is under way at a time. The loop sets it with :meth:`Syncer.start`; when
:meth:`Syncer.fileno` is readable, :meth:`Syncer.is_done` says so once, and :meth:`Syncer.error` how it went. How long
that took is measured in the thread, for a busy loop hears of it late.
"""

import os
import threading

import cython
from cython.cimports.beanpole.posix import monotonic_ns
from cython.cimports.libc.errno import EINTR, EIO
from cython.cimports.libc.errno import errno as last_error
from cython.cimports.libc.stdint import int64_t, uint64_t
from cython.cimports.libc.string import memset

ZEROS_PER_SYNC = cython.declare(int64_t, 1_048_576)


@cython.cclass
class Syncer:
    """A thread that calls ``fdatasync`` on what it is given. The fields stand in ``syncer.pxd``."""

    def __cinit__(self):
        self.start_fd = eventfd(0, EFD_CLOEXEC)
        self.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
        if self.start_fd < 0 or self.done_fd < 0:
            raise OSError(last_error, "cannot create an event descriptor")
        self.thread = threading.Thread(target=self.run, name="sync", daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Sync until stopped: the thread's body."""
        with cython.nogil:
            self.loop()

    def loop(self):
        """Wait for targets, sync them in order, report."""
        count: uint64_t = 0
        i: cython.int
        while True:
            if read(self.start_fd, cython.address(count), 8) != 8:
                continue
            if self.stopping:
                return
            self.failure = 0
            self.took_ns = -monotonic_ns()
            for i in range(self.target_count):
                self.failure = sync_fd(self.targets[i], self.whole[i])
                if self.failure:
                    break
            self.took_ns += monotonic_ns()
            count = 1
            write(self.done_fd, cython.address(count), 8)

    def fileno(self) -> int:
        """Return the descriptor that is readable when a sync is done."""
        return self.done_fd

    def start(self, descriptors: list[tuple[int, bool]]) -> None:
        """Sync some descriptors in order, each with whether its metadata counts; none may be under way."""
        assert len(descriptors) <= TARGETS_MAX, f"{len(descriptors)} files are to be synced at once"
        count: uint64_t = 1
        self.target_count = 0
        for fd, whole in descriptors:
            self.targets[self.target_count] = fd
            self.whole[self.target_count] = whole
            self.target_count += 1
        write(self.start_fd, cython.address(count), 8)

    def is_done(self) -> bool:
        """Return whether a sync has ended since the last call."""
        count: uint64_t = 0
        return read(self.done_fd, cython.address(count), 8) == 8

    def error(self) -> OSError | None:
        """Return the OSError that the sync ended with, or None."""
        return OSError(self.failure, os.strerror(self.failure)) if self.failure else None

    def duration_ns(self) -> int:
        """Return how long the sync took, in nanoseconds."""
        return self.took_ns

    def stop(self) -> None:
        """End the thread. No sync may be under way."""
        count: uint64_t = 1
        self.stopping = True
        write(self.start_fd, cython.address(count), 8)
        self.thread.join()
        close(self.start_fd)
        close(self.done_fd)


def fill(fd, start, end):
    """Write zeros to a file from `start` to `end`, and sync all of it; return the errno, or 0.

    They are synced in pieces, so that a sync of another file waits for one of them at most. They are written in pieces
    of 16 KiB: Linux keeps what is written at once as one folio, counts all of it as written when a byte of it is, and
    takes longer to write to many small ones.
    """
    zeros: cython.char[16384]
    at: int64_t = start
    synced: int64_t = start
    size: int64_t
    failure: cython.int
    memset(zeros, 0, cython.sizeof(zeros))
    while at < end:
        size = min(end - at, cython.cast(int64_t, cython.sizeof(zeros)))
        failure = write_at(fd, zeros, size, at)
        if failure:
            return failure
        at += size
        if at - synced >= ZEROS_PER_SYNC:
            synced = at
            failure = sync_fd(fd, False)
            if failure:
                return failure
    return sync_fd(fd, False)


def write_at(fd, data, size, at):
    """Write all of some bytes into a file at an offset; return the errno, or 0."""
    written: cython.Py_ssize_t
    while size > 0:
        written = pwrite(fd, data, size, at)
        if written > 0:
            data += written
            size -= written
            at += written
        elif written == 0 or last_error != EINTR:
            return last_error if written < 0 else EIO
    return 0


def sync_fd(fd, whole):
    """Sync a file, with all of its metadata or only what its data needs; return the errno, or 0."""
    while (fsync(fd) if whole else fdatasync(fd)) < 0:
        if last_error != EINTR:
            return last_error
    return 0
