"""What a leader does beside appending: it makes the next segment's table, and empties and drops the oldest.

Both happen on a connection of their own, so that an append never waits for them. The compaction is that of the log in
files: what lives in the oldest segment is written again at the tip, a little with each row of clients, and when that is
confirmed the table is dropped. Which jobs live in it is known from memory: no old row is read for that.

So a segment with a row that can't be verified is *repaired*: the segment that is written ends early, everything up to
the bad one is emptied in the same way, and dropped when all that was written in its place was read and is sound.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from beanpole.log import limits
from beanpole.log.compaction import Compaction, schedules_in
from beanpole.log.postgres.checking import Checker, check_segment
from beanpole.log.postgres.inbox import Inbox
from beanpole.log.postgres.observer import Observer
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.store import (
    OPERATOR,
    BusyError,
    Complaint,
    FaultyError,
    GoneError,
    LostError,
    OpenStore,
    Store,
    UnreadableError,
)
from beanpole.log.postgres.tasks import watched

if TYPE_CHECKING:
    from beanpole.log.postgres.rows import Place

COMPACTION_BYTES_PER_ROW = 65_536
"""Bytes of jobs that compaction moves with each row of a cluster's log: it adds little to the time of a commit."""

MAINTENANCE_EVERY_S = 1.0
"""Seconds between two looks at which segments there are."""

MAINTENANCE_RETRY_S = 0.25
"""Seconds until a segment is made or dropped that could not be."""


