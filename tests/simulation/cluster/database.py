"""PostgreSQL with a synchronous standby, as the log of a cluster sees it, in memory.

A commit is replicated after a while, and confirmed then. It can be lost before it was made, or its answer can; a
promotion takes back what was not replicated. Which of these happens is drawn from a seed. Rows can be damaged, tables
be dropped by hand, and the memory of a node's machine can be bad.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from beanpole.log.limits import CLUSTER_FORMAT
from beanpole.log.postgres.rows import Place, Row, first_row
from beanpole.log.postgres.store import (
    Answer,
    BusyError,
    ChangedError,
    Complaint,
    DamagedError,
    GoneError,
    InboxRow,
    LostError,
    NodeState,
    RefusedError,
    Server,
    Settings,
    Taken,
)
from tests.simulation.cluster.loop import NODE, SimulatedLoop

ROWS_AT_ONCE = 16
"""Rows of one answer, however few bytes they have."""

SETTINGS = Settings(cluster="c", format=CLUSTER_FORMAT, silence_ms=1500, segment_bytes=65_536, body_bytes_max=65_536)


@dataclass(slots=True)
class Entry:
    """A row in the database."""

    row: Row
    replicated: bool = False
    meant: Row | None = None
    """What its writer meant to write; None: just that."""

    visible: bool = False
    """A commit that waits for its standby is seen by nobody, unless its connection was lost."""

    taken: list["Put"] = field(default_factory=list)
    """What it takes out of the inbox; seen there by all who don't see this."""


@dataclass(slots=True)
class Put:
    """A row of the inbox, which is seen at once: its application waits for no standby, or was cut off."""

    row: InboxRow
    replicated: bool = False


