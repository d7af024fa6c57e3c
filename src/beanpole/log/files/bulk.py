"""Segments written in one go, by salvage and takeover: nobody reads them before all are on disk.

Each is synced when it is full, before it gets the name under which a server finds it, and says so in its end.
"""

from collections.abc import Callable

from beanpole.log import limits
from beanpole.log.clock import Clock
from beanpole.log.encoder import Encoder
from beanpole.log.files.disk import DiskDirectory, File


class BulkWriter:
    """Writes segments one after the other; the space of its encoder, which is never short: the disk says when it is."""

    def __init__(  # noqa: PLR0913 - what a header says, and where the files go
        self,
        directory: DiskDirectory,
        name_of: Callable[[int], str],
        first_number: int,
        *,
        next_job_id: int,
        clock: Clock,
        segment_bytes: int,
    ) -> None:
        self.directory = directory
        self.name_of = name_of
        self.next_job_id = next_job_id
        self.clock = clock
        self.segment_bytes = segment_bytes
        self.names: list[str] = []
        self.records = Encoder(self)
        self.file = self.open_segment(first_number, segment_bytes)

    def open_segment(self, number: int, size: int) -> File:
        """Begin a segment."""
        name = self.name_of(number)
        file = self.directory.create(name, 0)
        self.names.append(name)
        self.records.open_segment(number, size, self.next_job_id, self.clock)
        return file

    def flush(self) -> None:
        """Write what is in the encoder's buffer."""
        data = self.records.take()
        self.file.write(self.records.used_bytes - len(data), data)

    def seal(self) -> None:
        """End a segment for good: it is on disk when this returns."""
        self.records.end_durable_segment(self.next_job_id, self.clock)
        self.flush()
        self.file.sync()
        self.file.close()

    def roll(self, size: int) -> None:
        """Go on in another segment, which takes `size` bytes. The encoder calls this when the record does not fit."""
        self.seal()
        capacity = max(self.segment_bytes, size + limits.SEGMENT_OVERHEAD_BYTES)
        self.file = self.open_segment(self.records.segment + 1, capacity)

    def make_room(self, _size: int, _rest: int) -> bool:
        """Return that there is room."""
        return True

    def make_room_to_move(self, _size: int) -> bool:
        """Return that there is room."""
        return True

    def take_part(self) -> bool:
        """Return that nothing is left: nobody asks, as nothing is changed here."""
        return False
