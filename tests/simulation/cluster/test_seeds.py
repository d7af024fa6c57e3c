"""What clients were told stays true, whatever is killed, paused, cut off, slow or promoted.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again. ``tests/seeds.py`` says which there are.
"""

import asyncio
from collections import Counter
from random import Random

import pytest

from beanpole.log.postgres.rows import Place
from beanpole.log.postgres.store import ChangedError, UnreadableError
from tests.seeds import seeds
from tests.simulation.cluster.database import Faults
from tests.simulation.cluster.history import check_history, check_times, settle
from tests.simulation.cluster.world import (
    Seen,
    SimulatedNode,
    World,
)

SEEDS = seeds(24, "CLUSTER_SEED")
LOST_SEEDS = SEEDS[: max(1, len(SEEDS) // 4)]
CLIENTS = 5
LOAD_S = 15.0
PATIENCE_S = 15.0
STOP_S = 30.0
IDS_KEPT = 20
KINDS = ("kill", "pause", "cut", "promote", "down", "lose", "slow", "stall", "wall", "hand over", "twin")
HARMS = ("damage", "drop table", "misread")
"""Kinds that end when the cluster has healed: it holds what was harmed in the memory of two nodes, not of one."""


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
                await asyncio.sleep(0.05)
                continue
            node = self.rng.choice(leaders)
            transport, epoch = node.connect(), node.log.epoch
            self.begin()
            while not transport.closed:
                command = self.next_command()
                sent_s, before = self.world.loop.time(), len(transport.output)
                self.world.unknown.append(command)
                node.in_context(transport.arrive, command)
                reply = await transport.reply(before, PATIENCE_S)
                if not reply:
                    break
                self.world.unknown.remove(command)
                self.world.history.append(Seen(sent_s, self.world.loop.time(), epoch, command, reply))
                self.learn(command, reply)
                await asyncio.sleep(self.rng.expovariate(20))

    def begin(self) -> None:
        """It has a new connection."""

    def learn(self, _command: bytes, reply: bytes) -> None:
        """Take note of a job that it can look at."""
        if reply.startswith(b"INSERTED"):
            self.ids.append(int(reply.split()[1]))

    def next_command(self) -> bytes:
        """Return what it sends next."""
        rng, pick = self.rng, self.rng.random()
        if pick < 0.4 or not self.ids:
            self.count += 1
            body = b"%d-%d-" % (self.number, self.count) + bytes(rng.choice((1, 50, 3000)))
            return b"put 1 %d 60 %d\r\n%b\r\n" % (rng.choice((0, 0, 0, 2)), len(body), body)
        if pick < 0.5:
            return b"reserve-with-timeout 0\r\n"
        if pick < 0.6:
            return b"peek %d\r\n" % rng.choice(self.ids)
        if pick < 0.65:
            return b"kick 3\r\n"
        at = rng.randrange(len(self.ids))
        if len(self.ids) > IDS_KEPT:
            return b"delete %d\r\n" % self.ids.pop(at)
        return b"delete %d\r\n" % self.ids[at]


class Trouble:
    """What goes wrong, again and again: a few kinds of it in one run."""

    def __init__(self, world: World, kinds: tuple[str, ...]) -> None:
        self.world = world
        self.rng = Random(world.rng.random())
        self.kinds = kinds or self.rng.sample(KINDS + HARMS, 4)

    async def run(self) -> None:
        """Let things go wrong until cancelled."""
        while True:
            await asyncio.sleep(self.rng.expovariate(0.8))
            await self.happen(self.rng.choice(self.kinds), self.rng.choice(self.world.nodes))

    async def happen(self, kind: str, node: SimulatedNode) -> None:
        """Let something happen to a node, or to the database."""
        world, rng, database = self.world, self.rng, self.world.database
        world.counts[kind] += 1
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
            world.counts["rows lost"] += await database.promote()
        elif kind == "down":
            database.down = True
            await asyncio.sleep(rng.random() * 3)
            database.down = False
        elif kind == "wall":
            node.clock.wall_s += rng.choice((-3600, 3600))
        elif kind == "hand over":
            node.node.hand_over(rng.choice(world.nodes).name)
        elif kind == "twin":
            await self.run_twin(node)
        elif kind in HARMS:
            await self.harm(kind)
        else:
            database.faults = {
                "lose": Faults(lost_before=0.02, lost_after=0.05, busy=0.02),
                "slow": Faults(slow=0.02, slow_s=rng.choice((0.3, 1.0, 3.0))),
                "stall": Faults(pause=0.003),
            }[kind]

    async def harm(self, kind: str) -> None:
        """Harm the log, or the memory of a follower, which starts again; wait until all have read everything."""
        world, rng, database = self.world, self.rng, self.world.database
        followers = [node for node in world.nodes if node not in world.leaders()]
        applied = world.applied()
        if len(followers) == len(world.nodes) or applied is None:
            return  # nobody leads, or some read the log still
        node = rng.choice(followers)
        number = rng.choice(sorted(database.tables))
        place = Place(number, rng.choice(sorted(database.tables[number]) or [0]))
        if (kind != "misread" and place > applied) or (kind == "drop table" and number >= applied.segment):
            return
        world.counts["kill"] += 1
        if kind == "damage":
            database.damage(place)
        elif kind == "drop table":
            database.drop_table(number)
        else:
            database.misreads[node.name] = rng.choice((0.1, 1.0))
        try:
            await node.kill()
            node.start()
            await asyncio.sleep(rng.choice((0.01, 0.1, 3.0)))
            database.misreads.clear()
            while world.applied() is None and not (node.task and node.task.done()):  # noqa: ASYNC110 - simulated time
                await asyncio.sleep(0.1)
        finally:
            database.misreads.clear()
            if kind == "misread":
                if node.task is not None and node.task.done():
                    assert isinstance(node.task.exception(), UnreadableError)
                await node.kill()
                node.start()

    async def run_twin(self, node: SimulatedNode) -> None:
        """Run a second process with a node's name for a while."""
        twin = SimulatedNode(self.world, node.name)
        self.world.nodes.append(twin)
        await asyncio.sleep(self.rng.random() * 4)
        self.world.nodes.remove(twin)
        await twin.kill()


async def run_for(world: World, seconds: float, *kinds: str, client: type[Client] = Client) -> None:
    """Let clients work for a while, and things go wrong."""
    world.begin()
    clients = [asyncio.ensure_future(client(world, number).run()) for number in range(CLIENTS)]
    troubles = asyncio.ensure_future(Trouble(world, kinds).run())
    await asyncio.sleep(seconds)
    for each in [troubles, *clients]:
        each.cancel()
    await asyncio.wait([troubles, *clients])
    for each in [*clients, troubles]:
        if not each.cancelled():
            each.result()
    for node in world.nodes:
        if node.task is None:
            node.start()


async def run_seed(world: World, *kinds: str) -> None:
    """Run one seed, and look whether everything that clients were told is true."""
    await run_for(world, LOAD_S, *kinds)
    jobs = await settle(world)
    check_history(world, jobs)
    check_times(world)
    assert not world.database.halted, "nothing was lost"
    world.counts["segments dropped"] = world.database.dropped_count
    world.counts["answers"] = len(world.history)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_clients_were_told_stays_true(seed: int) -> None:
    world = World(seed)
    world.run(run_seed(world))


def test_seeds_meet_what_they_are_for() -> None:
    """Otherwise they would show nothing."""
    counts: Counter[str] = Counter()
    for seed, kinds in enumerate(
        [("lose", "promote"), ("kill", "pause"), ("cut", "down"), ("stall", "slow"), HARMS] * 2
    ):
        world = World(1_000_000 + seed)
        world.run(run_seed(world, *kinds))
        counts += world.counts
    wanted = {"leads", "deposed", "stalled", "segments dropped", "unreachable", "repaired", "contradicted"}
    assert wanted <= set(counts), f"never happened: {wanted - set(counts)}"
    assert counts["answers"] > 2_000, "the clients hardly got an answer"


@pytest.mark.parametrize("seed", LOST_SEEDS)
def test_nodes_stop_when_confirmed_rows_are_gone(seed: int) -> None:
    """However it comes about that a promoted standby has not got what it confirmed. One may sleep until it is over."""
    world = World(seed)

    async def main() -> None:
        await run_for(world, 5.0)
        await settle(world)
        # The leader may be the only one that knows of the last row that it was confirmed.
        names = {node.name for node in world.nodes} - {node.name for node in world.leaders()}
        sleeper = world.rng.choice(["", *sorted(names)])
        awake = [node for node in world.nodes if node.name != sleeper]
        if sleeper:
            world.loop.pause(sleeper, 2 * STOP_S)
        assert await world.database.promote(lost_rows=world.rng.choice((1, 2, 20))) > 0
        until_s = world.loop.time() + STOP_S
        while not all(node.task is None or node.task.done() for node in awake):
            assert world.loop.time() < until_s, "a node goes on"
            await asyncio.sleep(0.1)
        for node in awake:
            assert isinstance(node.failure, ChangedError)
            assert node.turn is None, "its clients are closed"
        awake[0].start()
        await asyncio.sleep(1.0)
        assert awake[0].task is not None
        assert awake[0].task.done(), "a node that is started again goes on"
        world.database.accept_loss()
        for node in awake:
            node.start()
        await asyncio.sleep(2 * STOP_S)
        await settle(world)

    world.run(main())


def test_confirmed_rows_are_never_taken_back() -> None:
    """The simulated database keeps what a real one promises; without that nothing else here would show anything."""
    world = World(7)

    async def main() -> None:
        await run_for(world, LOAD_S)
        database = world.database
        rows = [row for row in database.confirmed if row.place.segment in database.tables]
        assert rows
        for row in rows:
            entry = database.find(row.place)
            assert entry is not None
            assert entry.row.hash == row.hash
        assert len({row.place for row in database.confirmed}) == len(database.confirmed), "two rows at a place"

    world.run(main())