@dataclass(slots=True)
class Faults:
    """How often what happens, from 0 to 1, and how slow everything is, in seconds."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    busy: float = 0.0
    slow: float = 0.0
    pause: float = 0.0
    """How often a node stands still right when the server has answered it."""

    delay_s: float = 0.002
    slow_s: float = 3.0


@dataclass
class Database:
    """The tables, and what becomes of what is written."""

    rng: Random
    settings: Settings = SETTINGS
    faults: Faults = field(default_factory=Faults)
    tables: dict[int, dict[int, Entry]] = field(default_factory=dict)
    timeline: int = 1
    down: bool = False
    nodes: dict[str, tuple[float, NodeState]] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)
    """Nodes that don't reach it."""

    still: set[int] = field(default_factory=set)
    """Timelines whose server stands still: it answers nothing, and closes nothing."""

    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    confirmed: list[Row] = field(default_factory=list)
    """Every row whose append returned True, in order."""

    stray: bool = False
    """Whether new connections lead to a server of somebody else's."""

    table_error: Exception | None = None
    """Why it lets nobody make a table."""

    report_error: Exception | None = None
    """Why it lets no node report."""

    table_s: float = 0.0
    """How long it takes to make a table, in seconds, besides the way there and back."""

    number: int = 0
    """The highest number of a row of the inbox that is replicated."""

    inbox: dict[int, Put] | None = None
    """Rows by number; None: there is no inbox."""

    halted: str = ""
    dropped_count: int = 0
    without_table: set[int] = field(default_factory=set)
    """Segments whose table somebody has dropped by hand."""

    complaints: dict[str, Complaint] = field(default_factory=dict)
    unreadable: set[Place] = field(default_factory=set)
    """Rows that the server itself can't read."""

    misreads: dict[str, float] = field(default_factory=dict)
    """Nodes whose memory is bad, and how often a row that they read is another there, from 0 to 1."""

    miswrites: set[str] = field(default_factory=set)
    """Nodes whose memory is bad so that they write other rows than they mean."""

    same_mistakes: set[str] = field(default_factory=set)
    """Those of them to which these rows look right when they read them."""

    def __post_init__(self) -> None:
        self.tables[1] = {0: Entry(first_row(b"\0" * 16), replicated=True, visible=True)}

    def opener(self, node: str) -> Callable[[], "asyncio.Future[FakeStore]"]:
        """Return what opens connections for a node."""

        async def open_store() -> FakeStore:
            await asyncio.sleep(self.faults.delay_s)
            if self.down or node in self.cut_off:
                raise LostError("the server can't be reached")
            if self.stray:
                raise RefusedError("the server is another one")
            if self.halted:
                raise ChangedError(self.halted)
            return FakeStore(self, node, self.timeline)

        return open_store  # type: ignore[return-value]

    def find(self, place: Place) -> Entry | None:
        return self.tables.get(place.segment, {}).get(place.row)

    def numbers(self) -> list[int]:
        return sorted(self.tables.keys() | self.without_table)

    def damage(self, place: Place) -> None:
        """Flip a bit of a row."""
        entry = self.tables[place.segment][place.row]
        entry.row = damaged(entry.row)

    def drop_table(self, number: int) -> None:
        """Drop the table of a segment, as somebody does by mistake."""
        del self.tables[number]
        self.without_table.add(number)

    async def promote(self, lost_rows: int = 0) -> int:
        """A standby takes over: what it has not got is gone, from the first such row on. Return how many rows.

        `lost_rows`: so many rows that it had are gone too, against all promises.
        """
        self.timeline += 1
        places = [Place(number, row) for number in sorted(self.tables) for row in sorted(self.tables[number])]
        kept = [place for place in places if self.tables[place.segment][place.row].replicated]
        kept = kept[: max(1, len(kept) - lost_rows)]
        for place in places:
            if place > kept[-1]:
                for put in self.tables[place.segment].pop(place.row).taken:
                    if self.inbox is not None:
                        self.inbox[put.row.taken.number] = put
            else:
                self.tables[place.segment][place.row].visible = True
        for number in [number for number, put in (self.inbox or {}).items() if not put.replicated]:
            del self.inbox[number]  # type: ignore[union-attr] # it has a row
        newest = max(self.tables)
        if not self.tables[newest] and newest > 1 and self.rng.random() < 0.5:
            del self.tables[newest]
        await self.tell()
        return len(places) - len(kept)

    def accept_loss(self) -> None:
        """Let nodes go on with what is there."""
        self.halted = ""
        self.settings = replace(self.settings, era=self.settings.era + 1)

    def taken(self) -> list[Put]:
        """The rows of the inbox that rows of the log have taken which are there, seen or not."""
        return [put for table in self.tables.values() for entry in table.values() for put in entry.taken]

    async def put(self, body: bytes) -> bool:
        """Put a job in a transaction of an application; whether it is committed for certain when that ends.

        A sequence is set back with the commits that are lost, so that a number comes again.
        """
        assert self.inbox is not None
        number = max([self.number, *self.inbox, *(each.row.taken.number for each in self.taken())]) + 1
        taken = Taken(number, f"{self.rng.getrandbits(64)}")
        put = self.inbox[number] = Put(InboxRow(taken, "default", " pri=1 ttr=60", body, None, None, 0.0))
        await asyncio.sleep(self.faults.delay_s * self.rng.random() * 3)
        put.replicated = put.replicated or self.inbox.get(number) is put or put in self.taken()
        if put.replicated:
            self.number = max(self.number, number)
        return put.replicated

    async def tell(self) -> None:
        """Let those look who wait for something to change."""
        async with self.changed:
            self.changed.notify_all()


