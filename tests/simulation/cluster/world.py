"""Nodes, clients and what they saw, in simulated time."""

import asyncio
import contextlib
import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log.postgres.node import Node
from beanpole.log.postgres.rows import Place
from beanpole.server.clusterroles import InboxClient
from beanpole.server.connection import Connection
from beanpole.server.turn import Turn
from tests.simulation.cluster.database import SETTINGS, Database
from tests.simulation.cluster.loop import NODE, SimulatedLoop
from tests.unit.server.memory_transport import MemoryTransport

SHARDS: tuple[tuple[int, ...], ...] = ((), (1,), (3, 17), (), (1023,))
TICK_S = 0.05
COMMAND_S_MAX = 60.0
BODY = b"x" * 3000


class SimulatedClock:
    """The clocks of a machine; the wall clock can be wrong."""

    def __init__(self, loop: SimulatedLoop, boot_s: float, wall_s: float) -> None:
        self.loop = loop
        self.boot_s = boot_s
        self.wall_s = wall_s

    def now_ns(self) -> int:
        return int((self.loop.time() + self.boot_s) * 1e9)

    def boot_ns(self) -> int:
        return self.now_ns()

    def wall_ns(self) -> int:
        return int((self.loop.time() + self.wall_s) * 1e9)


class Silent:
    """Notes what an operator would read."""

    def __init__(self, tell: Callable[[tuple[Any, ...]], None]) -> None:
        self.tell = tell

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: self.tell((name, *args, *named.values()))


@dataclass(slots=True)
class Seen:
    """A command and its reply, as a client saw them."""

    sent_s: float
    answered_s: float
    epoch: int
    command: bytes
    reply: bytes


@dataclass
class World:
    """Everything that is simulated."""

    seed: int
    node_count: int = 3
    rng: Random = field(init=False)
    loop: SimulatedLoop = field(init=False)
    history: list[Seen] = field(default_factory=list)
    unknown: list[bytes] = field(default_factory=list)
    """Commands that were never answered."""

    counts: Counter[str] = field(default_factory=Counter)
    """What happened, and how often."""

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.loop = SimulatedLoop()

    def run(self, main: Any) -> None:
        try:
            self.loop.run_until_complete(main)
        finally:
            self.loop.paused_until_s.clear()
            while tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.wait(tasks))
            self.loop.close()

    def begin(self) -> None:
        """Make the database and the nodes. Called in the loop."""
        self.database = Database(self.rng, replace(SETTINGS, shard=SHARDS[self.seed % len(SHARDS)]))
        self.nodes = [SimulatedNode(self, f"n{i}") for i in range(self.node_count)]

    def tell(self, line: tuple[Any, ...]) -> None:
        self.counts[line[0]] += 1

    def leaders(self) -> list["SimulatedNode"]:
        """Return the nodes that believe that they lead."""
        return [node for node in self.nodes if node.turn is not None]

    def applied(self) -> Place | None:
        """Return up to where all nodes have applied the log; None: one leads not, and reads it still."""
        places: list[Place] = []
        for node in (each.node for each in self.nodes):
            if node.leading is not None:
                places.append(node.leading.confirmed)
            elif node.following is not None and node.following.is_warm and node.following.replica is not None:
                places.append(node.following.replica.applied.place)
            else:
                return None
        return min(places)


class ClientTransport(MemoryTransport):
    """A client's connection, which says when something comes."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.changed = asyncio.Event()

    def send_bytes(self, data: bytes) -> int:
        """See MemoryTransport."""
        size = super().send_bytes(data)
        self.changed.set()
        return size

    async def reply(self, before: int, patience_s: float) -> bytes:
        """Wait for something behind what came before; nothing: the connection is closed, or patience is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while len(self.output) == before and not self.closed:
                    self.changed.clear()
                    await self.changed.wait()
        return self.output[before:]


