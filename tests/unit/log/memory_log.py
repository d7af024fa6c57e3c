"""A log whose home is a store in memory, which several processes share and one of them writes: a cluster's, in small.

What a turn wrote is one row, or several where segments end in it. One append is in flight at a time; the test says when
it is confirmed, whether it fails, and whether another process wrote first. A reservation is a record too, and its reply
waits for it. A process follows by replaying the rows that it has not read yet, and leads with what it has read.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

from beanpole.engine.engine import Engine
from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.log.format import VERSION
from beanpole.log.log import Log, Progress, Recovery
from beanpole.log.replay import Replay

SEGMENT_BYTES = 4096


@dataclass(slots=True)
class Store:
    """The rows, in order: each its segment's number and bytes."""

    rows: list[tuple[int, bytes]] = field(default_factory=list)
    epoch: int = 0
    """Counts those who led; the last one may append."""


class MemoryLog(Log):
    """The log of one process."""

    durable_index = 0
    records: Encoder

    def __init__(self, store: Store, salt: int, now_ns: Callable[[], int]) -> None:
        self.store = store
        self.now_ns = now_ns
        self.records = Encoder(Accounts(SEGMENT_BYTES), salt, wants_reservations=True)
        for _ in range(1000):  # the store has space for whatever a test writes
            self.records.accounts.add_spare(SEGMENT_BYTES)
            self.records.accounts.add_spare(10 * SEGMENT_BYTES)
        self.in_flight: list[tuple[int, bytes]] = []
        self.in_flight_index = 0
        self.append_count = 0
        self.failure: OSError | None = None
        self.read_count = 0
        self.used_bytes = 0
        self.segment = 0
        self.error_of_next: OSError | None = None

    # --- what the server calls ----------------------------------------------------------------------------------------

    def follow(self, engine: Engine) -> None:
        """Begin to follow, with an engine that is empty."""
        self.replay = Replay(engine, self.records)

    def recover(self, engine: Engine, progress: Progress = lambda _what, _done, _total: None) -> Recovery:
        """Read what is left to read, and lead."""
        if not hasattr(self, "replay"):
            self.follow(engine)
        progress("recovering", self.read_rows(), len(self.store.rows))
        self.records.next_job_id = engine.next_job_id
        return Recovery(record_count=self.replay.record_count, clock_offset_ns=self.replay.finish(0))

    def start(self, on_durable: Callable[[], None], on_failure: Callable[[OSError], None]) -> None:
        """Take the lead: from here on no other process may append."""
        self.on_durable = on_durable
        self.on_failure = on_failure
        self.store.epoch += 1
        self.epoch = self.store.epoch
        salt = self.replay.salt
        self.records.open_segment(max(self.segment, 1), SEGMENT_BYTES, self.used_bytes, salt)

    def append(self) -> None:
        """Send the records, unless an append is in flight: then they are the next one."""
        if self.failure is not None:
            return
        if self.error_of_next is not None:
            self.failure = self.error_of_next
            raise self.error_of_next
        if self.in_flight or self.records.index == self.in_flight_index:
            return
        self.append_count += 1
        self.records.clock = (self.now_ns(), 0)
        self.records.turn(self.records.segment, 0)
        next_bytes = 1
        while next_bytes:
            pieces: list[bytes] = []
            place, next_bytes = self.records.write_to(lambda _at, data, into=pieces: into.append(bytes(data)))  # type: ignore[misc]
            self.in_flight.append((place.segment, b"".join(pieces)))
        self.in_flight_index = place.record

    def close(self) -> None:
        """Wait for the append in flight and send the rest."""
        while self.failure is None and (self.in_flight or self.records.unwritten_bytes):
            self.append()
            self.confirm()

    def facts(self) -> dict[str, str]:
        """Return what kind of log it is."""
        return {"durability": "cluster"}

    # --- what the store answers ---------------------------------------------------------------------------------------

    def confirm(self) -> None:
        """The append in flight is confirmed; if another process took the lead first, it is lost."""
        if self.epoch != self.store.epoch:
            self.fail(OSError(errno.ESTALE, "another node leads"))
            return
        self.store.rows += self.in_flight
        self.in_flight = []
        self.durable_index = self.in_flight_index
        self.append()
        self.on_durable()

    def fail(self, error: OSError) -> None:
        """The append in flight fails, and with it everything."""
        self.failure = error
        self.on_failure(error)

    # --- following ----------------------------------------------------------------------------------------------------

    def read_rows(self) -> int:
        """Apply the rows that are new, by the replay that a start uses; return how many rows were read so far."""
        for segment, data in self.store.rows[self.read_count :]:
            if segment != self.segment:
                self.segment, self.used_bytes = segment, 0
                self.replay.segment(data, segment)
            else:
                self.replay.resume(data, segment, VERSION, 0)
            assert self.replay.good_bytes == len(data), self.replay.problem
            self.used_bytes += len(data)
            self.read_count += 1
        return self.read_count
