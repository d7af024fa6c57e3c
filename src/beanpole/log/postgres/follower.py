"""Following: a node that does not lead applies rows as they come, and stands for leader when none come any more.

Silence counts only while polls succeed: a node that can't reach the server knows nothing of the leader. A leader that
is slow is not dead: a candidate's row waits behind the one in flight, and then finds its place taken.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from beanpole.log import limits
from beanpole.log.postgres.checking import gone_from, read_behind
from beanpole.log.postgres.clock import Clock
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.observer import Observer
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import NOWHERE, Place, Row, RowKind
from beanpole.log.postgres.store import (
    Answer,
    BusyError,
    ChangedError,
    Complaint,
    DamagedError,
    GoneError,
    LossError,
    LostError,
    OpenStore,
    RewoundError,
    Store,
    UnreadableError,
)
from beanpole.log.postgres.tasks import watched

RECONNECT_S = 0.1
"""Seconds until a follower that has lost the server tries again."""

REPAIR_NS = 15_000_000_000
"""How long a node that can't verify a row waits for a leader that comes further with repairing it."""

DOUBTS_MAX = 2
"""How often a node that can't verify a row begins again: at once, and when the leader has had time to repair it."""


@dataclass(slots=True)
class Following:
    """A node that follows, until it leads."""

    open_store: OpenStore
    name: str
    clock: Clock
    make_replica: Callable[[Store, Row], Replica]
    make_leading: Callable[[Replica, Store], Leading]
    observer: Observer
    on_leader: Callable[[dict[str, str], int], None]
    """Called when a node leads, with what it says of itself and its epoch."""

    known: Row | None = None
    """A row that was confirmed, as this process knew before it began to read: it must be found again."""

    era: int = 0
    """The era of what this process knows of the log."""

    store: Store | None = None
    replica: Replica | None = None
    heard_ns: int = 0
    """When the last row came, or when the silence began to count."""

    is_caught_up: bool = False
    """Whether the last poll found all that there was, so that what comes next comes as it is written."""

    newest: Place | None = None
    """Where the log ended when this node began to read: who led before that may have been deposed long ago."""

    known_epoch: int = 0
    is_unreachable: bool = False
    """Whether the server could not be reached when that was tried last."""

    offset_ns: int | None = None
    """The log's clock minus the monotonic one, as it was counted before this node began again; None: it was not."""

    at: Place = NOWHERE
    """Where the next row is looked for."""

    unreadable: Place | None = None
    """The row that it can't verify."""

    doubt_count: int = 0
    """How often it began again for a row that it could not verify, since it had read everything."""

    verdict: str = ""
    """What a leader said to that, if it did not repair it."""

    @property
    def is_warm(self) -> bool:
        """Whether this node has read what there was when it began, so that it could lead at once."""
        return self.replica is not None and self.newest is not None and self.replica.tip.place >= self.newest

    async def run(self) -> Leading:
        """Follow, and return when this node leads.

        Raises:
            ChangedError: the log is not what was written.
            LossError: what was confirmed is gone.
            UnreadableError: a row can't be verified, and no leader repairs that.
            RefusedError: the server refuses the work.
        """
        while True:
            try:
                leading = await self.advance()
                if leading is not None:
                    return leading
            except GoneError as error:
                self.observer.starts_over(str(error))
                self.forget()
                await asyncio.sleep(limits.POLL_S)
            except UnreadableError as error:
                await self.doubt(error)
            except DamagedError as error:
                await self.doubt(UnreadableError(self.at, f"can't be read: {error}"))
            except RewoundError:
                assert self.replica is not None
                self.observer.rewound(self.replica.forget_unconfirmed())
            except (LostError, BusyError) as error:
                self.is_unreachable = True
                self.observer.unreachable(str(error))
                await self.disconnect()
                await asyncio.sleep(RECONNECT_S)

    async def advance(self) -> Leading | None:
        """Take the rows that are there; if there are none, stand for leader when it is time, else wait for a moment."""
        store = self.store = self.store or await self.connect()
        try:
            replica = self.replica = self.replica or await self.begin(store)
            answer = await self.poll(store, replica)
        except (ChangedError, GoneError):
            if await self.is_current(store):
                raise
            return None
        if self.is_unreachable:
            self.is_unreachable = False
            self.observer.reachable()
        if not answer.is_all or (answer.rows and self.is_named(replica.tip)):
            return None
        pause_s = limits.POLL_S
        if not answer.rows:
            left_s = self.silence_left_s(replica, store)
            if left_s <= 0:
                return await self.stand(replica, store)
            pause_s = min(left_s, pause_s)
        await asyncio.sleep(pause_s)  # also after rows: a poll costs both sides more than a row does
        return None

    def forget(self) -> None:
        """Forget what was read, but for a row that was confirmed, which must be found again, and the log's time."""
        if self.replica is not None:
            self.offset_ns = self.replica.offset_ns
            self.known = self.known or self.replica.applied  # what is looked for still stands behind what was applied
            self.replica = None

    async def doubt(self, error: UnreadableError) -> None:
        """Begin again for a row that can't be verified: at once, and the next time when a leader has repaired it.

        What was wrong the first time may have been this machine's memory. If no leader repairs it, or one can verify
        it, the node tries for a last time: also if the row is gone by then, with a segment that nobody needed.

        Raises:
            UnreadableError: the last time was in vain.
        """
        self.forget()
        self.doubt_count += 1
        if self.doubt_count > DOUBTS_MAX:
            raise UnreadableError(error.place, f"{error.what}; {self.verdict}") if self.verdict else error
        self.observer.unreadable(str(error), waits=self.doubt_count > 1)
        if self.doubt_count > 1:
            await self.wait_for_repair(error)

    async def wait_for_repair(self, error: UnreadableError) -> None:
        """Tell the leader of a row that can't be verified, and wait while it comes further with repairing it."""
        self.unreadable = error.place
        complaint = Complaint(self.name, error.place, str(error))
        is_noted, seen, until_ns = False, NOWHERE, self.clock.now_ns() + REPAIR_NS
        while self.clock.now_ns() < until_ns:
            try:
                store = self.store = self.store or await self.connect()
                if not is_noted:
                    await watched(store.complain(complaint), store, self.open_store)
                    is_noted = True
                segments = await watched(store.segments(), store, self.open_store)
                found = await watched(store.complaints(), store, self.open_store)  # a verdict is there before the drop
                mine = next((each for each in found if each.node == self.name), complaint)
                self.verdict = mine.verdict
                if self.verdict:
                    return
                if segments and segments[0] > error.place.segment:
                    self.end_doubt()
                    return
                newest = await watched(store.newest(), store, self.open_store) if mine.is_repaired else seen
                if newest > seen:  # whoever leads comes further
                    seen, until_ns = newest, self.clock.now_ns() + REPAIR_NS
            except (LostError, BusyError, GoneError) as lost:
                self.is_unreachable = True
                self.observer.unreachable(str(lost))
                await self.disconnect()
                is_noted = False  # another server need not have it, as that waited for no standby
                until_ns = self.clock.now_ns() + REPAIR_NS
            await asyncio.sleep(limits.REPAIR_POLL_S)

    def end_doubt(self) -> None:
        """Know of no row any more that can't be verified."""
        self.doubt_count, self.unreadable, self.verdict = 0, None, ""

    async def connect(self) -> Store:
        """Open a connection; silence begins to count again."""
        store = await self.open_store()
        self.enter(store.settings.era)
        self.heard_ns = self.clock.now_ns()
        # Of rows that come late by a new connection less time is counted than has passed. If this node has counted no
        # other, that is still nearer than its wall clock.
        self.is_caught_up = self.is_caught_up and self.replica is not None and self.replica.offset_ns is None
        self.newest = None
        return store

    def enter(self, era: int) -> None:
        """Know nothing of an earlier era any more: that it is gone was accepted."""
        if era > self.era and (self.known or self.replica):
            self.observer.starts_over("rows were lost, and `beanpole cluster accept-loss` has accepted that")
            self.known = self.replica = None
            self.is_caught_up = False
            self.known_epoch = 0
        self.era = max(era, self.era)

    async def is_current(self, store: Store) -> bool:
        """Whether what is set for the cluster is still what a connection found; else it is closed.

        What was read before is of the same era then, and of the same cluster.
        """
        if await watched(store.is_current(), store, self.open_store):
            return True
        await self.disconnect()
        return False

    async def stand(self, replica: Replica, store: Store) -> Leading | None:
        """Stand for leader; None: another node was faster, or something else is set for the cluster now."""
        if not await self.is_current(store):
            return None
        leading = self.make_leading(replica, store)
        self.store = None
        try:
            if await leading.stand():
                return leading
        except BaseException:
            await leading.store.close()
            raise
        if leading.store is store:
            self.store = store
            self.heard_ns = self.clock.now_ns()
        else:
            await leading.store.close()  # the log may end elsewhere by now, or be of another era
        return None

    async def disconnect(self) -> None:
        if self.store is not None:
            await self.store.close()
            self.store = None

    async def begin(self, store: Store) -> Replica:
        """Begin with the oldest row that there is."""
        segments = await watched(store.segments(), store, self.open_store)
        if not segments:
            raise GoneError("the log has no row")
        self.at = place = Place(segments[0], 0)
        if self.doubt_count == 0:
            await watched(store.withdraw([self.name]), store, self.open_store)
        try:
            first = await watched(store.first(place.segment), store, self.open_store)
        except GoneError:
            raise await watched(gone_from(store, place), store, self.open_store) from None
        if first is None:
            raise UnreadableError(place, "is missing")
        self.is_caught_up = False
        self.newest = None
        if self.known is not None and place > self.known.place:
            self.known = None  # its segment was dropped: it can't be looked for any more
        replica = self.make_replica(store, first)
        if self.offset_ns is not None:
            replica.offset_ns = self.offset_ns
        self.find_known(first)
        return replica

    async def poll(self, store: Store, replica: Replica) -> Answer:
        """Take the rows behind the tip; return what was found."""
        tip, self.at = replica.tip, replica.tip.next_place
        if self.newest is None:
            self.newest = await watched(store.newest(), store, self.open_store)
        try:
            answer = await watched(read_behind(store, tip, limits.ROWS_BYTES), store, self.open_store)
        except GoneError:
            segments = await watched(store.segments(), store, self.open_store)
            if tip.place.segment in segments:
                raise UnreadableError(tip.place, "is missing: the table of its segment is gone") from None
            if max(segments, default=0) > tip.place.segment:
                raise
            answer = Answer(
                has_tip=False, rows=[], is_all=True
            )  # not dropped: not even made, on a server that was promoted
        now_ns = self.clock.now_ns()
        if not answer.has_tip:
            raise await watched(self.judge_tip(store, replica), store, self.open_store)
        for row in answer.rows:
            replica.take(row, now_ns, is_live=self.is_caught_up)
            self.find_known(row)
        if answer.rows:
            self.heard_ns = now_ns
        else:
            await watched(self.check_end(store, tip, self.newest), store, self.open_store)
        if self.doubt_count and self.is_warm:
            await watched(store.withdraw([self.name]), store, self.open_store)
            self.end_doubt()
        self.is_caught_up = answer.is_all
        self.look_for_leader(replica, self.newest)
        return answer

    async def judge_tip(self, store: Store, replica: Replica) -> LossError | UnreadableError | RewoundError:
        """Return what it means that the tip is not there any more, or has another hash."""
        place = replica.tip.place
        (found,) = await store.rows_at([place])
        if found is not None and not found.is_sound:
            return UnreadableError(place, "is not what was written there")
        if replica.unapplied:
            return RewoundError(f"{place} is gone")
        if found is None and await store.newest() > place:
            return UnreadableError(place, "is missing")
        return LossError(f"{place} was confirmed, and is gone or another now")

    async def check_end(self, store: Store, tip: Row, newest: Place) -> None:
        """Look whether the log really ends behind its last row.

        Raises:
            UnreadableError: there are rows behind a gap, or the next segment's table is missing.
            LossError: a row was confirmed that should be there.
        """
        if newest > tip.place:
            raise UnreadableError(tip.next_place, "is missing")
        if self.known is not None:
            raise LossError(f"{self.known.place} was confirmed, and is gone")
        if tip.kind == RowKind.END:
            try:
                await store.first(tip.next_place.segment)
            except GoneError:
                error = await gone_from(store, tip.next_place)
                if isinstance(error, UnreadableError):
                    raise error from None

    def look_for_leader(self, replica: Replica, newest: Place) -> None:
        """Report who leads, once, when so much is read that it is no leader of long ago.

        That doesn't wait for a poll that finds nothing: while the leader has much to write there may be none.
        """
        if replica.epoch == self.known_epoch or replica.epoch != replica.tip.epoch or replica.tip.place < newest:
            return
        if replica.leader:
            self.known_epoch = replica.epoch
            self.on_leader(replica.leader, replica.epoch)

    def find_known(self, row: Row) -> None:
        """Look whether a row is the one that must be found again."""
        known = self.known
        if known is None or row.place < known.place:
            return
        if row.place != known.place or row.hash != known.hash:
            raise LossError(f"{known.place} was confirmed, and is another now")
        self.known = None

    def is_named(self, tip: Row) -> bool:
        """Whether the last leader handed over to this node."""
        return tip.kind == RowKind.HANDOVER and tip.unpack()[0].get("to") == self.name

    def silence_left_s(self, replica: Replica, store: Store) -> float:
        """Return in how many seconds it is time to stand for leader, if no row comes until then; everything is read."""
        if replica.tip.kind == RowKind.CLOSED:
            return math.inf
        if self.is_named(replica.tip):
            return 0.0
        return store.settings.silence_ms / 1e3 - (self.clock.now_ns() - self.heard_ns) / 1e9
