"""Jobs that transactions put: each that was committed is there once, whatever happens to nodes and the database.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again.
"""

import asyncio
from collections import Counter

import pytest

from tests.simulation.cluster.history import settle
from tests.simulation.cluster.test_seeds import SEEDS, Client, run_for
from tests.simulation.cluster.world import World, until

LOAD_S = 15.0


class Application(Client):
    """The first of a world puts jobs in transactions, and remembers which are committed for certain.

    The others are clients that end none of them.
    """

    tried = 0

    async def run(self) -> None:
        if self.number:
            await super().run()
        database = self.world.database
        database.inbox = {}
        while True:
            await asyncio.sleep(self.rng.expovariate(50))
            body = b"order-%d" % self.tried
            self.tried += 1
            if await database.put(body):
                self.world.counts["orders"] += 1
                committed_in(self.world).add(body)

    def next_command(self) -> bytes:
        return b"put 1 0 60 1\r\nx\r\n" if self.rng.random() < 0.5 else b"reserve-with-timeout 0\r\n"


def committed_in(world: World) -> set[bytes]:
    """The orders of a world that are committed."""
    orders: set[bytes] = world.__dict__.setdefault("orders", set())
    return orders


async def work(world: World, *kinds: str) -> None:
    """Let things go wrong beside an application; see that each order has its job, once, and no job has none."""
    await run_for(world, LOAD_S, *kinds, client=Application)
    await settle(world)
    await until(world, lambda: not world.database.inbox)
    bodies = Counter(body for body in (await settle(world)).values() if body != b"x")
    committed = committed_in(world)
    assert bodies.keys() >= committed, f"orders without a job: {sorted(committed - bodies.keys())}"
    assert len(bodies.keys() - committed) <= 1, "a job without an order, but for one whose commit was under way"
    assert bodies.total() == len(bodies), "an order with two jobs"


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 3)])
def test_each_order_has_its_job_once_whatever_happens(seed: int) -> None:
    world = World(seed)
    world.run(work(world))


def test_seeds_meet_what_they_are_for() -> None:
    counts: Counter[str] = Counter()
    for seed, kinds in enumerate([("lose", "promote"), ("promote", "slow"), ("kill", "hand over")]):
        world = World(1_000_000 + seed)
        world.run(work(world, *kinds))
        counts += world.counts
    assert counts["orders"] > 500
    assert counts["deposed"]
    assert counts["rows lost"]
