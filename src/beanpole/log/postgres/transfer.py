"""Reading and writing a whole log: ``beanpole cluster import`` and ``export``.

An import is one transaction: nodes see the jobs all at once or not at all. An export closes the log first, so that the
jobs are never served by two servers; its directory gets its name when all of it is on disk.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from beanpole import limits as protocol_limits
from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log import limits
from beanpole.log.accounts import Accounts
from beanpole.log.compaction import write_all
from beanpole.log.encoder import Encoder
from beanpole.log.files import disk
from beanpole.log.files.bulk import BulkWriter
from beanpole.log.format import segment_header
from beanpole.log.postgres import schema
from beanpole.log.postgres.admin import check_no_inbox, columns_of, last_row
from beanpole.log.postgres.connection import errors_translated
from beanpole.log.postgres.hosts import OperatorStore, opened
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import NOWHERE, Place, Row, RowKind, new_writer, pack_note, row_behind
from beanpole.log.postgres.store import RefusedError, Settings, UnreadableError, origin_of
from beanpole.log.replay import Replay
from beanpole.log.tools.inspect import empty_replay, survey
from beanpole.log.tools.snapshot import Snapshot
from beanpole.protocol.extensions import format_of
from beanpole.shard_ids import text_of

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

UNFINISHED = ".unfinished"
"""What the name of a directory ends with while an export writes it."""

NOTE = {"node": "import", "address": ""}
"""What an import says of itself as the node that leads."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What was imported or exported."""

    jobs: int
    rows: int


# --- import -----------------------------------------------------------------------------------------------------------


async def import_directory(conninfo: str, path: Path, progress: Progress) -> Moved:
    """Fill an empty log with the jobs of a data directory.

    Raises:
        RefusedError: the log is not empty, or too old for what is in the directory, or that is damaged.
        StartError: a server uses the directory.
        OSError: it can't be read.
    """
    async with opened(conninfo, writes=True) as store:
        tip = await empty_tip(store)
        await check_no_inbox(store)
        with locked(path):
            replay = await asyncio.to_thread(read_directory, path)
        engine = replay.restore.engine
        for what, is_there, name in (
            ("schedules", engine.schedules is not None and engine.schedules.count, b"set-schedule"),
            ("tokens of puts that are done once", engine.once is not None and engine.once.count, b"put-job.once"),
        ):
            if is_there and store.settings.format < format_of(name):
                raise RefusedError(
                    f"{path} has {what}, and the log of this cluster is written in format {store.settings.format}: "
                    "make a cluster in another database with the `beanpole cluster init` of this version"
                )
        if (engine.shard or (0,)) != (store.settings.shard or (0,)):
            raise RefusedError(
                f"the ids in {path} are those of shard {text_of(engine.shard)}, and this cluster is shard "
                f"{text_of(store.settings.shard)}: make a cluster in another database with `beanpole cluster init "
                f"--shard {text_of(engine.shard)}`"
            )
        writer = ImportWriter(store, tip, replay, progress)
        with errors_translated():
            async with store.connection.transaction():
                await writer.begin()
                await asyncio.to_thread(write_all, writer.engine, writer.records, writer.flush)
                await writer.end()
        return Moved(writer.engine.jobs.count, writer.row_count)