class SimulatedNode:
    """A node and what serves its clients."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.told: list[tuple[Any, ...]] = []
        """What an operator would read of it."""

        self.observer = Silent(self.tell)
        self.turn: Turn | None = None
        self.log: Any = None
        self.paused = False
        """Whether it runs no more commands, as it hands over."""

        self.clients: list[ClientTransport] = []
        self.clock = SimulatedClock(world.loop, world.rng.random() * 1e5, 1e9 + world.rng.random() * 7200)
        self.task: asyncio.Task[None] | None = None
        self.last_log_ns = 0
        self.start()

    def tell(self, line: tuple[Any, ...]) -> None:
        self.told.append(line)
        self.world.tell(line)

    def start(self) -> None:
        self.node = Node(
            self.world.database.opener(self.name),
            note={"node": self.name, "address": self.name},
            clock=self.clock,
            observer=self.observer,
            roles=self,
            make_engine=lambda records, _settings: Engine(now_ns=0, records=records),
            writer=self.world.rng.randbytes(16),
        )
        token = NODE.set(self.name)
        self.task = self.world.loop.create_task(self.node.run())
        NODE.reset(token)

    async def kill(self) -> None:
        if self.task is not None:
            task, self.task = self.task, None
            task.cancel()
            self.close()
            await asyncio.wait([task])

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself."""
        return self.task is not None and self.task.done()

    @property
    def failure(self) -> BaseException | None:
        """Why it has ended."""
        assert self.task is not None
        return self.task.exception()

    @property
    def is_warm(self) -> bool:
        """Whether it follows, and has read everything."""
        return self.node.following is not None and self.node.following.is_warm

    # --- Roles --------------------------------------------------------------------------------------------------------

    def lead(self, engine: Engine, log: Any) -> None:
        check(engine)
        self.log = log
        self.paused = False
        self.turn = Turn(engine, log)
        self.turn.run_soon = self.run_soon
        log.start(self.send_held, None)
        log.inbox.put = InboxClient(self.turn, self.read_clocks).put
        self.world.loop.call_later(TICK_S, self.tick, log)

    def run_soon(self) -> None:
        self.world.loop.call_soon(self.run_turn)

    def follow(self, note: dict[str, str], epoch: int, cluster: str) -> None:
        """Nothing: clients of a simulation find the leader themselves."""

    reaches_leader = True

    def pause(self) -> None:
        self.paused = True
        self.log.inbox.put = None

    def stop_leading(self) -> None:
        self.close()

    # --- turns --------------------------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        return int(self.clock.now_ns() + self.log.clock_offset_ns)

    def read_clocks(self) -> int:
        """Its log's time; the engine is told how far the wall clock is ahead of that."""
        assert self.turn is not None
        now_ns = self.now_ns()
        self.turn.engine.wall_lead_ns = self.clock.wall_ns() - now_ns
        return now_ns

    def send_held(self) -> None:
        if self.turn is not None:
            self.turn.send_held(self.read_clocks())

    def run_turn(self) -> None:
        if self.turn is not None and not self.paused:
            self.turn.run(self.read_clocks())

    def tick(self, log: Any) -> None:
        if self.turn is not None and self.log is log:
            self.run_turn()
            self.world.loop.call_later(TICK_S, self.tick, log)

    def close(self) -> None:
        if self.turn is not None:
            self.turn.stop()
            self.turn = None
            for client in self.clients:
                client.closed = True
                client.changed.set()
            self.clients = []

    # --- clients ------------------------------------------------------------------------------------------------------

    def connect(self) -> "ClientTransport":
        assert self.turn is not None
        self.clients.append(ClientTransport(self.turn))
        return self.clients[-1]

    def in_context(self, call: Any, *args: Any) -> None:
        """Let the node do something, when it runs."""
        token = NODE.set(self.name)
        self.world.loop.call_soon(call, *args)
        NODE.reset(token)

    def state(self) -> dict[int, bytes]:
        engine = self.node.leading.replica.engine if self.node.leading else self.node.following.replica.engine  # type: ignore[union-attr]
        return state_of(engine)


def state_of(engine: Engine) -> dict[int, bytes]:
    """Return every job with its body and state as after a restart."""
    connection = Connection(engine, engine.started_at_ns)
    found = {}
    for id in sorted(job.id for job in engine.jobs.jobs()):
        connection.receive(engine.started_at_ns, b"peek %d\r\n" % id)
        found[id] = connection.take_output()
    connection.close(engine.started_at_ns)
    return found


# --- tests ---


def simulated(*, segment_bytes: int = SETTINGS.segment_bytes) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a test of a coroutine, in a world of three nodes.

    It is given the `world` and the first node that leads, as `leader`, if it asks for them; the rest is from pytest.
    """

    def decorate(main: Callable[..., Any]) -> Callable[..., None]:
        wanted = inspect.signature(main).parameters

        @functools.wraps(main)
        def test(**given: Any) -> None:
            world = World(1)

            async def begin() -> None:
                world.begin()
                world.database.settings = replace(SETTINGS, segment_bytes=segment_bytes)
                found: dict[str, object] = {"world": world}
                if "leader" in wanted:
                    found["leader"] = await leader_of(world)
                await main(**{name: each for name, each in found.items() if name in wanted}, **given)

            world.run(begin())

        others = [each for name, each in wanted.items() if name not in {"world", "leader"}]
        test.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return test

    return decorate


async def ask(node: SimulatedNode, client: ClientTransport, *lines: bytes) -> bytes:
    """Send commands and wait for what comes back, or for the end of the connection."""
    before = len(client.output)
    node.in_context(client.arrive, b"".join(line + b"\r\n" for line in lines))
    reply = await client.reply(before, COMMAND_S_MAX)
    assert reply or client.closed, f"no answer to {lines}"
    return reply


async def leader_of(world: World, but: SimulatedNode | None = None) -> SimulatedNode:
    """Wait until a node leads."""
    until = world.loop.time() + COMMAND_S_MAX
    while True:
        found = [node for node in world.leaders() if node is not but]
        if found:
            return found[0]
        assert world.loop.time() < until, "no node leads"
        await asyncio.sleep(0.01)


async def until(world: World, what: Callable[[], bool], pause_s: float = 0.01) -> None:
    """Wait until something is so."""
    until_s = world.loop.time() + COMMAND_S_MAX
    while not what():
        assert world.loop.time() < until_s, "it never happens"
        await asyncio.sleep(pause_s)


async def put(node: SimulatedNode, client: ClientTransport, body: bytes = b"x", delay_s: int = 0) -> int:
    """Put a job and return its id."""
    reply = await ask(node, client, b"put 1 %d 60 %d" % (delay_s, len(body)), body)
    assert reply.startswith(b"INSERTED"), reply
    return int(reply.split()[1])


async def roll(world: World, leader: SimulatedNode) -> None:
    """Let the segment of the EPOCH row be dropped."""
    client = leader.connect()
    while min(world.database.tables) == 1:
        for _ in range(10):
            id = await put(leader, client, BODY)
            assert await ask(leader, client, b"delete %d" % id) == b"DELETED\r\n"


async def fail_over(world: World, leader: SimulatedNode) -> SimulatedNode:
    """Let another node lead, after more rows than a follower reads at once."""
    await asyncio.sleep(10.0)
    await leader.kill()
    other = await leader_of(world, leader)
    leader.start()
    return other


def leaders_reported(node: SimulatedNode) -> list[int]:
    """Return the epochs whose leaders a node reports from now on."""
    epochs: list[int] = []
    node.observer.tell = lambda line: epochs.append(line[2]) if line[0] == "leader_known" else None
    return epochs
