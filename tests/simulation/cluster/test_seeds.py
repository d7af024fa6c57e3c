"""What clients were told stays true, whatever is killed, paused, cut off, slow or promoted.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again, ``CLUSTER_SEEDS=n`` more of them.
"""

import asyncio
import os
from random import Random

import pytest

from beanpole.engine.check import check
from beanpole.log.postgres.rows import RowKind, unpack_note
from beanpole.log.reader import describe, read_header
from tests.simulation.cluster.database import Faults
from tests.simulation.cluster.world import Seen, SimulatedNode, World, state_of
from tests.unit.server.memory_transport import MemoryTransport

SEEDS = (
    [int(os.environ["CLUSTER_SEED"])]
    if "CLUSTER_SEED" in os.environ
    else range(int(os.environ.get("CLUSTER_SEEDS", "40")))
)
CLIENTS = 6
LOAD_S = 40.0
SETTLE_S = 120.0
PATIENCE_S = 15.0


class Client:
    """A client that puts, looks at and deletes jobs, and remembers what it was told."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.rng = Random(world.rng.random())
        self.number = number
        self.count = 0
        self.ids: list[int] = []

    async def run(self) -> None:
        """Work until cancelled, on whichever node says that it leads."""
        while True:
            leaders = self.world.leaders()
            if not leaders:
                await asyncio.sleep(0.02)
                continue
            node = self.rng.choice(leaders)
            transport, epoch = node.connect(), node.log.epoch
            while not transport.closed:
                await self.ask(node, transport, epoch)
                await asyncio.sleep(self.rng.expovariate(20))

    async def ask(self, node: SimulatedNode, transport: MemoryTransport, epoch: int) -> None:
        """Send one command, and note its reply."""
        world, rng = self.world, self.rng
        pick = rng.random()
        if pick < 0.45 or not self.ids:
            self.count += 1
            body = b"%d-%d-" % (self.number, self.count) + bytes(rng.choice((1, 50, 3000)))
            command = b"put 1 %d 60 %d\r\n%b\r\n" % (rng.choice((0, 0, 0, 2)), len(body), body)
        elif pick < 0.6:
            command = b"reserve-with-timeout 0\r\n"
        elif pick < 0.75:
            command = b"peek %d\r\n" % rng.choice(self.ids)
        elif pick < 0.8:
            command = b"kick 3\r\n"
        else:
            command = b"delete %d\r\n" % rng.choice(self.ids)
        sent_s = world.loop.time()
        before = len(transport.output)
        world.unknown.append(command)
        node.in_context(transport.arrive, command)
        while len(transport.output) == before:
            if transport.closed or world.loop.time() - sent_s > PATIENCE_S:
                transport.closed = True
                return
            await asyncio.sleep(0.001)
        reply = transport.output[before:]
        world.unknown.pop(len(world.unknown) - 1 - world.unknown[::-1].index(command))
        world.history.append(Seen(sent_s, world.loop.time(), epoch, command, reply))
        if reply.startswith(b"INSERTED"):
            self.ids.append(int(reply.split()[1]))


async def trouble(world: World) -> None:
    """Let things go wrong, again and again, until cancelled."""
    rng, database = Random(world.rng.random()), world.database
    kinds = rng.sample(["kill", "pause", "cut", "promote", "down", "lose", "slow", "wall", "hand over"], 4)
    while True:
        await asyncio.sleep(rng.expovariate(0.4))
        node = rng.choice(world.nodes)
        kind = rng.choice(kinds)
        if kind == "kill":
            await node.kill()
            await asyncio.sleep(rng.random())
            node.start()
        elif kind == "pause":
            world.loop.pause(node.name, rng.choice((0.5, 1.2, 2.0, 5.0)))
        elif kind == "cut":
            database.cut_off.add(node.name)
            await asyncio.sleep(rng.random() * 4)
            database.cut_off.discard(node.name)
        elif kind == "promote":
            await database.promote()
        elif kind == "down":
            database.down = True
            await asyncio.sleep(rng.random() * 3)
            database.down = False
        elif kind == "lose":
            database.faults = Faults(lost_before=0.02, lost_after=0.05, busy=0.02)
        elif kind == "slow":
            database.faults = Faults(slow=0.02, slow_s=rng.choice((0.3, 1.0, 3.0)))
        elif kind == "wall":
            node.clock.wall_s += rng.choice((-3600, 3600))
        else:
            node.node.hand_over(rng.choice(world.nodes).name)


async def settle(world: World) -> SimulatedNode:
    """Let everything work again, and wait until all nodes have applied all rows; return the leader."""
    database = world.database
    database.faults, database.down = Faults(), False
    database.cut_off.clear()
    until = world.loop.time() + SETTLE_S
    while world.loop.time() < until:
        await asyncio.sleep(1.0)
        leaders = world.leaders()
        others = [node for node in world.nodes if node not in leaders]
        if len(leaders) != 1 or leaders[0].node.leading is None:
            continue
        epoch = leaders[0].node.leading.epoch
        replicas = [node.node.following.replica for node in others if node.node.following is not None]
        if len(replicas) == len(others) and all(each is not None and each.epoch == epoch for each in replicas):
            return leaders[0]
    raise AssertionError("the nodes do not settle")


def check_history(world: World, bodies: dict[int, bytes]) -> None:
    """What clients were told is true in the end, and was when they were told."""
    puts: dict[int, bytes] = {}
    gone: dict[int, float] = {}
    for seen in sorted(world.history, key=lambda each: each.answered_s):
        words = seen.reply.split(b"\r\n")[0].split()
        if words[0] == b"INSERTED":
            assert int(words[1]) not in puts, f"job {int(words[1])} was given twice"
            puts[int(words[1])] = seen.command.split(b"\r\n")[1]
        elif words[0] == b"DELETED":
            id = int(seen.command.split()[1])
            assert gone.get(id, seen.answered_s) >= seen.sent_s, f"job {id} was deleted twice"
            gone.setdefault(id, seen.answered_s)
        elif words[0] in {b"RESERVED", b"FOUND"}:
            id = int(words[1])
            assert gone.get(id, seen.sent_s) >= seen.sent_s, f"job {id} was seen after its delete"
    maybe_gone = {int(command.split()[1]) for command in world.unknown if command.startswith(b"delete")}
    for id, body in puts.items():
        if id in gone:
            assert id not in bodies, f"job {id} is back"
        elif id not in maybe_gone:
            assert bodies.get(id) == body, f"job {id} is lost"
    latest: list[tuple[float, int]] = sorted((each.answered_s, each.epoch) for each in world.history)
    for seen in world.history:
        newest = max((epoch for answered_s, epoch in latest if answered_s < seen.sent_s), default=0)
        assert newest <= seen.epoch, f"a reply of epoch {seen.epoch} to a command that was sent in epoch {newest}"


def times_of(world: World) -> list[int]:
    """Return all times that the rows say, in their order."""
    times: list[int] = []
    header = None
    for number in sorted(world.database.tables):
        for _, entry in sorted(world.database.tables[number].items()):
            row, data, at = entry.row, entry.row.data, 0
            if row.kind in {RowKind.EPOCH, RowKind.HANDOVER}:
                _, data = unpack_note(data)
            if data and (row.kind == RowKind.EPOCH or row.place.row == 0):
                header = read_header(data)
                at = header.size
            while at < len(data):
                assert header is not None
                found = describe(data, at, header)
                assert found is not None
                at += found[0]
                times += [found[2]["time_ns"]] if "time_ns" in found[2] else []
    return times


@pytest.mark.parametrize("seed", SEEDS)
def test_what_clients_were_told_stays_true(seed: int) -> None:
    world = World(seed)

    async def main() -> None:
        world.begin()
        clients = [asyncio.ensure_future(Client(world, number).run()) for number in range(CLIENTS)]
        troubles = asyncio.ensure_future(trouble(world))
        await asyncio.sleep(LOAD_S)
        troubles.cancel()
        await asyncio.wait([troubles])
        for node in world.nodes:
            if node.task is not None and node.task.done():
                node.task.result()
            if node.task is None:
                node.start()
        await asyncio.sleep(5)
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)
        for each in [*clients, troubles]:
            if not each.cancelled():
                each.result()
        leader = await settle(world)
        await asyncio.sleep(2)
        for node in world.nodes:
            engine = (
                node.node.leading.replica.engine if node.node.leading else node.node.following.replica.engine  # type: ignore[union-attr]
            )
            check(engine)
            if node is not leader:
                assert state_of(engine) == leader.state(), f"{node.name} differs from {leader.name}"
        bodies = {id: text.split(b"\r\n")[1] for id, text in leader.state().items()}
        check_history(world, bodies)
        times = times_of(world)
        assert times == sorted(times), "the log's time goes back"
        assert len(world.history) > 100

    world.run(main())
