"""Clients with tokens: whatever happens to nodes and the database, who has a job returns to it, and nobody else has it.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again.
"""

import pytest

from tests.simulation.cluster.history import settle
from tests.simulation.cluster.test_seeds import SEEDS, Client, run_for
from tests.simulation.cluster.world import SimulatedNode, World, ask, leader_of, put, simulated

TOKEN = b"0123456789abcdef" * 2
AGAIN = b"keep-session 10 " + TOKEN
LOAD_S = 15.0
ENDS = (b"delete %d\r\n", b"release %d 1 0\r\n", b"bury %d 1\r\n", b"snooze-job %d 0.5\r\n", b"fail-job %d 0\r\n\r\n")
GOES_ON = (b"touch %d\r\n", b"change-job %d ttr=50\r\n")


class Keeper(Client):
    """A client that returns to its jobs; the first of each world is one that doesn't."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.is_new = False
        self.held: set[int] = set()
        """The jobs that it was told it has, and of which it has not asked for an end."""

        self.holders: dict[int, Keeper] = world.__dict__.setdefault("holders", {})
        """Who has which job, of those that return."""

    def begin(self) -> None:
        self.is_new = self.number > 0
        if not self.is_new:
            self.held.clear()

    def next_command(self) -> bytes:
        rng, pick = self.rng, self.rng.random()
        if self.is_new:
            self.is_new = False
            return b"keep-session 600 %032x\r\n" % self.number
        if self.held and pick < 0.5:
            id = rng.choice(sorted(self.held))
            if pick < 0.3:
                return rng.choice(GOES_ON) % id
            self.held.discard(id)
            if self.holders.get(id) is self:
                del self.holders[id]
            return rng.choice(ENDS) % id
        if pick < 0.7:
            return b"reserve-with-timeout 0\r\n"
        if pick < 0.75:
            return b"kick 3\r\n"
        return b"put 1 0 600 1\r\nx\r\n"

    def learn(self, command: bytes, reply: bytes) -> None:
        words = reply.split(b"\r\n")[0].split()
        if words[0] == b"RESERVED":
            self.has(int(words[1]))
        elif words[0] == b"KEPT":
            ids = set(map(int, words[2:]))
            assert self.held <= ids, f"client {self.number} has lost the jobs {sorted(self.held - ids)}"
            self.world.counts["returned"] += len(self.held)
            for id in ids:
                self.has(id)
        elif command.split()[0] in {b"touch", b"change-job"}:
            assert words[0] in {b"TOUCHED", b"CHANGED"}, (
                f"client {self.number} has a job no more: {command!r}, {reply!r}"
            )

    def has(self, id: int) -> None:
        """It was told that it has a job."""
        other = self.holders.get(id, self)
        assert other is self, f"job {id} of client {other.number} was given to client {self.number}"
        self.held.add(id)
        if self.number > 0:
            self.holders[id] = self


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 3)])
def test_who_has_a_job_returns_to_it_whatever_happens(seed: int) -> None:
    world = World(seed)

    async def main() -> None:
        await run_for(world, LOAD_S, client=Keeper)
        await settle(world)

    world.run(main())


@simulated()
async def test_next_leader_lets_a_job_wait_and_after_that_nobody_has_it(world: World, leader: SimulatedNode) -> None:
    holder = leader.connect()
    assert await ask(leader, holder, AGAIN) == b"KEPT 0\r\n"
    await put(leader, holder)
    await put(leader, holder)
    assert await ask(leader, holder, b"reserve") == b"RESERVED 1 1\r\nx\r\n"
    for _ in range(2):
        await leader.kill()
        leader, before = await leader_of(world, leader), leader
        before.start()
        other = leader.connect()
        assert (await ask(leader, other, b"reserve")).startswith(b"RESERVED 2 ")
        assert await ask(leader, other, b"reserve-job 1") == b"NOT_FOUND\r\n"
        holder = leader.connect()
        assert await ask(leader, holder, AGAIN) == b"KEPT 1 1\r\n"
    await leader.kill()
    leader = await leader_of(world, leader)
    other = leader.connect()
    assert (await ask(leader, other, b"reserve")).startswith(b"RESERVED 2 ")
    began_s = world.loop.time()
    assert (await ask(leader, other, b"reserve")).startswith(b"RESERVED 1 ")
    assert 9.0 < world.loop.time() - began_s < 11.0
