"""The log in files.

:class:`FileLog` writes a turn's records with one write, and syncs in a thread, one sync at a time: while one is under
way, turns go on, and all that they wrote is made durable by the next (group commit). Segments are filled one after the
other; the one to be filled next is prepared in the background, so that a full one costs a rename. Compaction stands in
:mod:`beanpole.log.compaction`, what happens when the disk is full in :mod:`beanpole.log.files.room`.

Invariants:

- A segment is sealed (it ends with an END record), and that is durable, before the next one has a name or a byte.
- What is durable is a prefix of what was written: files are synced in the order in which they were written.
- A segment is removed only when everything that lived in it is durable elsewhere, and one removal is certain before the
  next begins.
- After a failed write or sync nothing is written, synced or promised any more.
"""

from collections.abc import Callable

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode, StartError
from beanpole.log import limits
from beanpole.log.clock import Clock
from beanpole.log.compaction import Compaction
from beanpole.log.encoder import Encoder
from beanpole.log.files.disk import Directory, File
from beanpole.log.files.names import segment_name
from beanpole.log.files.room import Room
from beanpole.log.files.runner import Runner
from beanpole.log.files.spares import NO_SPACE, Spares, create_largest
from beanpole.log.format import DELETED_RECORD
from beanpole.log.log import Observer, Policy, Position, Segment


