"""The log in files.

:class:`FileLog` writes a turn's records with one write, and syncs in a thread, one sync at a time: while one is under
way, turns go on, and all that they wrote is made durable by the next (group commit). Segments are filled one after the
other. Which files there are to go on in, :mod:`beanpole.log.files.pool` says; whether they suffice,
:mod:`beanpole.log.accounts`; what must move for a segment to go, :mod:`beanpole.log.compaction`. Their files are moved,
synced and removed here, and nothing of that while a command runs: commands only fill the encoder's buffer.

Invariants:

- A segment is sealed (it ends with an END record), and that is durable, before the next one has a name or a byte.
  Records of the next one stay in the encoder's buffer until then.
- What is durable is a prefix of what was written: files are synced in the order in which they were written.
- A segment is removed only when everything that lived in it is durable elsewhere, and one removal is certain before the
  next begins.
- After a failed write or sync nothing is written, synced or promised any more.
"""

import errno
from collections.abc import Callable
from functools import partial
from typing import Any

import cython
from cython.cimports.beanpole import posix
from cython.cimports.beanpole.engine.engine import Engine
from cython.cimports.beanpole.log.accounts import Accounts
from cython.cimports.beanpole.log.compaction import Compaction
from cython.cimports.beanpole.log.encoder import Encoder, Piece, Position
from cython.cimports.beanpole.log.files.diskfile import File
from cython.cimports.libc.stdint import int64_t

from beanpole.errors import ExitCode, StartError
from beanpole.log import limits
from beanpole.log.accounts import NEVER, NOTHING
from beanpole.log.files.disk import Directory
from beanpole.log.files.names import segment_name
from beanpole.log.files.pool import NO_SPACE, Pool
from beanpole.log.files.recovery import Recovered, recover
from beanpole.log.files.runner import Runner
from beanpole.log.files.segment import Segment, State
from beanpole.log.format import DELETED_RECORD, FIRST_RECORD, SEGMENT_HEADER, TURN_RECORD, Kind, number_record
from beanpole.log.log import Observer, Policy, Progress
from beanpole.log.reader import items_in

CLOCK_CHECK_MS = 5000
"""Milliseconds between two looks of a log whether somebody has set the wall clock."""

CLOCK_SET_NS = 1_000_000_000
"""Nanoseconds by which the wall clock must have been set for an idle log to take note of it."""

SYNC_HERE_BYTES = cython.declare(int64_t, 16_384)
"""Bytes that the loop may sync itself."""

SPACE_RETRY_MS = 250
"""Milliseconds between two questions to a full disk whether it has space again."""

PAUSE_NS = cython.declare(int64_t, limits.PAUSE_NS)
SHORT_SYNC_NS = cython.declare(int64_t, limits.SHORT_SYNC_NS)
SHORT_SYNCS = cython.declare(int64_t, limits.SHORT_SYNCS)