def in_world(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Do something at the server, which goes on when the node stands still or dies."""
    token = NODE.set("")
    task = asyncio.get_running_loop().create_task(work)
    NODE.reset(token)
    return task


def damaged(row: Row) -> Row:
    """Return a row with a bit flipped in what it holds, or in its hash if that is nothing."""
    if row.data:
        return replace(row, data=row.data[:-1] + bytes([row.data[-1] ^ 1]))
    return replace(row, hash=row.hash[:-1] + bytes([row.hash[-1] ^ 1]))


class FakeStore:
    """One connection of a node."""

    def __init__(self, database: Database, node: str, timeline: int) -> None:
        self.database = database
        self.node = node
        self.timeline = timeline
        self.settings = database.settings
        self.server = Server("1", timeline, "quorum")
        self.closed = False

    async def trip(self) -> None:
        """Go to the server and back."""
        database = self.database
        slow = database.faults.slow_s if database.rng.random() < database.faults.slow else 0.0
        await asyncio.sleep(database.faults.delay_s * (0.5 + database.rng.random()) + slow)
        async with database.changed:
            while self.timeline in database.still and not self.closed:
                await database.changed.wait()
        self.maybe_pause()
        self.check()

    def maybe_pause(self) -> None:
        """Let the node stand still from here on, now and then."""
        loop, rng = asyncio.get_running_loop(), self.database.rng
        assert isinstance(loop, SimulatedLoop)
        if rng.random() < self.database.faults.pause:
            loop.pause(self.node, rng.choice((0.3, 0.8, 1.6, 3.0)))

    def check(self) -> None:
        """Raise LostError if this is no connection any more."""
        database = self.database
        if self.closed or database.down or self.timeline != database.timeline or self.node in database.cut_off:
            self.closed = True
            raise LostError("the connection is lost")

    def check_cluster(self) -> None:
        """Raise LostError if another cluster was made since."""
        if self.database.settings.cluster != self.settings.cluster:
            raise LostError("the database has another cluster now")

    async def append(self, row: Row, tip: Row, taken: Sequence[Taken] = ()) -> bool:
        database, rng = self.database, self.database.rng
        await self.trip()
        if rng.random() < database.faults.lost_before:
            self.closed = True
            raise LostError("lost before it was done")
        if rng.random() < database.faults.busy:
            raise BusyError("no space")
        is_lost = rng.random() < database.faults.lost_after
        inserting = in_world(self.insert(row, tip, taken, is_cancelled=is_lost and rng.random() < 0.5))
        if is_lost:
            await asyncio.wait([inserting], timeout=rng.random() * 0.02)
            inserting.add_done_callback(lambda task: task.exception())
            self.closed = True
            raise LostError("lost while it was done")
        appended = await asyncio.shield(inserting)
        await asyncio.sleep(database.faults.delay_s * rng.random())
        self.maybe_pause()
        self.check()
        if appended:
            database.confirmed.append(row)
        return bool(appended)

    async def insert(self, row: Row, tip: Row, taken: Sequence[Taken], *, is_cancelled: bool) -> bool:
        """Do what the server does; it waits for a row at the same place whose commit is under way."""
        database = self.database
        async with database.changed:
            while (other := database.find(row.place)) is not None and not other.visible:
                await database.changed.wait()
        if self.timeline != database.timeline:
            raise LostError("the connection is lost")
        if row.place.segment not in database.tables or tip.place.segment not in database.tables:
            raise GoneError(f"segment {row.place.segment}")
        before = database.find(tip.place)
        if before is None or before.row.hash != tip.hash or other is not None:
            return False
        puts = [put for each in taken if (put := (database.inbox or {}).get(each.number)) and put.row.taken == each]
        if len(puts) != len(taken):
            return False
        written = damaged(row) if self.node in database.miswrites else row
        entry = database.tables[row.place.segment][row.place.row] = Entry(written, meant=row, taken=puts)
        for each in puts:
            del database.inbox[each.row.taken.number]  # type: ignore[union-attr] # it had them
        if is_cancelled:
            entry.visible = True
        replicating = in_world(self.commit(entry))
        async with database.changed:
            while not entry.visible and database.find(row.place) is entry:
                await database.changed.wait()
        if not entry.replicated:
            replicating.cancel()
            raise LostError("it was cancelled, or the server is gone")
        return True

    async def commit(self, entry: Entry) -> None:
        """Replicate a row, all before it first, and let it be seen."""
        database, place = self.database, entry.row.place
        slow = database.faults.slow_s if database.rng.random() < database.faults.slow else 0.0
        await asyncio.sleep(database.faults.delay_s * database.rng.random() + slow)
        if database.find(place) is not entry:
            return
        for number in sorted(database.tables):
            for row, each in database.tables[number].items():
                each.replicated = each.replicated or Place(number, row) <= place
        for put in entry.taken:
            put.replicated = True
        entry.visible = True
        await database.tell()

    def seen(self, place: Place) -> Row | None:
        """Return the row at a place if others may see it, as this node has it in its memory."""
        database, entry = self.database, self.database.find(place)
        if place in database.unreadable:
            raise DamagedError("invalid page in block 1")
        if entry is None or not entry.visible:
            return None
        if self.node in database.same_mistakes and entry.meant is not None:
            return entry.meant
        chance = database.misreads.get(self.node, 0.0)
        return damaged(entry.row) if chance and database.rng.random() < chance else entry.row

    async def rows_at(self, places: list[Place]) -> list[Row | None]:
        await self.trip()
        return [self.seen(place) for place in places]

    async def read(self, tip: Row, bytes_max: int) -> Answer:
        await self.trip()
        if tip.place.segment not in self.database.tables:
            raise GoneError(f"segment {tip.place.segment}")
        before = self.database.find(tip.place)  # the server compares the hashes
        if before is None or not before.visible or before.row.hash != tip.hash:
            return Answer(has_tip=False, rows=[], is_all=False)
        rows: list[Row] = []
        at = tip
        while (row := self.seen(at.next_place)) is not None and bytes_max > 0 and len(rows) < ROWS_AT_ONCE:
            rows.append(row)
            bytes_max -= len(row.data)
            at = row
        return Answer(has_tip=True, rows=rows, is_all=row is None)

    async def segments(self) -> list[int]:
        await self.trip()
        return self.database.numbers()

    async def newest(self) -> Place:
        await self.trip()
        return max(
            Place(number, row)
            for number, table in self.database.tables.items()
            for row, entry in table.items()
            if entry.visible
        )

    async def first(self, segment: int) -> Row | None:
        await self.trip()
        if segment not in self.database.tables:
            raise GoneError(f"segment {segment}")
        return self.seen(Place(segment, 0))

    async def make_segment(self, number: int) -> None:
        await self.trip()
        self.check_cluster()
        if self.database.table_error is not None:
            raise self.database.table_error
        until_s = asyncio.get_running_loop().time() + self.database.table_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until_s), self.database.changed:
                while not self.closed:
                    await self.database.changed.wait()
        self.check()
        newest = max(self.database.numbers())
        if newest < number - 1:
            raise GoneError(f"there is no segment {number - 1}")
        if newest < number:
            self.database.tables[number] = {}

    async def forget_segment(self, number: int) -> None:
        await self.trip()
        self.check_cluster()
        self.database.without_table.discard(number)

    async def drop_segment(self, number: int) -> None:
        await self.trip()
        self.check_cluster()
        if self.database.rng.random() < self.database.faults.busy:
            raise BusyError("somebody reads it")
        self.database.dropped_count += self.database.tables.pop(number, None) is not None
        self.database.without_table.discard(number)

    async def complain(self, complaint: Complaint) -> None:
        await self.trip()
        self.database.complaints[complaint.node] = complaint

    async def complaints(self) -> list[Complaint]:
        await self.trip()
        return [self.database.complaints[name] for name in sorted(self.database.complaints)]

    async def withdraw(self, nodes: list[str]) -> None:
        await self.trip()
        for each in nodes:
            self.database.complaints.pop(each, None)

    async def asked(self, epoch: int) -> str:  # noqa: ARG002 - nobody asks
        await self.trip()
        if self.database.halted:
            raise ChangedError(self.database.halted)
        return ""

    async def report(self, node: NodeState) -> list[NodeState]:
        await self.trip()
        if self.database.report_error is not None:
            raise self.database.report_error
        now_s = asyncio.get_running_loop().time()
        nodes = [replace(each, age_s=now_s - seen_s) for seen_s, each in self.database.nodes.values()]
        shown = next((each for each in nodes if each.name == node.name and each.is_alive), node)
        newer_leads = node.role == "leader" and (shown.role != "leader" or shown.epoch < node.epoch)
        if shown.writer == node.writer or newer_leads:
            self.database.nodes[node.name] = (now_s, node)
        return nodes

    async def halt(self, reason: str, era: int) -> None:
        await self.trip()
        if era >= self.database.settings.era:
            self.database.halted = self.database.halted or reason

    async def is_current(self) -> bool:
        await self.trip()
        if self.database.halted:
            raise ChangedError(self.database.halted)
        return self.database.settings == self.settings

    async def inbox_obstacle(self) -> str | None:
        if self.database.inbox is None:
            return None
        await self.trip()
        return ""

    async def read_inbox(self, after: int, count: int, bytes_max: int) -> list[InboxRow]:  # noqa: ARG002 - rows are small
        await self.trip()
        database = self.database
        if database.inbox is None:
            raise GoneError("no table inbox")
        hidden = [entry.taken for table in database.tables.values() for entry in table.values() if not entry.visible]
        rows = [put.row for put in [*database.inbox.values(), *(put for puts in hidden for put in puts)]]
        return sorted((row for row in rows if row.taken.number > after), key=lambda row: row.taken.number)[:count]

    def sever(self) -> None:
        self.closed = True
        in_world(self.database.tell())

    async def close(self) -> None:
        self.closed = True
