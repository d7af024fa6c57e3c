"""PostgreSQL with a synchronous standby, as the log of a cluster sees it, in memory.

A commit is replicated after a while, and confirmed then. It can be lost before it was made, or its answer can; a
promotion takes back what was not replicated. Which of these happens is drawn from a seed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from beanpole.log.postgres.rows import Place, Row, first_row
from beanpole.log.postgres.store import BusyError, GoneError, LostError, NodeState, Server, Settings

SETTINGS = Settings(cluster="c", format=3, silence_ms=1500, segment_bytes=65_536, body_bytes_max=65_536)


@dataclass(slots=True)
class Entry:
    """A row in the database."""

    row: Row
    replicated: bool = False
    visible: bool = False
    """A commit that waits for its standby is seen by nobody, unless its connection was lost."""


@dataclass(slots=True)
class Faults:
    """How often what happens, from 0 to 1, and how slow everything is, in seconds."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    busy: float = 0.0
    slow: float = 0.0
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

    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    confirmed: list[Row] = field(default_factory=list)
    """Every row whose append returned True, in order."""

    def __post_init__(self) -> None:
        self.tables[1] = {0: Entry(first_row(b"\0" * 16), replicated=True, visible=True)}

    def opener(self, node: str) -> Callable[[], "asyncio.Future[FakeStore]"]:
        """Return what opens connections for a node."""

        async def open_store() -> FakeStore:
            await asyncio.sleep(self.faults.delay_s)
            if self.down or node in self.cut_off:
                raise LostError("the server can't be reached")
            return FakeStore(self, node, self.timeline)

        return open_store  # type: ignore[return-value]

    def find(self, place: Place) -> Entry | None:
        """Return the row at a place."""
        return self.tables.get(place.segment, {}).get(place.row)

    async def promote(self) -> int:
        """A standby takes over: what it has not got is gone, from the first such row on. Return how many rows."""
        self.timeline += 1
        gone = 0
        missing = False
        for number in sorted(self.tables):
            table = self.tables[number]
            for row in sorted(table):
                missing = missing or not table[row].replicated
                if missing:
                    del table[row]
                    gone += 1
                else:
                    table[row].visible = True
        async with self.changed:
            self.changed.notify_all()
        return gone


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
        self.check()

    def check(self) -> None:
        """Raise LostError if this is no connection any more."""
        database = self.database
        if self.closed or database.down or self.timeline != database.timeline or self.node in database.cut_off:
            self.closed = True
            raise LostError("the connection is lost")

    async def append(self, row: Row, tip: Row) -> bool:
        """See Store."""
        database, rng = self.database, self.database.rng
        await self.trip()
        if rng.random() < database.faults.lost_before:
            self.closed = True
            raise LostError("lost before it was done")
        if rng.random() < database.faults.busy:
            raise BusyError("no space")
        async with database.changed:
            while (other := database.find(row.place)) is not None and not other.visible:
                await database.changed.wait()
        self.check()
        if row.place.segment not in database.tables or tip.place.segment not in database.tables:
            raise GoneError(f"segment {row.place.segment}")
        before = database.find(tip.place)
        if before is None or before.row.hash != tip.hash or other is not None:
            return False
        entry = database.tables[row.place.segment][row.place.row] = Entry(row)
        asyncio.get_running_loop().create_task(self.commit(entry))
        lost_after_s = rng.random() * 0.02 if rng.random() < database.faults.lost_after else None
        if lost_after_s is not None:
            await asyncio.sleep(lost_after_s)
            entry.visible = True
            self.closed = True
            async with database.changed:
                database.changed.notify_all()
            raise LostError("lost while it was done")
        async with database.changed:
            while not entry.visible and database.find(row.place) is entry:
                await database.changed.wait()
        await self.trip()
        if not entry.replicated:
            raise LostError("it was cancelled")
        database.confirmed.append(row)
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
        entry.visible = True
        async with database.changed:
            database.changed.notify_all()

    def seen(self, place: Place) -> Row | None:
        """Return the row at a place if others may see it."""
        entry = self.database.find(place)
        return entry.row if entry is not None and entry.visible else None

    async def rows_at(self, places: list[Place]) -> list[Row | None]:
        """See Store."""
        await self.trip()
        return [self.seen(place) for place in places]

    async def read(self, tip: Row, bytes_max: int) -> tuple[bool, list[Row]]:
        """See Store."""
        await self.trip()
        if tip.place.segment not in self.database.tables:
            raise GoneError(f"segment {tip.place.segment}")
        before = self.seen(tip.place)
        if before is None or before.hash != tip.hash:
            return False, []
        rows: list[Row] = []
        at = tip
        while (row := self.seen(at.next_place)) is not None and bytes_max > 0:
            rows.append(row)
            bytes_max -= len(row.data)
            at = row
        return True, rows

    async def segments(self) -> list[int]:
        """See Store."""
        await self.trip()
        return sorted(self.database.tables)

    async def first(self, segment: int) -> Row | None:
        """See Store."""
        await self.trip()
        return self.seen(Place(segment, 0))

    async def make_segment(self, number: int) -> None:
        """See Store."""
        await self.trip()
        self.database.tables.setdefault(number, {})

    async def drop_segment(self, number: int) -> None:
        """See Store."""
        await self.trip()
        self.database.tables.pop(number, None)

    async def report(self, node: NodeState) -> tuple[list[NodeState], str]:
        """See Store."""
        await self.trip()
        now_s = asyncio.get_running_loop().time()
        nodes = [replace(each, age_s=now_s - seen_s) for seen_s, each in self.database.nodes.values()]
        self.database.nodes[node.name] = (now_s, node)
        return nodes, ""

    async def close(self) -> None:
        """See Store."""
        self.closed = True
