"""A node of a cluster: it follows until it leads, and leads until it is deposed or hands over.

What the server does in each role is behind :class:`Roles`; when a node stops leading its engine is thrown away, with
all clients, and it follows from the oldest row again.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

import beanpole
from beanpole.engine.engine import Engine
from beanpole.errors import BeanpoleError
from beanpole.log import limits
from beanpole.log.encoder import Encoder
from beanpole.log.postgres.clock import Clock
from beanpole.log.postgres.follower import Following
from beanpole.log.postgres.leader import DeposedError, Leading
from beanpole.log.postgres.observer import Observer
from beanpole.log.postgres.replica import Replica
from beanpole.log.postgres.rows import NOWHERE, Row, new_writer
from beanpole.log.postgres.stall import Stall
from beanpole.log.postgres.store import (
    FOLLOWER,
    FORCED,
    LEADER,
    READING,
    BusyError,
    ChangedError,
    FaultyError,
    GoneError,
    LossError,
    LostError,
    NoClusterError,
    NodeState,
    OpenStore,
    RefusedError,
    Settings,
    Store,
)
from beanpole.log.postgres.tasks import run_beside, watched

POLL_NAMED_S = 0.002
"""The same for the node to which the leader handed over."""

HANDOVER_NS = 1_000_000_000
"""Nanoseconds that a leader which handed over waits for its successor before it closes its clients."""

HANDED_OVER_S = 1.0
"""Seconds that it leaves the server to its successor before it reads the log again."""

KEEP_LEAD_NS = 60_000_000_000
"""Nanoseconds for which a node that was named by the leader before leads on though the others can't reach it."""

CONTRADICTED_NS = 20_000_000_000
"""How long two other nodes can't verify what a leader wrote, and it can, until it stops: they have read it again."""


class Roles(Protocol):
    """What serves clients: with an engine of this node, or through the node that leads."""

    def lead(self, engine: Engine, log: Leading) -> None:
        """Serve clients with an engine."""

    def follow(self, note: dict[str, str], epoch: int, cluster: str) -> None:
        """Pass clients to the node that leads in an epoch of this cluster, and says this of itself."""

    def pause(self) -> None:
        """Run no more commands, but go on sending what becomes durable."""

    @property
    def reaches_leader(self) -> bool:
        """Whether the leader's address can be reached."""

    def stop_leading(self) -> None:
        """Close every client without a further reply, and forget the engine."""


