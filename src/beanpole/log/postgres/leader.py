"""The log of a node that leads: what a turn records is appended as rows, one at a time.

A record is durable when its row is confirmed, and nothing else counts (docs/cluster.md, the rules):

- One append is in flight. What is recorded while it is goes into the next row.
- An append whose outcome is not known is looked up by a new connection. If the row is there, it and all before it count
  only when the *next* row is confirmed, for nothing but a commit waits for the standbys.
- A row of somebody else in our place, or a segment that is gone: this node was deposed, and answers nobody any more.
- A reply that depends on no record leaves only while the lease holds: while a row that was sent less than two thirds of
  the silence limit ago is confirmed, so that no other node can lead yet. Else it waits for the next row.

The server sees a :class:`~beanpole.log.log.Log`. It appends in :meth:`Leading.run`, a task of the loop.
"""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Sequence

from beanpole.engine.engine import Engine
from beanpole.log import limits
from beanpole.log.encoder import Encoder
from beanpole.log.format import segment_header
from beanpole.log.log import Log, Progress, Recovery
from beanpole.log.postgres.clock import Clock
from beanpole.log.postgres.inbox import Inbox
from beanpole.log.postgres.maintenance import Maintenance
from beanpole.log.postgres.observer import Observer
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import Place, Row, RowKind, pack_note, row_behind
from beanpole.log.postgres.stall import Stall
from beanpole.log.postgres.store import (
    BusyError,
    GoneError,
    LostError,
    OpenStore,
    RefusedError,
    Store,
    Taken,
    origin_of,
)
from beanpole.log.postgres.tasks import run_beside, watched

BEATS_PER_SILENCE = 5
"""Rows that an idle leader appends in the silence limit."""


class DeposedError(OSError):
    """Another node leads, or this one's last row is gone: it must follow."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ESTALE, reason)


def facts_of_place(unreadable: Place | None) -> dict[str, str]:
    """Return what ``stats`` says of a row that a node can't verify; zeros: there is none."""
    segment, row = unreadable or (0, 0)
    return {"cluster-unreadable-segment": str(segment), "cluster-unreadable-row": str(row)}


