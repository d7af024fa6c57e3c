"""What a leader does beside appending: it makes the next segment's table, and empties and drops the oldest.

Both happen on a connection of their own, so that an append never waits for them. The compaction is that of the log in
files: what lives in the oldest segment is written again at the tip, a little with each row of clients, and when that is
confirmed the table is dropped.
"""

import asyncio
import contextlib
from collections.abc import Callable

from beanpole.log import limits
from beanpole.log.compaction import Compaction
from beanpole.log.format import SEGMENT_HEADER
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import Place, Row
from beanpole.log.postgres.store import BusyError, GoneError, LostError, OpenStore, Store
from beanpole.log.postgres.tasks import watched
from beanpole.log.reader import whole_ids


class Maintenance:
    """Keeps the segments of a log, for the node that leads."""

    def __init__(self, replica: Replica, open_store: OpenStore) -> None:
        self.replica = replica
        self.open_store = open_store
        self.compaction = Compaction(replica.engine, replica.records, bytes_per_row=limits.COMPACTION_BYTES_PER_ROW)
        self.store: Store | None = None
        self.moves = False
        """Whether the last row has something that was moved, so that there may be more."""

        self.wake = asyncio.Event()
        self.made_event = asyncio.Event()
        self.made_to = replica.tip.place.segment
        """The newest segment whose table is there."""

        self.problem = ""
        """Why the last attempt failed; empty: it didn't."""

        self.ids_of = 0
        """The segment whose jobs' ids are wanted; 0: none."""

    # --- called by the leader -----------------------------------------------------------------------------------------

    async def made(self, segment: int, on_wait: Callable[[str], None]) -> None:
        """Wait until the table of a segment is there; say why it is not, again and again."""
        while self.made_to < segment:
            self.made_event.clear()
            self.wake.set()
            try:
                async with asyncio.timeout(limits.SLOW_S):
                    await self.made_event.wait()
            except TimeoutError:
                on_wait(f"the table of segment {segment} is not made: {self.problem or 'PostgreSQL does not answer'}")

    async def make(self, store: Store, segment: int) -> None:
        """Make the table of a segment."""
        await store.make_segment(segment)
        self.made_to = max(self.made_to, segment)
        self.made_event.set()

    def forget(self, segment: int) -> None:
        """Make the table of a segment again: a promotion took it back."""
        self.made_to = min(self.made_to, segment - 1)

    def sever(self) -> None:
        """Close the connection: the server may no longer be the primary."""
        if self.store is not None:
            self.store.sever()

    def move_some(self) -> None:
        """Write some of what lives in the oldest segment again."""
        accounts, compaction = self.replica.records.accounts, self.compaction
        if compaction.segment == 0 and compaction.is_due(self.sealed_bytes(), full=False):
            segment = accounts.first_segment
            if compaction.begin(segment):
                self.ids_of = segment
                self.wake.set()
        self.moves = compaction.step(at_once=False)

    def confirmed(self, durable_index: int) -> None:
        """Let the oldest segment go when everything moved out of it is confirmed; make the next one in time."""
        if self.compaction.emptied and self.compaction.moved_index <= durable_index:
            self.replica.segment_bytes.pop(self.compaction.segment, None)
            self.compaction.finish()
            self.wake.set()
        if self.made_to <= self.replica.records.segment:
            self.wake.set()

    def sealed_bytes(self) -> int:
        """Return the bytes of the segments before the one that is written."""
        newest = self.replica.records.segment
        return sum(size for number, size in self.replica.segment_bytes.items() if number < newest)

    # --- a task -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do what is to be done, again and again, until cancelled."""
        try:
            while True:
                self.wake.clear()
                try:
                    store = self.store = self.store or await self.open_store()
                    await watched(self.work(store), store, self.open_store)
                    self.problem = ""
                except (LostError, BusyError, GoneError) as error:
                    self.problem = str(error)
                    if self.store is not None and isinstance(error, LostError):
                        await self.store.close()
                        self.store = None
                    await asyncio.sleep(limits.MAINTENANCE_RETRY_S)
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limits.MAINTENANCE_EVERY_S):
                        await self.wake.wait()
        finally:
            if self.store is not None:
                await self.store.close()

    async def work(self, store: Store) -> None:
        """Make the next table, read which jobs the oldest holds, drop those that nobody needs."""
        newest = self.replica.records.segment + 1
        while self.made_to < newest:
            await self.make(store, self.made_to + 1)
        if self.ids_of:
            segment, self.ids_of = self.ids_of, 0
            try:
                self.compaction.set_ids(await read_ids(store, segment))
            except (LostError, GoneError):
                self.ids_of = segment
                raise
        oldest = self.replica.records.accounts.first_segment
        for number in await store.segments():
            if number < oldest:
                await store.drop_segment(number)


async def read_ids(store: Store, segment: int) -> list[int]:
    """Return the ids of the jobs that a segment holds whole."""
    row: Row | None = await store.first(segment)
    if row is None:
        raise GoneError(f"segment {segment} has no row")
    ids: list[int] = []
    header, tip = b"", row
    rows = [row]
    while rows:
        for each in rows:
            _, data = each.unpack()
            if data and each.has_header:
                header, data = data[:SEGMENT_HEADER], data[SEGMENT_HEADER:]
            ids += whole_ids(header + data) if data else []
            tip = each
        if tip.next_place == Place(segment + 1, 0):
            break
        _, rows = await store.read(tip, limits.ROWS_BYTES)
        rows = [each for each in rows if each.place.segment == segment]
        await asyncio.sleep(0)
    return ids