async def empty_tip(store: OperatorStore) -> Row:
    """Return the row that a new log begins with.

    Raises:
        RefusedError: there is more in it.
    """
    segments = await store.segments()
    tip = await last_row(store, segments)
    if len(segments) != 1 or tip.epoch:
        raise RefusedError(
            "the log is not empty: import fills only a new cluster, before its first node starts; make one in another "
            "database with `beanpole cluster init`"
        )
    return tip


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep servers out of a data directory."""
    fd = disk.lock(disk.open_directory(path))
    try:
        yield
    finally:
        os.close(fd)


def read_directory(path: Path) -> Replay:
    """Return what the log of a directory holds."""
    replay = empty_replay()
    with closing(Snapshot(path)) as snapshot:
        found = survey(snapshot, replay=replay, as_one_segment=True)
    if found.newer is not None or found.damaged:
        raise RefusedError(f"the log in {path} is damaged; `beanpole wal check` says where, and what to do")
    replay.finish(replay.restore.clock_ns + replay.lead_ns)
    check(replay.restore.engine)
    return replay


class ImportWriter:
    """Writes the jobs of an engine as rows, as the node would that leads in the first epoch."""

    def __init__(self, store: OperatorStore, tip: Row, replay: Replay, progress: Progress) -> None:
        self.store = store
        self.tip = tip
        self.engine: Engine = replay.restore.engine
        self.clock = (replay.restore.clock_ns, replay.lead_ns)
        self.progress = progress
        self.total_bytes = replay.records.accounts.live_bytes
        self.records = Encoder(Accounts(store.settings.segment_bytes, unlimited=True), wants_reservations=True)
        self.writer = new_writer()
        self.note = {**NOTE, **origin_of(store)}
        self.row_count = 0
        self.bytes = 0
        self.loop = asyncio.get_running_loop()

    async def begin(self) -> None:
        """Write the row that begins the epoch."""
        records, settings = self.records, self.store.settings
        records.next_job_id = self.engine.next_job_id
        records.clock = self.clock
        place = self.tip.next_place
        header = segment_header(
            place.segment, self.engine.next_job_id, self.clock, records.salt, place.segment, settings.segment_bytes
        )
        await self.add(RowKind.EPOCH, pack_note(self.note, header))
        records.open_segment(place.segment, settings.segment_bytes, len(header), records.salt)

    def flush(self) -> None:
        """Write the rows that are full. Called in a thread, which waits for it."""
        asyncio.run_coroutine_threadsafe(self.add_rows(limits.ROW_BYTES), self.loop).result()

    async def add_rows(self, least_bytes: int) -> None:
        """Write rows while there are so many bytes for them."""
        records = self.records
        while records.unwritten_bytes >= least_bytes:
            data, _, ended = records.take_row(limits.ROW_BYTES)
            if not ended and self.tip.next_place.row == 0:
                await self.add(RowKind.HEAD, pack_note(self.note, data))
            else:
                await self.add(RowKind.END if ended else RowKind.RECORDS, data)

    async def end(self) -> None:
        """Write what is left, and the row that lets any node lead."""
        self.records.turn(self.tip.place.segment, 0)
        await self.add_rows(1)
        await self.add(RowKind.HANDOVER, pack_note({"to": ""}))

    async def add(self, kind: RowKind, data: bytes) -> None:
        """Write one row behind the last."""
        row = row_behind(self.tip, epoch=1, kind=kind, writer=self.writer, confirmed=self.tip.place, data=data)
        if row.place.row == 0:
            await self.store.execute(schema.make_segment(row.place.segment))
        await self.store.execute(schema.insert(row.place.segment), columns_of(row))
        self.tip = row
        self.row_count += 1
        self.bytes += len(data)
        self.progress(min(self.bytes, self.total_bytes), self.total_bytes)


# --- export -----------------------------------------------------------------------------------------------------------


async def export_directory(conninfo: str, path: Path, progress: Progress) -> Moved:
    """Close the log, and write its jobs into a new directory.

    Raises:
        RefusedError: a node is alive, or the directory is there already.
        OSError: the directory can't be written; the log is closed, and the export can be run again.
    """
    check_new(path)
    async with opened(conninfo, writes=True) as store:
        await check_stopped(store)
        await check_no_inbox(store)
        replica = await read_log(store, progress)
        await close_log(store, replica, path)
        replica.apply_to(replica.tip.place)
        await asyncio.to_thread(write_directory, replica.replay, path, replica.engine.next_job_id)
        return Moved(replica.engine.jobs.count, replica.row_count)


async def check_stopped(store: OperatorStore) -> None:
    """Refuse to close the log while a node is alive."""
    alive = [each.name for each in await store.nodes() if each.is_alive]
    if alive:
        raise RefusedError(f"stop the nodes that are alive first, as an export closes the log: {', '.join(alive)}")


def check_new(path: Path) -> None:
    """Refuse a directory that holds something."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RefusedError(f"{path} exists and is not empty; export makes a new directory")


