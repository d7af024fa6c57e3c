"""The files that the log goes on in: empty, with their space allocated on disk, each for one segment.

What records they can take is part of the room that the encoder promises, so it is counted here and nowhere else.
"""

import errno
from collections.abc import Callable
from operator import itemgetter

from beanpole.log import limits
from beanpole.log.encoder import Encoder
from beanpole.log.files.disk import Directory, File
from beanpole.log.files.names import spare_name

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when there is no space: not a failure, but a reason to refuse puts."""

LEAST_PART = 32
"""A segment of this part of the usual size is worth having where the disk has no space for more."""


def create_largest(create: Callable[[str, int], File], name: str, size: int, least: int) -> tuple[File, int]:
    """Create a file of `size` bytes, or of a half, a quarter ... down to `least`; return its size too.

    How much a disk still takes is known to nobody before it is asked.

    Raises:
        OSError: there is no space for `least` bytes, or the disk fails.
    """
    while True:
        try:
            return create(name, size), size
        except OSError as error:
            if error.errno not in NO_SPACE or size == least:
                raise
        size = max(size // 2, least)


class Spares:
    """Files that wait to become a segment, and how many bytes each of them takes."""

    def __init__(self, directory: Directory, records: Encoder, segment_bytes: int) -> None:
        self.directory = directory
        self.records = records
        self.segment_bytes = segment_bytes
        self.files: list[tuple[File, int]] = []
        self.named_count = 0
        self.joined: tuple[int, list[tuple[File, int]]] = 0, []
        """For a record of which size parts were joined last, and what there was then."""

    def next_name(self) -> str:
        """Return a name that no spare had."""
        self.named_count += 1
        return spare_name(self.named_count)

    def fit(self, size: int) -> bool:
        """Whether a record of `size` bytes fits into one of them."""
        return any(capacity >= size + limits.SEGMENT_OVERHEAD_BYTES for _, capacity in self.files)

    def prepare(self) -> None:
        """Create a whole one with all that makes it fast. Raise OSError(ENOSPC) when there is no space."""
        self.add(self.directory.prepare(self.next_name(), self.segment_bytes), self.segment_bytes)

    def create(self, size: int) -> None:
        """Create a whole one that takes a record of `size` bytes. Raise OSError(ENOSPC) when there is no space."""
        capacity = max(self.segment_bytes, size + limits.SEGMENT_OVERHEAD_BYTES)
        self.add(self.directory.create(self.next_name(), capacity), capacity)

    def create_part(self, size: int) -> bool:
        """Create one that takes a record of `size` bytes of what the disk has left; return whether there was enough.

        Raises:
            OSError: the disk fails.
        """
        needed = max(size + limits.SEGMENT_OVERHEAD_BYTES, self.segment_bytes // LEAST_PART)
        try:
            # A disk that has nothing takes long to say so to each size, and the least is what it is asked most often.
            self.discard(self.directory.create(self.next_name(), needed))
            self.add(*create_largest(self.directory.create, self.next_name(), max(self.segment_bytes, needed), needed))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return False
        return True

    def join_parts(self, size: int, kept: int) -> None:
        """Make one that takes a record of `size` bytes out of those that are smaller, or than a segment, if possible.

        For a moment their space is anybody's, so `kept` bytes must be free without them. Once is enough, until there
        are others.
        """
        if size <= self.joined[0] and self.files == self.joined[1]:
            return
        wanted = max(self.segment_bytes, size + limits.SEGMENT_OVERHEAD_BYTES)
        parts = [each for each in self.files if each[1] < wanted]
        part_bytes = sum(capacity - limits.SEGMENT_OVERHEAD_BYTES for _, capacity in parts)
        if not parts or self.records.rest_behind(0) - part_bytes < kept:
            return
        before = self.records.spare_bytes
        for each in parts:
            self.delete(each)
        self.create_part(size)
        while self.records.spare_bytes < before and self.create_part(0):
            pass
        self.joined = size, list(self.files)

    def delete(self, spare: tuple[File, int]) -> None:
        """Let one go for good."""
        self.forget(spare)
        self.discard(spare[0])

    def discard(self, file: File) -> None:
        """Remove a file that does not count."""
        file.close()
        self.directory.unlink(file.name)

    def add(self, file: File, capacity: int) -> None:
        """Count a file that was created."""
        self.files.append((file, capacity))
        self.records.spare_bytes += capacity - limits.SEGMENT_OVERHEAD_BYTES

    def forget(self, spare: tuple[File, int]) -> None:
        """Count a file no more."""
        self.files.remove(spare)
        self.records.spare_bytes -= spare[1] - limits.SEGMENT_OVERHEAD_BYTES

    def take(self, size: int) -> tuple[File, int]:
        """Return the smallest that takes a record of `size` bytes, or a new one, and how many bytes it takes.

        Raises:
            OSError: there is none, and none can be created, not even a small one.
        """
        if not self.fit(size):
            try:
                self.create(size)
            except OSError as error:
                if error.errno not in NO_SPACE or not self.create_part(size):
                    raise
        needed = size + limits.SEGMENT_OVERHEAD_BYTES
        spare = min((each for each in self.files if each[1] >= needed), key=itemgetter(1))
        self.forget(spare)
        return spare

    def delete_all(self) -> None:
        """Let all go for good."""
        for each in list(self.files):
            self.delete(each)