class Leading(Log):
    """The log of the node that leads, from its EPOCH row on."""

    records: Encoder

    def __init__(  # noqa: PLR0913 - everything replaceable is an argument
        self,
        replica: Replica,
        store: Store,
        open_store: OpenStore,
        *,
        note: dict[str, str],
        writer: bytes,
        clock: Clock,
        stall: Stall,
        observer: Observer,
    ) -> None:
        super().__init__()
        self.replica = replica
        self.store = store
        self.open_store = open_store
        self.note = note
        """What this node says of itself in its EPOCH row."""

        self.writer = writer
        self.clock = clock
        self.stall = stall
        self.records = replica.records
        self.inbox = Inbox(self.records, open_store, observer)
        self.maintenance = Maintenance(replica, open_store, observer, self.inbox)
        self.silence_ns = store.settings.silence_ms * 1_000_000
        self.epoch = replica.tip.epoch + 1
        self.era = store.settings.era
        self.format = store.settings.format
        """What this leader writes and serves: a later one no less, as it asks what is set before it stands."""

        self.tip = replica.tip
        """The last row that is there for certain."""

        self.confirmed_row = replica.applied
        """The last row that is confirmed."""

        self.confirmed_index = 0
        self.lease_until_ns = 0
        """Until when no other node can lead, on the clock that goes on while the machine sleeps."""

        self.is_sure = True
        """Whether the commit of the tip was seen to end; if not, only the next row's can confirm it."""

        self.clock_offset_ns: int | None = None
        self.sent_ns = 0
        """When the row that is under way was sent, on that clock; 0: none is."""

        self.successor: str | None = None
        self.handed_over = False
        self.work = asyncio.Event()
        self.inbox.work = self.work.set
        self.on_durable: Callable[[], None] = lambda: None
        self.on_row: Callable[[Row], None] | None = None
        """Called with a row when the engine holds just what the log holds with it."""

    # --- what the server calls ----------------------------------------------------------------------------------------

    def recover(self, engine: Engine, progress: Progress = lambda _what, _done, _total: None) -> Recovery:  # noqa: ARG002
        """Return what the replica has done already."""
        return Recovery(self.clock_offset_ns or 0, self.replica.replay.record_count)

    def start(self, on_durable: Callable[[], None], _on_failure: Callable[[OSError], None]) -> None:
        """Call back from here on; whoever runs the node hears of its end from :meth:`run`."""
        self.on_durable = on_durable

    def append(self) -> None:
        """Let the records be appended."""
        if self.records.unwritten_bytes:
            self.work.set()

    def hand_over(self, to: str) -> None:
        """Append what is buffered, then the row that lets another node lead at once; no job has failed by that."""
        self.replica.engine.give_back()
        self.successor = to
        self.work.set()

    def close(self) -> None:
        """Do nothing: whoever runs the node lets it hand over before."""

    @property
    def durable_index(self) -> int:
        """The last record that is confirmed."""
        return self.confirmed_index

    @property
    def read_floor(self) -> int:
        """The record that a reply waits for that depends on none: 0 while the lease holds, else one of the next row."""
        # Behind the row that hands over another node may lead at once.
        if self.successor is None and self.clock.boot_ns() < self.lease_until_ns:
            return 0
        self.work.set()
        return int(self.records.index) + 1

    def unconfirmed_s(self) -> float:
        """Return for how many seconds the row that is under way has not been confirmed."""
        return (self.clock.boot_ns() - self.sent_ns) / 1e9 if self.sent_ns else 0.0

    def obstacle(self) -> str:
        """Return for how long the database has not confirmed what was written, if it is long."""
        waits_s = self.unconfirmed_s()
        return f"the database has not confirmed for {waits_s:.1f} seconds" if waits_s >= 1 else ""

    def facts(self) -> dict[str, str]:
        """Return what ``stats`` says of the log."""
        return {
            "durability": self.store.server.durability,
            "cluster-role": "leader",
            "cluster-epoch": str(self.epoch),
            "cluster-lag": str(self.records.unwritten_bytes),
            **facts_of_place(self.maintenance.unreadable),
            **self.inbox.facts(),
        }

    @property
    def confirmed(self) -> Place:
        """The last place that is confirmed."""
        return self.confirmed_row.place

    # --- leading ------------------------------------------------------------------------------------------------------

    async def stand(self) -> bool:
        """Append the EPOCH row at the tip; whether this node leads now.

        Then everything before it is confirmed, and is applied: that is the row or two that was in flight.
        """
        replica, records = self.replica, self.records
        replica.engine.set_shard(self.store.settings.shard)  # it may have a further number since this node follows
        place = replica.tip.next_place
        if place.row == 0:
            work = self.maintenance.make(self.store, place.segment)
            await watched(work, self.store, self.open_store, self.note_wait)
        header = segment_header(
            place.segment,
            self.next_job_id(),
            self.clocks(),
            records.salt,
            records.accounts.first_segment,
            records.accounts.segment_bytes,
        )
        row = self.row_behind(RowKind.EPOCH, self.noted(header))
        sent_ns = self.clock.boot_ns()
        try:
            self.is_sure = await self.confirm(row)
        except DeposedError:
            return False
        replica.apply_to(self.tip.place)
        now_ns = self.clock.now_ns()
        offset_ns = replica.log_ns(now_ns, self.clock.wall_ns()) - now_ns
        replica.take(row, now_ns)
        replica.apply_to(row.place)
        self.tip = row
        self.clock_offset_ns = replica.lead(now_ns + offset_ns) - now_ns
        records.open_segment(
            place.segment, records.accounts.segment_bytes, replica.segment_bytes[place.segment], records.salt
        )
        self.work.set()  # the next row lets the others know
        self.note_confirmed(row, records.index, sent_ns)
        return True

    async def run(self) -> None:
        """Append what is recorded, and a row now and then when nothing is, until the log was handed over.

        Raises:
            DeposedError: another node leads, or rows are gone.
            RefusedError: the server refuses the work.
        """
        await run_beside(self.append_rows(), self.maintenance.run(), self.inbox.run())

    async def append_rows(self) -> None:
        """Append one row after the other."""
        while not self.handed_over:
            await self.wait()
            row, index = self.next_row()
            self.sent_ns = sent_ns = self.clock.boot_ns()
            self.is_sure = await self.confirm(row, self.inbox.take_to(index))
            self.sent_ns = 0
            self.tip = row
            self.note_confirmed(row, index, sent_ns)
            await asyncio.sleep(0)  # what clients have sent by now goes into the next row: the more, the fewer commits

    async def wait(self) -> None:
        """Wait until there is something to append, or a beat is due."""
        if self.is_sure and not self.work.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.silence_ns / BEATS_PER_SILENCE / 1e9):
                    await self.work.wait()
        self.work.clear()

    def note_confirmed(self, row: Row, index: int, sent_ns: int) -> None:
        """Report what the row makes durable, itself and all before; nothing if its own commit was not seen to end."""
        if not self.is_sure:
            return
        self.stall.end()
        self.replica.engine.server_times.sync.add((self.clock.boot_ns() - sent_ns) // 1_000)
        self.confirmed_row = row
        self.confirmed_index = index
        self.lease_until_ns = sent_ns + self.silence_ns * 2 // 3
        if self.records.waits and self.records.unwritten_bytes < limits.UNCONFIRMED_BYTES_MAX:
            self.records.end_waiting()
        if self.records.unwritten_bytes or self.successor is not None or self.maintenance.moves:
            self.work.set()
        self.maintenance.confirmed(index)
        self.inbox.confirmed(index)
        self.on_durable()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def next_row(self) -> tuple[Row, int]:
        """Return the next row, and the last record in it."""
        records = self.records
        if self.successor is not None and not records.unwritten_bytes:
            self.handed_over = True
            return self.row_behind(RowKind.HANDOVER, pack_note({"to": self.successor})), records.index
        if records.stale_pauses:
            records.write_stale_pauses()
        if records.unwritten_bytes < limits.ROW_BYTES and self.successor is None:
            self.maintenance.move_some()
        records.clock = self.clocks()
        records.turn(self.confirmed.segment, self.confirmed.row)
        data, index, ended = records.take_row(limits.ROW_BYTES)
        place, sizes = self.tip.next_place, self.replica.segment_bytes
        sizes[place.segment] = sizes.get(place.segment, 0) + len(data)
        if ended:
            row = self.row_behind(RowKind.END, data)
        elif place.row == 0:
            row = self.row_behind(RowKind.HEAD, self.noted(data))
        else:
            row = self.row_behind(RowKind.RECORDS, data)
        if self.on_row is not None and not records.unwritten_bytes:
            self.on_row(row)
        return row, index

    def noted(self, records: bytes) -> bytes:
        """Return records behind what this node says of itself, and of the server that it works with."""
        return pack_note({**self.note, **origin_of(self.store), "format": str(self.format)}, records)

    def next_job_id(self) -> int:
        """Return the id from which this leader goes on, as its EPOCH row tells the others.

        Where rows may be gone it is far ahead, as their jobs had ids too: on a server that was promoted or restored
        from a backup, and in a new era.
        """
        origin = origin_of(self.store)
        last = {**origin, "era": "0", **self.replica.leader}
        is_other = any(last[key] != value for key, value in origin.items())
        return int(self.replica.engine.next_job_id) + (limits.JOB_IDS_SKIPPED if is_other else 0)

    def row_behind(self, kind: RowKind, data: bytes) -> Row:
        """Return a row of ours behind the tip."""
        return row_behind(
            self.tip, epoch=self.epoch, kind=kind, writer=self.writer, confirmed=self.confirmed, data=data
        )

    def clocks(self) -> tuple[int, int]:
        """Return the log's clock and the wall clock's lead."""
        now_ns, wall_ns = self.clock.now_ns(), self.clock.wall_ns()
        log_ns = self.replica.log_ns(now_ns, wall_ns) if self.clock_offset_ns is None else now_ns + self.clock_offset_ns
        return log_ns, wall_ns - log_ns

    # --- one row ------------------------------------------------------------------------------------------------------

    async def confirm(self, row: Row, taken: Sequence[Taken] = ()) -> bool:
        """Append a row until it is there; whether the commit was seen to end: then it and all before are confirmed.

        Raises:
            DeposedError: the row can't go there, now or ever. Nobody was answered on it, so that another leader can
                read again what it would have taken from the inbox.
        """
        while True:
            wrong: Exception | None = None
            try:
                if row.place.row == 0:
                    await self.maintenance.made(row.place.segment, self.stall.note)
                if await watched(self.store.append(row, self.tip, taken), self.store, self.open_store, self.note_wait):
                    return True
            except BusyError as error:
                await self.stall.wait(str(error))
                continue
            except (LostError, GoneError, RefusedError) as error:
                if isinstance(error, RefusedError) and not taken:
                    raise
                wrong = error
                await self.reconnect(str(error))
            if await self.is_there(row):
                return False
            if taken and not isinstance(wrong, LostError):
                raise DeposedError(
                    f"the inbox can't be emptied: {wrong or 'somebody else has deleted or locked its rows'}"
                )
            if isinstance(wrong, GoneError):
                self.segment_gone(row.place.segment, wrong)

    def segment_gone(self, segment: int, error: GoneError) -> None:
        """Let the table of a segment be made again that was not there when a row was to go into it.

        Raises:
            LostError: this node does not lead yet: it looks again, as a follower.
        """
        if self.clock_offset_ns is None:
            raise LostError(str(error)) from error
        self.maintenance.forget(segment)

    def note_wait(self) -> None:
        """Note that a row has been under way for long."""
        self.stall.note("PostgreSQL does not answer, or the commit waits for a standby")

    async def is_there(self, row: Row) -> bool:
        """Whether our row stands in its place; False: nothing does, and the tip is where it was.

        Raises:
            DeposedError: another's row stands there, or the tip is gone. Whether that was confirmed is found out as
                this node follows again: it knows the last row that was.
        """
        while True:
            try:
                work = self.store.rows_at([self.tip.place, row.place])
                tip, found = await watched(work, self.store, self.open_store, self.note_wait)
                break
            except (LostError, BusyError) as error:
                await self.reconnect(str(error))
        if found is not None:
            if found.is_copy_of(row):
                return True
            raise DeposedError(f"{found.place} is another node's, of epoch {found.epoch}")
        if tip is None or not tip.is_copy_of(self.tip):
            raise DeposedError(f"{self.tip.place} is gone, or another now")
        return False

    async def reconnect(self, reason: str) -> None:
        """Open another connection, however long it takes.

        Raises:
            DeposedError: it is another era, in which others may have led, and what they wrote was lost.
        """
        self.maintenance.sever()
        await self.store.close()
        while True:
            await self.stall.wait(reason)
            try:
                self.store = await self.open_store()
            except (LostError, BusyError) as error:
                reason = str(error)
                continue
            if self.store.settings.era != self.era:
                raise DeposedError("rows were lost, and `beanpole cluster accept-loss` has accepted that")
            return