class Node:
    """One process of a cluster."""

    def __init__(  # noqa: PLR0913 - everything replaceable is an argument
        self,
        open_store: OpenStore,
        *,
        note: dict[str, str],
        clock: Clock,
        observer: Observer,
        roles: Roles,
        make_engine: Callable[[Encoder, Settings], Engine],
        writer: bytes | None = None,
    ) -> None:
        self.open_store = open_store
        self.note = note
        """What the node says of itself: `node`, its name; `address`, where clients reach it."""

        self.clock = clock
        self.observer = observer
        self.roles = roles
        self.make_engine = make_engine
        self.writer = new_writer() if writer is None else writer
        self.following: Following | None = None
        self.leading: Leading | None = None
        self.known: Row | None = None
        """The last row that this process knew to be confirmed when it led."""

        self.offset_ns: int | None = None
        """The log's clock minus the monotonic one, when it led last; None: it never did."""

        self.cluster = ""
        """The cluster's id, when it was found."""

        self.era = 0
        """The era of what this process knows of the log."""

        self.known_epoch = 0
        """The epoch of the leader that was reported last."""

        self.keeps_lead_until_ns = 0
        """Until when this node leads on though no other reaches it: else two that don't reach each other take turns."""

        self.contradicted_ns: dict[str, int] = {}
        """Since when other nodes can't verify what this one has written, by name."""

        self.nodes: list[NodeState] = []
        """What the nodes said of themselves last, this one too."""

        self.has_reported = False
        self.unshown = ""
        """Why what this node says of itself is not shown; empty: it is."""

    async def run(self) -> None:
        """Follow and lead, in turn, until cancelled.

        Raises:
            ChangedError: the log is not what was written, or an operator must accept that confirmed rows are gone.
            RefusedError: the server refuses the work.
        """
        try:
            await run_beside(self.follow_and_lead(), self.report())
        except LossError as error:
            await self.halt(str(error))
            raise

    async def open(self) -> Store:
        """Open a connection to the cluster that this node knows, once it has found one.

        Raises:
            ChangedError: the database has another cluster now, or none.
        """
        gone = f"the tables of cluster {self.cluster}, with all of its jobs, were dropped"
        try:
            store = await self.open_store()
        except NoClusterError as error:
            if self.cluster:
                raise ChangedError(f"{gone}; restore them, or make a cluster with `beanpole cluster init`") from error
            raise
        found = store.settings.cluster
        if found != (self.cluster or found):
            await store.close()
            raise ChangedError(f"{gone}, and the database has another cluster now, {found}: start this node again")
        self.cluster = found
        return store

    async def halt(self, reason: str) -> None:
        """Stop the other nodes too, if the server can be reached."""
        with contextlib.suppress(BeanpoleError, TimeoutError):
            async with asyncio.timeout(limits.HALT_S):
                store = await self.open()
                await store.halt(f"{self.note['node']}: {reason}", self.era)
                await store.close()

    async def follow_and_lead(self) -> None:
        while True:
            began_ns = self.clock.now_ns()
            self.following = Following(
                self.open,
                name=self.note["node"],
                clock=self.clock,
                make_replica=self.make_replica,
                make_leading=self.make_leading,
                observer=self.observer,
                on_leader=self.follow_leader,
                known=self.known,
                known_epoch=self.known_epoch,
                era=self.era,
            )
            try:
                leading = await self.following.run()
            finally:
                self.era = self.following.era
                await self.following.disconnect()
            self.following, self.leading = None, leading
            seconds = (self.clock.now_ns() - began_ns) / 1e9
            self.observer.leads(leading.epoch, leading.replica.engine.jobs.count, seconds)
            await self.lead(leading)
            del leading  # or this node would hold every job twice when it has read them again

    async def lead(self, leading: Leading) -> None:
        """Lead until another node does."""
        began: Row | None = None
        self.known_epoch = 0
        try:
            self.roles.lead(leading.replica.engine, leading)
            await leading.run()
            if leading.successor:
                began = await self.wait_for_successor(leading)
        except DeposedError as error:
            self.observer.deposed(str(error))
        finally:
            self.leading, self.known, self.offset_ns = None, leading.confirmed_row, leading.clock_offset_ns
            self.roles.stop_leading()
            await leading.store.close()
        if began is not None:
            # Clients that come here are passed on at once. Reading the log again waits: the new leader's first commits
            # would share the server with it.
            self.known_epoch = began.epoch
            self.follow_leader(began.unpack()[0], began.epoch)
            await asyncio.sleep(HANDED_OVER_S)

    def follow_leader(self, note: dict[str, str], epoch: int) -> None:
        """Let clients be passed to the node that leads."""
        self.observer.leader_known(note, epoch)
        self.roles.follow(note, epoch, self.cluster)

    async def wait_for_successor(self, leading: Leading) -> Row | None:
        """Wait a little until somebody leads behind our HANDOVER row: then clients that return find a leader.

        Return the row with which it began, None if nobody did.
        """
        until_ns = self.clock.now_ns() + HANDOVER_NS
        store = leading.store
        with contextlib.suppress(LostError, GoneError, BusyError):
            while self.clock.now_ns() < until_ns:
                rows = (await watched(store.read(leading.tip, 1), store, self.open)).rows
                if rows:
                    return rows[0]
                await asyncio.sleep(POLL_NAMED_S)
        return None

    async def report(self) -> None:
        """Say once a second what this node is doing, and hand over where that is asked for or needed."""
        store: Store | None = None
        try:
            while True:
                try:
                    if store is not None and self.is_replaced(store):
                        raise LostError("another server was promoted")
                    store = store or await self.open()
                    state = self.state()
                    successor = await watched(store.asked(state.epoch), store, self.open)
                    await self.show(store, state)
                    self.look_at_nodes(successor)
                except (LostError, BusyError, GoneError):
                    if store is not None:
                        await store.close()
                        store = None
                await asyncio.sleep(limits.REPORT_S)
        finally:
            if store is not None:
                await store.close()

    async def show(self, store: Store, state: NodeState) -> None:
        """Say what this node is doing, and learn of the others. It goes on without, where the server refuses that."""
        problem = ""
        try:
            self.nodes = await watched(store.report(state), store, self.open)
            self.has_reported = True
        except (RefusedError, GoneError) as error:
            self.nodes, problem = [], str(error)
        if problem and not self.unshown:
            self.observer.not_shown(problem)
        self.unshown = problem

    def is_replaced(self, store: Store) -> bool:
        """Whether the log is on a newer server than a connection's, which may go on for long."""
        work = self.leading or self.following
        return work is not None and work.store is not None and work.store.server.timeline > store.server.timeline

    def state(self) -> NodeState:
        """Return what this node says of itself."""
        replica = self.following.replica if self.following is not None else None
        role, epoch, applied = READING, 0, NOWHERE
        if self.following is not None and self.following.is_warm:
            role = FOLLOWER
        if self.leading is not None:
            role, epoch, applied = LEADER, self.leading.epoch, self.leading.confirmed
        elif replica is not None:
            epoch, applied = replica.epoch, replica.applied.place
        return NodeState(
            self.note["node"],
            self.note["address"],
            role,
            epoch,
            applied,
            beanpole.__version__,
            limits.CLUSTER_FORMAT,
            self.note.get("machine", ""),
            self.roles.reaches_leader,
            self.writer,
            self.clock.wall_ns() / 1e9,
            self.note.get("zones", ""),
        )

    def look_at_nodes(self, successor: str) -> None:
        """Hand over if it was asked for, or if every other node says that it can't reach this one."""
        mine = [each for each in self.nodes if each.name == self.note["node"] and each.is_alive]
        if any(each.writer != self.writer for each in mine):
            self.observer.name_taken(self.note["node"])
        if self.leading is None or self.leading.successor is not None:
            return
        if successor:
            self.step_down(self.leading, successor)
            return
        self.check_writing(self.leading)
        # Those of another epoch speak of another leader.
        others = [each for each in self.live_others() if each.is_warm]
        is_cut_off = bool(others) and all(
            each.epoch == self.leading.epoch and not each.reaches_leader for each in others
        )
        if is_cut_off and self.clock.now_ns() < self.keeps_lead_until_ns:
            self.observer.cut_off()
        elif is_cut_off:
            self.hand_over()

    def check_writing(self, leading: Leading) -> None:
        """Stop if two nodes can't verify what this one has written, and none has read beyond it, whatever it finds.

        They have time to read it again: what they did not find may not have been there yet.
        """
        leading.maintenance.verified(
            max((each.applied for each in self.live_others() if each.is_warm), default=NOWHERE)
        )
        bad, now_ns = leading.maintenance.contradicted, self.clock.now_ns()
        self.contradicted_ns = {name: self.contradicted_ns.get(name, now_ns) for name in bad}
        places = [bad[name].place for name, ns in self.contradicted_ns.items() if now_ns - ns > CONTRADICTED_NS]
        if len(places) > 1:
            raise FaultyError(f"no other node can verify what this one has written: {', '.join(bad)}, {places[0]}")

    def step_down(self, leading: Leading, to: str) -> None:
        """Hand over to a node, as an operator asked for; FORCED: to any, or to nobody if there is none."""
        warm = [each.name for each in self.live_others() if each.is_warm]
        if to == FORCED:
            if not self.hand_over():
                self.roles.pause()
                leading.hand_over("")
        elif to not in warm or not self.hand_over(to):
            names = ", ".join(warm) or "none"
            self.observer.goes_on(f"node {to!r} is not alive, or can't lead yet; it could be {names}")

    def live_others(self) -> list[NodeState]:
        """Return the other nodes that are alive and could lead, the one that has applied most first."""
        least = 0 if self.leading is None else self.leading.store.settings.format
        others = [
            each for each in self.nodes if each.name != self.note["node"] and each.is_alive and each.format >= least
        ]
        return sorted(others, key=lambda each: each.applied, reverse=True)

    def hand_over(self, to: str = "") -> bool:
        """Let another node lead: append what is buffered, then the row that names it. False: there is none."""
        names = [each.name for each in self.live_others()]
        if self.leading is None or not names or (to and to not in names):
            return False
        if self.leading.successor is None:
            self.roles.pause()
            self.leading.hand_over(to or names[0])
        return True

    def make_replica(self, store: Store, first: Row) -> Replica:
        """Return an engine that has applied the first row of the log."""
        replica = Replica(store.settings, first, self.make_engine, self.clock.now_ns())
        replica.offset_ns = self.offset_ns
        return replica

    def make_leading(self, replica: Replica, store: Store) -> Leading:
        """Return the log with which this node would lead."""
        stall = Stall(self.clock, self.observer)
        is_named = self.following is not None and self.following.is_named(replica.tip)
        self.keeps_lead_until_ns = self.clock.now_ns() + KEEP_LEAD_NS if is_named else 0
        return Leading(
            replica,
            store,
            self.open,
            note=self.note,
            writer=self.writer,
            clock=self.clock,
            stall=stall,
            observer=self.observer,
        )