class Maintenance:
    """Keeps the segments of a log, for the node that leads."""

    def __init__(self, replica: Replica, open_store: OpenStore, observer: Observer, inbox: Inbox) -> None:
        self.replica = replica
        self.inbox = inbox
        self.open_store = open_store
        self.observer = observer
        self.compaction = Compaction(replica.engine, replica.records, bytes_per_row=COMPACTION_BYTES_PER_ROW)
        self.store: Store | None = None
        self.moves = False
        """Whether the last row has something that was moved, so that there may be more."""

        self.wake = asyncio.Event()
        self.made_event = asyncio.Event()
        self.made_to = replica.tip.place.segment
        """The newest segment whose table is there."""

        self.remakes = False
        """Whether tables are to be made that were made before."""

        self.problem = ""
        """Why the last attempt failed; empty: it didn't."""

        self.began = replica.tip.next_place
        """Where the first row of this leader stands."""

        self.repair_to = 0
        """The newest segment that is repaired; 0: none is."""

        self.checker: Checker | None = None
        """Reads what is written in place of what is repaired; None: nothing is written yet."""

        self.first_rewritten = 0
        """The segment with which that begins."""

        self.unreadable: Place | None = None
        """A row that a node can't verify."""

        self.contradicted: dict[str, Complaint] = {}
        """What other nodes can't verify of what this one has written, and this one can."""

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
        await store.make_segment(segment)
        self.made_to = max(self.made_to, segment)
        self.made_event.set()

    def forget(self, segment: int) -> None:
        """Make the table of a segment again that has no row yet: a promotion took it back, or somebody dropped it."""
        self.made_to = min(self.made_to, segment - 1)
        self.remakes = True

    def sever(self) -> None:
        """Close the connection: the server may no longer be the primary."""
        if self.store is not None:
            self.store.sever()

    def move_some(self) -> None:
        """Write some of what lives in the oldest segment again."""
        records, compaction = self.replica.records, self.compaction
        oldest = records.accounts.first_segment
        if oldest <= self.repair_to and not self.first_rewritten:
            records.begin_segment(0)
            self.first_rewritten = records.segment
        if compaction.segment == 0 and (oldest <= self.repair_to or compaction.is_due(self.sealed_bytes(), full=False)):
            compaction.begin(oldest)
        self.moves = compaction.step(at_once=False)
        if compaction.needs_ids:
            self.wake.set()

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
                    await asyncio.sleep(MAINTENANCE_RETRY_S)
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(MAINTENANCE_EVERY_S):
                        await self.wake.wait()
        finally:
            if self.store is not None:
                await self.store.close()

    async def work(self, store: Store) -> None:
        """Make the next table, find what is in the oldest, drop those that nobody needs, repair what can't be read."""
        newest = self.replica.records.segment + 1
        if self.remakes:
            for number in range(newest, self.made_to, -1):
                await store.forget_segment(number)
            self.remakes = False
        while self.made_to < newest:
            await self.make(store, self.made_to + 1)
        if self.compaction.needs_ids:
            self.compaction.set_ids(await self.find_ids(self.compaction.segment), complete=False)
        complaints = await store.complaints()
        oldest = self.replica.records.accounts.first_segment
        self.unreadable = next((each.place for each in complaints if each.place.segment >= oldest), None)
        self.contradicted = {name: each for name, each in self.contradicted.items() if each in complaints}
        for at, each in enumerate(complaints):
            complaints[at] = judged = await self.look_at(store, each)
            if judged != each:
                await store.complain(judged)
        await self.drop(store, complaints)
        self.inbox.looked(await store.inbox_obstacle())

    async def find_ids(self, segment: int) -> list[int | bytes]:
        """Return the ids of the jobs whose records stand in a segment, but for some that are moved about just then.

        And the names of schedules.
        """
        engine = self.replica.engine
        found: list[int | bytes] = []
        names, after = schedules_in(engine, segment, b"")
        while after:
            found += names
            await asyncio.sleep(0)
            names, after = schedules_in(engine, segment, after)
        ids, at = engine.jobs.ids_in(segment, 0)
        while at:
            found += ids
            await asyncio.sleep(0)
            ids, at = engine.jobs.ids_in(segment, at)
        return found + ids

    async def drop(self, store: Store, complaints: list[Complaint]) -> None:
        """Drop the segments that nobody needs, and answer complaints of them; who was contradicted shall hear of that.

        Raises:
            FaultyError: what was written in place of a bad one can't be verified either, so nothing is dropped.
        """
        oldest = self.replica.records.accounts.first_segment
        dropped = [each for each in await store.segments() if each < oldest]
        if dropped and self.first_rewritten:
            self.checker = self.checker or Checker(store, self.first_rewritten)
            self.checker.store = store
            try:
                await self.checker.advance(await store.newest())
            except UnreadableError as error:
                raise FaultyError(f"what this node wrote in place of a bad segment is bad: {error}") from error
        for number in dropped:
            await store.drop_segment(number)
        gone = [each for each in complaints if each.place.segment < oldest]
        if answered := [each.node for each in gone if not each.verdict or each.node == OPERATOR]:
            await store.withdraw(answered)
        if 0 < self.repair_to < oldest:
            self.observer.repaired(self.repair_to)
            self.repair_to, self.first_rewritten, self.checker = 0, 0, None

    async def look_at(self, store: Store, complaint: Complaint) -> Complaint:
        """Repair the segment of a row that somebody can't verify, unless this node can; return what is to be noted."""
        segment = complaint.place.segment
        if complaint.verdict or segment >= self.first_rewritten > 0:
            return complaint  # what is written in place of a bad segment is read before that is dropped
        if segment > self.repair_to:
            try:
                if complaint.place > await store.newest():
                    return complaint  # nothing stands there: it spoke of rows that were lost since
                await check_segment(store, segment)
            except GoneError:
                return complaint
            except UnreadableError as error:
                if segment >= self.replica.records.accounts.first_segment:  # else it is dropped next
                    self.repair_to = segment
                    self.observer.repairs(segment, complaint.node, str(error))
            else:
                return self.contradict(complaint)
        return replace(complaint, is_repaired=segment <= self.repair_to)

    def contradict(self, complaint: Complaint) -> Complaint:
        """Return what is said to a node, or to an operator, that can't verify what this node can."""
        self.observer.contradicted(complaint.node, complaint.reason)
        node = self.replica.leader.get("node", "")
        verdict = f"node {node}, which leads, can read it: look at the memory of this node's machine"
        judged = replace(complaint, verdict=verdict)
        if complaint.place >= self.began and complaint.node != OPERATOR:
            self.contradicted[complaint.node] = judged  # which of the two is at fault the others will show
        return judged

    def verified(self, place: "Place") -> None:
        """Doubt nothing that this node has written up to a place: another node has applied it."""
        self.contradicted = {name: each for name, each in self.contradicted.items() if each.place > place}
