"""Segments written in one go, by salvage and takeover: nobody reads them before all are on disk.

Each is synced when it is full, before it gets the name under which a server finds it, and says so in its end.
"""

from beanpole.engine.engine import Engine
from beanpole.log.accounts import Accounts
from beanpole.log.compaction import write_all
from beanpole.log.encoder import Encoder
from beanpole.log.files.disk import DiskDirectory
from beanpole.log.files.diskfile import File
from beanpole.log.files.names import segment_name


class BulkWriter:
    """Writes what its encoder is given into one new file after the other; the disk says when it is full."""

    def __init__(  # noqa: PLR0913 - what a header says, and where the files go
        self,
        directory: DiskDirectory,
        prefix: str,
        first_number: int,
        *,
        next_job_id: int,
        shard: tuple[int, ...] = (),
        clock: tuple[int, int],
        segment_bytes: int,
    ) -> None:
        self.directory = directory
        self.prefix = prefix
        self.names: list[str] = []
        self.records = Encoder(Accounts(segment_bytes))
        self.records.clock = clock
        self.records.next_job_id, self.records.shard = next_job_id, shard
        self.records.open_segment(first_number, segment_bytes)
        self.file = self.create(first_number)

    def create(self, number: int) -> File:
        """Begin a file."""
        file = self.directory.create(segment_name(number, self.prefix), 0)
        self.names.append(file.name)
        return file

    def flush(self) -> None:
        """Write what is in the encoder's buffer; a segment that ends in it is on disk when this returns."""
        while True:
            place, next_bytes = self.records.write_to(self.file.write)
            if not next_bytes:
                break
            self.file.sync()
            self.file.close()
            self.file = self.create(place.segment + 1)

    def write_all(self, engine: Engine) -> None:
        """Write all that an engine holds, and end the last segment."""
        write_all(engine, self.records, self.flush)
        self.seal()

    def seal(self) -> None:
        """End the last segment, and say in it that it was durable: whatever is wrong in it later is damage."""
        self.records.turn(self.records.segment, self.records.used_bytes)
        self.records.end_segment()
        self.flush()
        self.file.sync()
        self.file.close()