async def read_log(
    store: OperatorStore,
    progress: Progress,
    look: Callable[[Replica], None] = lambda _: None,
    applied: Place = NOWHERE,
) -> Replica:
    """Return an engine that has applied the log as far as it reached when this began, and at least up to a place.

    `look` is called behind each row that was applied.

    Raises:
        UnreadableError: a row is not what was written there, is missing, or does not fit behind the one before.
        RefusedError: the log has no row, or is cut while it is read.
    """
    for missing in await store.missing():
        raise UnreadableError(Place(missing, 0), "is missing: the table of its segment is gone")
    segments = await store.segments()
    last = (await last_row(store, segments)).place
    first = await store.first(segments[0])
    if first is None:
        raise UnreadableError(Place(segments[0], 0), "is missing")
    replica = Replica(store.settings, first, make_engine, 0, as_one_segment=True, on_applied=look)
    idle_s = 0.0
    while True:
        has_tip, rows, _ = await store.read(replica.tip, limits.ROWS_BYTES)
        if not has_tip:
            raise RefusedError("the log changes while it is read: is a node running?")
        for row in rows:
            replica.take(row, 0)
        if replica.tip.place >= last and (replica.applied.place >= applied or idle_s > store.settings.silence_ms / 1e3):
            return replica
        if not rows:
            if replica.tip.place < last:
                raise UnreadableError(replica.tip.next_place, "is missing")
            await asyncio.sleep(limits.POLL_S)
        idle_s = 0.0 if rows else idle_s + limits.POLL_S
        done, total = replica.tip.place, len(segments)
        share = (done.segment - segments[0]) + (done.row / max(last.row, 1) if done.segment == last.segment else 0)
        progress(int(1000 * share), 1000 * total)


def make_engine(records: Encoder, _settings: Settings) -> Engine:
    """Return an empty engine, which takes bodies of any size."""
    return Engine(protocol_limits.BODY_BYTES_MAX_CEILING, 0, dict, records)


async def close_log(store: OperatorStore, replica: Replica, path: Path) -> None:
    """Append the row behind which nobody leads, and let nodes that start say so; both are confirmed."""
    if replica.tip.kind != RowKind.CLOSED:
        await append_closed(store, replica)
    await store.execute(schema.CLOSE, [str(path)])


async def append_closed(store: OperatorStore, replica: Replica) -> None:
    """Append the row behind which nobody leads.

    Raises:
        RefusedError: there is another row in its place.
    """
    tip = replica.tip
    row = row_behind(tip, epoch=tip.epoch, kind=RowKind.CLOSED, writer=new_writer(), confirmed=tip.confirmed, data=b"")
    if row.place.row == 0:
        await store.make_segment(row.place.segment)
    if not await store.append(row, tip):
        raise RefusedError("a node has written to the log; stop all nodes first")
    replica.take(row, 0)


def write_directory(replay: Replay, path: Path, next_job_id: int) -> None:
    """Write what was replayed as a data directory, all or nothing."""
    restore, lead_ns = replay.restore, replay.lead_ns
    assert restore is not None
    engine = restore.engine
    replay.finish(restore.clock_ns + lead_ns)
    check(engine)
    unfinished = path.with_name(path.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    clock = (restore.clock_ns, lead_ns)
    directory = disk.DiskDirectory(unfinished)
    segment_bytes = limits.SEGMENT_BYTES_DEFAULT
    writer = BulkWriter(
        directory,
        "segment",
        1,
        next_job_id=next_job_id,
        shard=engine.shard,
        clock=clock,
        segment_bytes=segment_bytes,
    )
    writer.write_all(engine)
    directory.sync()
    unfinished.replace(path)
    os.close(directory.fd)
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