class FileLog:
    """A log in a directory of files."""

    def __init__(  # noqa: PLR0913 - everything replaceable is an argument
        self,
        directory: Directory,
        engine: Engine,
        records: Encoder,
        sealed: list[Segment],
        *,
        runner: Runner,
        clock: Callable[[], Clock],
        observer: Observer,
        policy: Policy,
        segment_bytes: int = limits.SEGMENT_BYTES_DEFAULT,
    ) -> None:
        self.directory = directory
        self.engine = engine
        self.records = records
        self.sealed = sealed
        self.sealed_bytes = sum(each.used_bytes for each in sealed)
        self.runner = runner
        self.clock = clock
        self.observer = observer
        self.policy = policy
        self.segment_bytes = segment_bytes
        self.on_durable: Callable[[], None] = lambda: None
        self.on_failure: Callable[[OSError], None] = lambda _: None
        self.spares = Spares(directory, records, segment_bytes)
        self.room = Room(self)
        self.unsynced: list[File | Directory] = []
        self.unsealed: File | None = None
        self.sealing: File | None = None
        self.rolling = False
        self.written_bytes = 0
        self.told_lead_ns = 0
        self.written = self.synced = Position(records.index, 0, 0)
        self.syncing: Position | None = None
        self.failure: OSError | None = None
        self.closed = False
        self.compaction = Compaction(self)
        records.set_space(self.room)
        records.kept_free_bytes = segment_bytes // 2
        self.file = self.open_first(max((each.number for each in sealed), default=0) + 1)

    def open_first(self, number: int) -> File:
        """Begin this process's first segment.

        Raises:
            StartError: there is no space for it.
        """
        least = 2 * limits.SEGMENT_OVERHEAD_BYTES + self.records.live_count * DELETED_RECORD
        try:
            usual = max(self.segment_bytes, least)
            file, capacity = create_largest(self.directory.prepare, segment_name(number), usual, least)
            self.records.open_segment(number, capacity, self.engine.next_job_id, self.told_clock())
            self.file = file
            self.write()
            file.sync()
            self.directory.sync()
        except OSError as error:
            needed = f"; it takes {least} bytes, so that every job can be deleted" if error.errno in NO_SPACE else ""
            raise StartError(f"cannot begin a segment of the log: {error.strerror}{needed}", ExitCode.FAILED) from error
        self.written = self.synced = Position(self.records.index, number, self.records.used_bytes)
        return file

    def start(self) -> None:
        """Begin what happens by itself: syncs by time and the preparation of the next segment."""
        self.room.begin()
        self.append()
        if self.policy.interval_ms:
            self.runner.later(self.policy.interval_ms / 1000, self.sync_by_time)
        self.runner.later(limits.CLOCK_CHECK_MS / 1000, self.check_clock)

    def check_clock(self) -> None:
        """Write the time if somebody has set the wall clock since it was written, and ask again in a while."""
        if not self.ended:
            if abs(self.clock()[1] - self.told_lead_ns) > limits.CLOCK_SET_NS:
                self.append(telling_time=True)
            self.runner.later(limits.CLOCK_CHECK_MS / 1000, self.check_clock)

    def tell_time(self) -> None:
        """Write the end of a turn, unless space is short."""
        if self.records.room_for_turn():
            self.records.turn(self.told_clock(), self.synced.segment, self.synced.used_bytes)

    def told_clock(self) -> Clock:
        """Return the clock, to write it."""
        clock = self.clock()
        self.told_lead_ns = clock[1]
        return clock

    # --- persist ------------------------------------------------------------------------------------------------------

    @property
    def durable_index(self) -> int:
        """The last record that the policy lets replies depend on."""
        return self.synced.record if self.policy.always else self.written.record

    def append(self, *, telling_time: bool = False) -> None:
        """Write the records since the last call, and move some of what compaction moves; tell the time if asked to."""
        if self.ended:
            return
        try:
            if self.records.stale_pauses:
                self.records.tell_stale_pauses()
            if self.unsealed is None:
                self.compaction.step(self.written_bytes + self.records.size)
            if self.unsealed is None and (self.records.size or telling_time):
                self.tell_time()
            if self.unsealed is None:
                self.write()
            self.room.prepare_spare()
        except OSError as error:
            self.fail(error)
            raise
        if self.policy.always or self.unsealed is not None or self.compaction.wants_sync:
            if self.may_sync_here():
                self.sync_here()
            else:
                self.start_sync()

    def write(self) -> None:
        """Write the encoder's buffer to the current file."""
        data = self.records.take()
        if data:
            self.file.write(self.records.used_bytes - len(data), data)
            self.written_bytes += len(data)
            self.records.give_back()
        self.written = Position(self.records.index, self.records.segment, self.records.used_bytes)

    def start_sync(self) -> None:
        """Sync what is written, unless a sync is under way: then the next one does."""
        if self.syncing is not None or self.written == self.synced or self.failure is not None:
            return
        self.syncing = self.written
        self.sealing = self.unsealed
        files, self.unsynced = [*self.unsynced, self.unsealed or self.file], []
        self.runner.sync(files, self.sync_done)

    def may_sync_here(self) -> bool:
        """Whether the loop itself may sync: for the only client, which waits for it, and not for much."""
        return (
            self.engine.session_count == 1
            and self.policy.always
            and self.syncing is None
            and self.unsealed is None
            and not self.unsynced
            and 0 < self.written.used_bytes - self.synced.used_bytes <= limits.SYNC_HERE_BYTES
        )

    def sync_here(self) -> None:
        """Sync without the thread: waking it, and the loop again, takes as long as a fast disk."""
        try:
            self.file.sync()
        except OSError as error:
            self.fail(error)
            raise
        self.synced = self.written
        self.compaction.synced()

    def sync_done(self, error: OSError | None) -> None:
        """Go on when a sync is done: what it made durable may be answered."""
        if error is not None:
            self.fail(error)
            return
        assert self.syncing is not None, "a sync is done that was not begun"
        self.synced, self.syncing = self.syncing, None
        if self.sealing is not None:
            self.begin_segment()
        if self.rolling:
            self.runner.soon(self.on_durable)
            return
        self.append()
        self.compaction.synced()
        self.on_durable()

    def sync_by_time(self) -> None:
        """Sync what is written, and again in a while."""
        if not self.ended and self.policy.interval_ms:
            self.start_sync()
            self.runner.later(self.policy.interval_ms / 1000, self.sync_by_time)

    @property
    def ended(self) -> bool:
        """Whether nothing is written any more."""
        return self.failure is not None or self.closed

    def fail(self, error: OSError) -> None:
        """Stop for good: the system may have dropped what was not synced, so trying again would prove nothing."""
        if self.failure is None:
            self.failure = error
            self.on_failure(error)

    # --- segments -----------------------------------------------------------------------------------------------------

    def roll(self, size: int) -> None:
        """Seal the segment and begin the next, which must take a record of `size` bytes. The encoder calls this.

        The next file gets its name and its first byte when the end of this one is durable (:meth:`begin_segment`): so
        a segment that another follows is complete, whatever a crash leaves. Until then records stay in the buffer.
        """
        if self.failure is not None:
            raise self.failure
        was_rolling, self.rolling = self.rolling, True
        try:
            self.wait_for_seal()
            self.records.end_segment(self.engine.next_job_id)
            self.write()
            self.sealed.append(Segment(self.records.segment, self.records.used_bytes))
            self.sealed_bytes += self.records.used_bytes
            self.unsealed = self.file
            self.file, capacity = self.spares.take(size)
            number = self.records.segment + 1
            self.records.open_segment(number, capacity, self.engine.next_job_id, self.told_clock())
        except OSError as error:
            self.fail(error)
            raise
        finally:
            self.rolling = was_rolling

    def wait_for_seal(self) -> None:
        """Wait until the segment that was sealed last is durable: only one can be pending."""
        while self.unsealed is not None:
            self.start_sync()
            self.runner.wait_for_sync()
            if self.failure is not None:
                raise self.failure

    def begin_segment(self) -> None:
        """Give the current file its name, and write what is buffered for it: the segment before is durable."""
        assert self.sealing is not None, "a segment begins, but none was sealed"
        try:
            # Not before its END is durable: a segment that is shorter than its header says, and has no end, was cut.
            self.sealing.truncate(self.sealed[-1].used_bytes)
            self.sealing.close()
            name = segment_name(self.records.segment)
            self.directory.rename(self.file.name, name)
            self.file.name = name
            self.unsynced.append(self.directory)
            self.unsealed = self.sealing = None
            self.write()
        except OSError as error:
            self.fail(error)

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable, seal the segment and let go of the files. After a failure: only let go.

        Raises:
            OSError: the last write or sync failed.
        """
        if not self.ended:
            self.rolling = True
            self.append()
            while self.syncing is not None or self.unsealed is not None:
                self.start_sync()
                self.runner.wait_for_sync()
                if self.failure is not None:
                    raise self.failure
            self.closed = True
            if self.records.used_bytes + limits.SEGMENT_OVERHEAD_BYTES <= self.records.segment_bytes:
                # So that a start can tell damage in the last turn from what a crash leaves: it was durable.
                self.tell_time()
            self.records.end_segment(self.engine.next_job_id)
            self.write()
            for each in [*self.unsynced, self.file]:
                each.sync()
            self.file.truncate(self.records.used_bytes)
            self.synced = self.written
            self.spares.delete_all()
        self.closed = True
        self.file.close()

    def facts(self) -> dict[str, str]:
        """Return what ``stats`` tells of the log, by key."""
        return {
            "binlog-oldest-index": str(self.sealed[0].number if self.sealed else self.records.segment),
            "binlog-current-index": str(self.records.segment),
            "binlog-records-migrated": str(self.compaction.moved_count),
            "binlog-records-written": str(self.records.record_count),
            "binlog-max-size": str(self.segment_bytes),
            "durability": str(self.policy),
        }