@cython.cclass
class FileLog:
    """A log in a directory of files. The fields stand in ``filelog.pxd``."""

    def __init__(
        self,
        directory: Directory,
        *,
        runner: Runner,
        observer: Observer,
        policy: Policy,
        now_ns: Callable[[], int] | None = None,
        wall_ns: Callable[[], int] | None = None,
        segment_bytes: int = limits.SEGMENT_BYTES_DEFAULT,
        salt: int | None = None,
    ) -> None:
        self.directory = directory
        self.runner = runner
        self.now_ns = now_ns
        self.wall_ns = wall_ns
        self.observer = observer
        self.policy = policy
        self.always = policy.always
        self.accounts = Accounts(segment_bytes)
        self.records = Encoder(self.accounts, salt)
        self.pool = Pool(directory, self.accounts)
        self.on_durable: Callable[[], None] = lambda: None
        self.on_failure: Callable[[OSError], None] = lambda _: None
        self.on_pause = lambda _what, _took_ns: None
        self.sealed: list[Segment] = []
        self.sealed_bytes = 0
        self.unsynced: list[File | Directory] = []
        self.written_lead_ns = 0
        self.written = self.synced = self.records.place()
        self.syncing = None
        self.previous: tuple[File, int] | None = None
        self.full_reason = ""
        self.preparing = self.scheduled = False
        self.failure: OSError | None = None
        self.closed = False

    # --- start --------------------------------------------------------------------------------------------------------

    def recover(self, engine: Engine, progress: Progress = lambda _what, _done, _total: None) -> Recovered:
        """Bring the jobs of the directory back into an empty engine, and make ready to write.

        Raises:
            StartError: the log is damaged, or there is no space for what a log must have.
            OSError: the disk can't be read.
        """
        now, wall = self.now(), self.wall()
        recovered = recover(self.directory, engine, self.records, now_ns=now, wall_ns=wall, progress=progress)
        self.log_clock = recovered.clock
        self.sealed = recovered.sealed
        self.sealed_bytes = sum(each.size for each in self.sealed)
        self.compaction = Compaction(engine, self.records)
        self.engine = engine
        self.records.clock = self.clock()
        try:
            self.pool.recover()
            if recovered.open is None:
                self.begin_first()
            else:
                self.open, self.file = recovered.open, recovered.file
                self.records.open_segment(self.open.number, self.open.size, recovered.used_bytes, recovered.salt)
            self.fill_pool()
            if recovered.open is not None:
                self.write_time()
        except OSError as error:
            raise StartError(f"cannot begin a segment of the log: {error.strerror}", ExitCode.FAILED) from error
        left = self.records.left()
        if not self.accounts.can_delete_all(left):
            needed = self.accounts.live_count * DELETED_RECORD - self.accounts.free_behind(left, 0)
            raise StartError(
                f"cannot begin the log: {self.full_reason}; it takes {needed} more bytes, so that every job can be "
                "deleted",
                ExitCode.FAILED,
            )
        self.written = self.synced = self.records.place()
        return recovered

    def begin_first(self) -> None:
        """Begin a segment, as there is none to go on in; it and its name are durable when this returns."""
        number = max((each.number for each in self.sealed), default=0) + 1
        size = self.accounts.segment_bytes
        if not self.accounts.spare_count:
            self.pool.add(size, self.pool.create(size))
        self.accounts.take_spare(size)
        self.records.open_segment(number, size)
        self.open = self.take_from_pool(number, size)
        self.write()
        self.file.sync()
        self.directory.sync()

    def write_time(self) -> None:
        """Make the time durable, as the header of a new segment does: it must not go back once clients were answered.

        On a full disk the room for it is that of moves, but never that of deletes.
        """
        accounts, left = self.accounts, self.records.left()
        if left >= TURN_RECORD and accounts.free_behind(left, TURN_RECORD) >= accounts.live_count * DELETED_RECORD:
            self.records.turn(self.open.number, self.records.used_bytes)
            self.written_lead_ns = self.records.clock[1]
            self.write()
            self.file.sync()

    def fill_pool(self) -> None:
        """Provide what will be needed soon, as far as there is space: nobody waits yet."""
        try:
            while size := self.accounts.wants_large():
                self.pool.add(size, self.pool.create(size))
            while self.accounts.wants_spare(self.records.left()):
                self.pool.add(self.accounts.segment_bytes, self.pool.create(self.accounts.segment_bytes))
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self.full_reason = error.strerror or str(error)

    def start(self, on_durable: Callable[[], None], on_failure: Callable[[OSError], None]) -> None:
        """Begin what happens by itself: syncs by time, compaction, and a look at the wall clock."""
        self.on_durable = on_durable
        self.on_failure = on_failure
        if self.full_reason:
            self.note_full(self.full_reason, 0)
        self.append()
        if self.policy.interval_ms:
            self.runner.later(self.policy.interval_ms / 1000, self.sync_by_time)
        self.runner.later(CLOCK_CHECK_MS / 1000, self.check_clock)

    # --- the clock ----------------------------------------------------------------------------------------------------

    def now(self):
        """Return the time on the monotonic clock."""
        return posix.monotonic_ns() if self.now_ns is None else cython.cast(int64_t, self.now_ns())

    def wall(self):
        """Return the time on the wall clock."""
        return posix.wall_ns() if self.wall_ns is None else cython.cast(int64_t, self.wall_ns())

    def clock(self):
        """Return the log's clock and the wall clock's lead."""
        return self.log_clock.read(self.now(), self.wall())

    def check_clock(self) -> None:
        """Write the time if somebody has set the wall clock since it was written, and ask again in a while."""
        if not self.is_ended():
            if abs(self.clock()[1] - self.written_lead_ns) > CLOCK_SET_NS:
                self.append_records(self.records.used_bytes > SEGMENT_HEADER)  # a new header says the time itself
            self.runner.later(CLOCK_CHECK_MS / 1000, self.check_clock)

    def write_turn(self):
        """Write the end of a turn, unless space is short."""
        self.records.clock = self.clock()
        if self.records.room_for_turn():
            self.records.turn(self.synced.segment, self.synced.used_bytes)
            self.written_lead_ns = self.records.clock[1]

    # --- persist ------------------------------------------------------------------------------------------------------

    @property
    def durable_index(self) -> int:
        """The last record that the policy lets replies depend on."""
        return self.durable()

    def durable(self):
        return self.synced.record if self.always else self.written.record

    def is_sealing(self):
        """Whether records must wait in memory, for the segment that is written is full and not yet durable."""
        return self.next_size > 0

    def append(self) -> None:
        """Write the records since the last call, and move some of what compaction moves."""
        self.append_records(False)

    def append_turn(self):
        return self.append_records(False)

    def append_records(self, with_time):
        """Do what :meth:`append` does, also without a record if the time is to be written."""
        if self.is_ended():
            return 0
        try:
            if self.records.stale_pauses:
                self.records.write_stale_pauses()
            if not self.is_sealing():
                self.compact()
                if with_time or self.records.buffer.size > self.records.taken:
                    self.write_turn()
                began_ns: int64_t = self.now()
                self.write()
                self.took("write", began_ns)
            if self.records.waits:
                self.make_room()
            self.prepare()
        except OSError as error:
            self.fail(error)
            raise
        # A turn that wrote nothing that a reply waits for needs no sync of its own: the next one makes it durable, too.
        is_awaited = self.always and (with_time or self.written.record != self.synced.record)
        if is_awaited or self.is_sealing() or self.compaction.emptied:
            if self.may_sync_here():
                self.sync_here()
            else:
                self.start_sync()

    def write(self):
        """Write the encoder's buffer, up to where the segment ends: what is behind waits until that is durable."""
        piece: Piece
        place: Position = self.records.piece(cython.address(piece))
        if piece.size:
            self.file.write_here(place.used_bytes - piece.size, piece.data, piece.size)
        self.records.end_piece(cython.address(piece))
        self.written, self.next_size = place, piece.next_bytes
        if self.next_size:
            self.open.advance("ended")

    def start_sync(self):
        """Sync what is written, unless a sync is under way: then the next one does."""
        if self.syncing is not None or self.written == self.synced or self.failure is not None:
            return 0
        self.syncing = self.written
        files, self.unsynced = [*self.unsynced, self.file], []
        self.runner.sync(files, self.sync_done)

    def may_sync_here(self):
        """Whether the loop itself may sync: for the only client, which waits for it, and not for much.

        Beside others it may for a single record, while the disk is fast: waking the thread and then the loop takes
        longer than such a sync, for which all wait. Never beside links from elsewhere, which end when a disk hangs.
        """
        is_lone: cython.bint = self.written.record == self.synced.record + 1
        return (
            (self.engine.session_count == 1 or (is_lone and self.short_syncs >= SHORT_SYNCS))
            and self.always
            and self.syncing is None
            and not self.link_count
            and not self.is_sealing()
            and not self.unsynced
            and 0 < self.written.used_bytes - self.synced.used_bytes <= SYNC_HERE_BYTES
        )

    def sync_here(self):
        """Sync without the thread: waking it, and the loop again, takes as long as a fast disk."""
        try:
            began_ns: int64_t = self.now()
            self.file.sync_here()
            took_ns: int64_t = self.took("sync", began_ns)
        except OSError as error:
            self.fail(error)
            raise
        self.count_sync(took_ns)
        self.synced = self.written
        self.remove_emptied()

    def sync_done(self, error: OSError | None, took_ns: int) -> None:
        """Go on when a sync is done: what it made durable may be answered."""
        if error is not None:
            self.fail(error)
            return
        assert self.syncing is not None, "a sync is done that was not begun"
        self.count_sync(took_ns)
        self.synced, self.syncing = self.syncing, None
        if self.previous is not None and self.synced.segment == self.open.number:
            self.name_next(*self.previous)
        self.remove_emptied()
        if self.is_sealing() and self.synced == self.written:
            self.begin_segment()
        self.append()
        self.on_durable()

    def count_sync(self, took_ns):
        """Count a sync for which replies may have waited."""
        self.engine.server_times.sync.add(took_ns // 1_000)
        self.short_syncs = self.short_syncs + 1 if took_ns < SHORT_SYNC_NS else 0
        return 0

    def took(self, what, began_ns):
        """Report for how long turns waited since `began_ns`, if they noticed it; return that."""
        took_ns: int64_t = self.now() - began_ns
        if took_ns >= PAUSE_NS:
            self.on_pause(what, took_ns)
        return took_ns

    def sync_by_time(self) -> None:
        """Sync what is written, and again in a while."""
        if not self.is_ended() and self.policy.interval_ms:
            self.start_sync()
            self.runner.later(self.policy.interval_ms / 1000, self.sync_by_time)

    def is_ended(self):
        """Whether nothing is written any more."""
        return self.failure is not None or self.closed

    def fail(self, error: OSError) -> None:
        """Stop for good: the system may have dropped what was not synced, so trying again would prove nothing."""
        if self.failure is None:
            self.failure = error
            self.on_failure(error)

    # --- segments -----------------------------------------------------------------------------------------------------

    def begin_segment(self) -> None:
        """Give the next segment its file: the one before is durable."""
        began_ns: int64_t = self.now()
        try:
            self.open.advance("synced")
            before = self.file, self.written.used_bytes
            self.sealed.append(self.open)
            self.sealed_bytes += self.open.size
            self.open = self.take_from_pool(self.open.number + 1, self.next_size)
            self.previous = before
            self.next_size = 0
            self.unsynced.append(self.directory)
        except OSError as error:
            self.fail(error)
        self.took("rolling", began_ns)

    def name_next(self, file: File, used_bytes: int) -> None:
        """Let the segment before say behind its END that the open one follows: its header and its name are durable.

        A start can then tell that the newest segment is missing. Nobody waits for this: a crash may take it back.
        """
        self.previous = None
        record = number_record(Kind.NEXT, self.open.number, self.records.salt)

        def write() -> None:
            file.write(used_bytes, record)
            file.sync()
            file.close()

        self.background(write)

    def background(self, work: Callable[[], Any], done: Callable[[Any], None] = lambda _: None) -> None:
        """Do what takes long in the background, and go on with what it returns; an OSError ends the log."""
        self.runner.background(work, lambda result: self.fail(result) if isinstance(result, OSError) else done(result))

    def take_from_pool(self, number: int, size: int) -> Segment:
        """Make a spare the segment `number`; one that is still being prepared or zeroed is waited for."""
        taken = self.pool.take(size)
        while taken is None:
            if not self.runner.finish_background():
                self.pool.put(size, self.pool.create(size, fast=True))
            taken = self.pool.take(size)
        segment = Segment(number, taken[0], State.SPARE)
        segment.advance("taken")
        file: File = taken[1]
        self.directory.rename(file.name, segment_name(number))
        file.name = segment_name(number)
        self.file = file
        return segment

    # --- room ---------------------------------------------------------------------------------------------------------

    def is_full(self):
        """Whether the disk has no space for another segment, and puts have no room."""
        return self.accounts.refused_from == 0

    def make_room(self) -> None:
        """Provide room for the puts that wait for it, or find that the disk has none; let what waits run again."""
        began_ns: int64_t = self.now()
        while missing := self.records.missing():
            if self.runner.finish_background():
                continue  # a segment was being prepared, or removed
            try:
                self.pool.add(missing, self.pool.create(missing, fast=True))
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                is_full = self.accounts.is_short(self.records.left())
                self.note_full(error.strerror or str(error), 0 if is_full else self.records.wanted_bytes)
        self.records.end_waiting()
        self.took("rolling", began_ns)

    def note_full(self, reason: str, refused_from: int) -> None:
        """Refuse puts, or those of large jobs alone, until the disk has space."""
        self.full_reason = reason
        self.accounts.refused_from = refused_from
        self.observer.log_full(reason)
        self.retry_later()

    def retry_later(self) -> None:
        """Ask the disk for space again in a while, and not before."""
        if not self.preparing:
            self.preparing = True
            self.runner.later(SPACE_RETRY_MS / 1000, self.retry)

    def retry(self) -> None:
        """Ask the disk for space again, and let puts of large jobs alone ask for themselves."""
        self.preparing = False
        if self.is_ended():
            return
        if self.is_full():
            self.observer.log_full(self.full_reason)
            self.prepare_segment()
            self.schedule()
        elif self.accounts.refused_from != NEVER:
            self.resume_puts()

    def prepare(self):
        """Prepare the next segment in the background when it will be needed: before puts need it, who wait for it."""
        if self.is_full() and not self.accounts.is_short(self.records.left()):
            self.resume_puts()
        if not (self.preparing or self.is_full()) and self.accounts.wants_spare(self.records.left()):
            self.prepare_segment()

    def prepare_segment(self) -> None:
        self.preparing = True
        self.runner.background(lambda: self.pool.create(self.accounts.segment_bytes), self.segment_prepared)

    def segment_prepared(self, file: File | OSError) -> None:
        """Take the segment that was prepared. No space is no failure: puts notice when they need it."""
        self.preparing = False
        if isinstance(file, OSError):
            if file.errno not in NO_SPACE:
                self.fail(file)
            elif not self.is_ended():
                if self.accounts.is_short(self.records.left()):
                    self.note_full(file.strerror or str(file), 0)
                self.retry_later()
            return
        self.pool.add(self.accounts.segment_bytes, file)
        if self.is_full() and self.accounts.is_short(self.records.left()) and not self.is_ended():
            self.prepare_segment()  # the disk has space again, and one segment is not enough
        self.schedule()

    def resume_puts(self) -> None:
        self.accounts.refused_from = NEVER
        self.observer.log_has_space()
        self.schedule()

    # --- compaction ---------------------------------------------------------------------------------------------------

    def compact(self):
        """Do some of what compaction has to do, and note if on a full disk there is nothing that it can do."""
        makes_room = self.compact_some()
        self.accounts.stuck_index = self.records.index if self.is_full() and not makes_room else NOTHING

    def compact_some(self):
        """Do that; return whether it came further, or will when the disk has done its part."""
        compaction = self.compaction
        full: cython.bint = self.is_full()
        if compaction.segment == 0 and compaction.is_due(self.sealed_bytes, full):
            if self.sealed:
                self.begin_compaction(self.sealed[0])
            elif (
                full
                and self.accounts.spare_count
                and self.accounts.can_move(0, self.accounts.live_in(self.open.number), gives_back=True)
            ):
                self.records.begin_segment(0)  # what is dead lies in the segment in use
                return True
        if compaction.segment == 0 or compaction.emptied:
            return compaction.emptied
        segment = self.sealed[0]
        comes_back = full and segment.size == self.accounts.segment_bytes
        if full and not self.can_move(segment, gives_back=comes_back):
            return False
        came_further = compaction.step(full)
        if self.compaction.emptied:
            segment.advance("moved")
            segment.comes_back = comes_back
            if comes_back:
                self.accounts.add_spare(segment.size)
        if came_further:
            self.schedule()
        return came_further

    def can_move(self, segment: Segment, *, gives_back: bool) -> bool:
        """Whether what is left of a segment can be moved in one go."""
        live_bytes = self.accounts.live_in(segment.number)
        left = self.records.left_for_jobs() if live_bytes else self.records.left()
        return self.accounts.can_move(left, live_bytes + FIRST_RECORD, gives_back=gives_back)

    def begin_compaction(self, segment: Segment) -> None:
        """Begin to empty a segment: find out which jobs it holds, on a full disk before changes use up the room."""
        name = segment_name(segment.number)
        if self.compaction.begin(segment.number):
            if self.is_full():
                self.compaction.set_ids(items_in(self.directory.read(name)))
            else:
                self.background(lambda: items_in(self.directory.read(name)), self.ids_read)

    def ids_read(self, ids: list[int | bytes]) -> None:
        self.compaction.set_ids(ids)
        self.schedule()

    def schedule(self) -> None:
        """Append again soon, although no client writes."""
        if not self.scheduled:
            self.scheduled = True
            self.runner.soon(self.append_scheduled)

    def append_scheduled(self) -> None:
        """Append what compaction moves."""
        self.scheduled = False
        if not self.is_ended():
            self.append()
            self.remove_emptied()

    def remove_emptied(self):
        """Remove the segment that was emptied, when what moved out of it is durable."""
        compaction = self.compaction
        if not compaction.emptied or self.closed or self.sealed[0].state != State.EMPTIED:
            return 0
        segment = self.sealed[0]
        # The segment behind must be durable too, were it only its header: it knows the next id.
        if self.synced.record < compaction.moved_index or self.synced.segment <= segment.number:
            return 0
        name = segment_name(segment.number)
        left = self.accounts.live_in(segment.number)
        if left:
            # The file is not what was written. It does not go: a start may still find in it what we did not.
            self.fail(OSError(errno.EIO, f"{left} bytes of jobs in {name} can't be found in it"))
            return 0
        segment.advance("moves synced")
        if segment.comes_back:
            self.background(partial(self.pool.reuse, name, segment.size), self.removed)
        else:
            self.background(partial(self.remove, name), self.removed)

    def remove(self, name: str) -> None:
        self.directory.unlink(name)
        self.directory.sync()

    def removed(self, file: File | None) -> None:
        """Forget the segment, and take its file for the pool if it comes back; go on with the next if it is due."""
        segment = self.sealed.pop(0)
        self.sealed_bytes -= segment.size
        segment.advance("zeroed" if file else "removed")
        if file:
            self.pool.put(segment.size, file)
        self.compaction.finish()
        self.schedule()

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable and close the files. After a failure: only close them.

        The next start goes on in the segment, over the END record that says that the log was closed. The pool stays.

        Raises:
            OSError: the last write or sync failed.
        """
        if not self.is_ended():
            self.append()
            while self.is_sealing() or self.syncing is not None or self.written != self.synced:
                self.start_sync()
                self.runner.wait_for_sync()
                if self.failure is not None:
                    raise self.failure
            if self.records.left() >= TURN_RECORD:
                # So that a start can tell damage in the last turn from what a crash leaves: it was durable.
                self.write_turn()
            self.records.end_segment()
            self.write()
            self.closed = True
            self.file.sync()
            self.synced = self.written
            self.pool.close()
        self.closed = True
        self.file.close()
        if self.previous is not None:
            self.previous[0].close()

    def obstacle(self) -> str:
        """Return why puts are refused, if they are."""
        return f"the disk takes no more jobs, {self.full_reason}" if self.is_full() else ""

    def facts(self) -> dict[str, str]:
        return {
            "binlog-oldest-index": str(self.sealed[0].number if self.sealed else self.records.segment),
            "binlog-current-index": str(self.records.segment),
            "binlog-records-migrated": str(self.compaction.moved_count),
            "binlog-records-written": str(self.records.record_count),
            "binlog-max-size": str(self.accounts.segment_bytes),
            "durability": str(self.policy),
            "log-bytes": str(self.sealed_bytes + self.open.size + self.pool.total_bytes),
            "log-live-bytes": str(self.accounts.live_bytes),
            "log-free-bytes": str(self.directory.free_bytes()),
            "log-full": "true" if self.accounts.refused_from != NEVER else "false",
        }
