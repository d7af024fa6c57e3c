"""Following: a node that does not lead applies rows as they come, and stands for leader when none come any more.

Silence counts only while polls succeed: a node that can't reach the server knows nothing of the leader. A leader that
is slow is not dead: a candidate's row waits behind the one in flight, and then finds its place taken.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from beanpole.log import limits
from beanpole.log.postgres.clock import Clock
from beanpole.log.postgres.leader import Leading
from beanpole.log.postgres.replica import ChangedError, Replica, RewoundError
from beanpole.log.postgres.rows import Row, RowKind, unpack_note
from beanpole.log.postgres.store import BusyError, GoneError, LostError, OpenStore, Store


class FollowObserver(Protocol):
    """Who is told what happens to a node that follows."""

    def leader_known(self, note: dict[str, str], epoch: int) -> None:
        """A node leads, and says this of itself."""

    def rewound(self, count: int) -> None:
        """So many rows are gone that were not confirmed: nobody was answered on them."""

    def unreachable(self, reason: str) -> None:
        """The server can't be reached; this is said again and again while it is so."""

    def starts_over(self, reason: str) -> None:
        """The node reads the log from its oldest row again."""


@dataclass(slots=True)
class Following:
    """A node that follows, until it leads."""

    open_store: OpenStore
    name: str
    clock: Clock
    make_replica: Callable[[Store, Row], Replica]
    make_leading: Callable[[Replica, Store], Leading]
    observer: FollowObserver
    store: Store | None = None
    replica: Replica | None = None
    heard_ns: int = 0
    """When the last row came, or when the silence began to count."""

    known_epoch: int = field(default=0)

    async def run(self) -> Leading:
        """Follow, and return when this node leads.

        Raises:
            ChangedError: what was confirmed is gone.
            RefusedError: the server refuses the work.
        """
        while True:
            try:
                store = self.store = self.store or await self.connect()
                replica = self.replica = self.replica or await self.begin(store)
                if await self.poll(store, replica):
                    continue
                if self.may_stand(replica):
                    leading = self.make_leading(replica, store)
                    if await leading.stand():
                        self.store = None
                        return leading
                    self.store = leading.store
                    self.heard_ns = self.clock.now_ns()
                    continue
                await asyncio.sleep(limits.POLL_NAMED_S if self.is_named(replica.tip) else limits.POLL_S)
            except GoneError as error:
                self.observer.starts_over(str(error))
                self.replica = None
            except RewoundError:
                assert self.replica is not None
                self.observer.rewound(self.replica.forget_unconfirmed())
            except (LostError, BusyError) as error:
                self.observer.unreachable(str(error))
                await self.disconnect()
                await asyncio.sleep(limits.RECONNECT_S)

    async def connect(self) -> Store:
        """Open a connection; silence begins to count again."""
        store = await self.open_store()
        self.heard_ns = self.clock.now_ns()
        return store

    async def disconnect(self) -> None:
        """Close the connection."""
        if self.store is not None:
            await self.store.close()
            self.store = None

    async def begin(self, store: Store) -> Replica:
        """Begin with the oldest row that there is."""
        for segment in await store.segments():
            first = await store.first(segment)
            if first is None:
                break
            return self.make_replica(store, first)
        raise GoneError("the log has no row")

    async def poll(self, store: Store, replica: Replica) -> bool:
        """Take the rows behind the tip; whether there were any."""
        is_there, rows = await store.read(replica.tip, limits.ROWS_BYTES)
        now_ns = self.clock.now_ns()
        if not is_there:
            if not replica.unapplied:
                raise ChangedError(f"{replica.tip.place} was confirmed, and is gone or another now")
            raise RewoundError(f"{replica.tip.place} is gone")
        for row in rows:
            replica.take(row, now_ns)
        if rows:
            self.heard_ns = now_ns
        else:
            replica.is_live = True
        if replica.epoch != self.known_epoch:
            self.known_epoch = replica.epoch
            self.observer.leader_known(replica.leader, replica.epoch)
        return bool(rows)

    def is_named(self, tip: Row) -> bool:
        """Whether the last leader handed over to this node."""
        return tip.kind == RowKind.HANDOVER and unpack_note(tip.data)[0].get("to") == self.name

    def may_stand(self, replica: Replica) -> bool:
        """Whether it is time to stand for leader: everything is read, and no row came for the silence limit."""
        assert self.store is not None
        if replica.tip.kind == RowKind.CLOSED:
            return False
        silence_ns = self.store.settings.silence_ms * 1_000_000
        return self.is_named(replica.tip) or self.clock.now_ns() - self.heard_ns >= silence_ns
