"""The segment pool: files of zeros, with their space allocated on disk, each to become a segment.

A spare is made under the name ``spare.N.unfinished``, and renamed to ``spare.N`` when every byte of it is zero for
certain. Spares stay over a stop and a kill: the space that the log relies on is never handed back to a full disk. On a
full disk the file of a segment that is no longer needed becomes a spare again; else it is removed, so that a program
that has it open, as ``wal check`` beside a server has, sees no change.

What is in the pool is booked in the accounts (:mod:`beanpole.log.accounts`).
"""

import errno

from beanpole.log.accounts import Accounts
from beanpole.log.files.disk import Directory
from beanpole.log.files.diskfile import File
from beanpole.log.files.names import is_spare, spare_name, spare_number, unfinished_name

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when there is no space: not a failure, but a reason to refuse puts."""


class Pool:
    """The spare segments of a log."""

    def __init__(self, directory: Directory, accounts: Accounts) -> None:
        self.directory = directory
        self.accounts = accounts
        self.files: list[tuple[int, File]] = []
        """Each with its size, the smallest first."""

        self.named_count = 0

    @property
    def total_bytes(self) -> int:
        return sum(size for size, _ in self.files)

    def recover(self) -> None:
        """Keep the spares that a start finds and the log can use; remove the others."""
        names = sorted(filter(is_spare, self.directory.names()), key=lambda name: spare_number(name) or 0)
        for name in names:
            number = spare_number(name) or 0
            self.named_count = max(self.named_count, number)
            size = self.directory.size(name)
            if size != self.accounts.segment_bytes and size < (self.accounts.wants_large() or size + 1):
                self.directory.unlink(name)
                continue
            unfinished = unfinished_name(number)
            # A spare may have become a segment, written to, whose name did not reach the disk.
            is_clean = name != unfinished and self.directory.read(name) == bytes(size)
            if not is_clean and name != unfinished:
                # Were we killed now, the next start would read zeros, which the disk may not have yet.
                self.directory.rename(name, unfinished)
            file = self.directory.open(name if is_clean else unfinished)
            if not is_clean:
                file.zero(0, size)
                self.finish(file, number)
            self.add(size, file)

    def add(self, size: int, file: File) -> None:
        """Put a file into the pool, and book it."""
        self.accounts.add_spare(size)
        self.put(size, file)

    def put(self, size: int, file: File) -> None:
        """Put a file into the pool that is booked already."""
        self.files.append((size, file))
        self.files.sort(key=lambda each: each[0])

    def take(self, size: int) -> tuple[int, File] | None:
        """Take a file of `size` bytes, or a larger one for a large job, out of the pool; None: there is none.

        That it is begun was booked by the encoder.
        """
        for each in self.files:
            if each[0] == size or (each[0] > size > self.accounts.segment_bytes):
                self.files.remove(each)
                return each
        return None

    def next_number(self) -> int:
        """Return a number that no spare has."""
        self.named_count += 1
        return self.named_count

    # --- what takes long, and runs in the background where it can -----------------------------------------------------

    def create(self, size: int, *, fast: bool = False) -> File:
        """Make a spare: space for it, and, unless a client waits, zeros, although the file system would make them up.

        The first write to space that is only allocated changes the file's metadata too, and a sync then waits for the
        file system's journal.

        Raises:
            OSError: ENOSPC and its like (:data:`NO_SPACE`), leaving nothing, or another when the disk fails.
        """
        number = self.next_number()
        file = self.directory.create(unfinished_name(number), size)
        try:
            if not fast:
                file.zero(0, size)
        except OSError:
            file.close()
            self.directory.unlink(file.name)
            raise
        return self.finish(file, number)

    def reuse(self, name: str, size: int) -> File:
        """Make a spare of a segment in which nothing lives; it is gone for certain before its bytes are."""
        number = self.next_number()
        self.directory.rename(name, unfinished_name(number))
        self.directory.sync()
        file = self.directory.open(unfinished_name(number))
        file.zero(0, size)
        return self.finish(file, number)

    def finish(self, file: File, number: int) -> File:
        """Give a spare its name, for certain: were it still to be called otherwise, it could be taken for two files."""
        self.directory.rename(file.name, spare_name(number))
        self.directory.sync()
        file.name = spare_name(number)
        return file

    def close(self) -> None:
        """Close the files, which stay."""
        for _, file in self.files:
            file.close()
        self.files = []
