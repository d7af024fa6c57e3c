"""A strict order of groups: whatever happens to nodes and the database, what has begun ends before the next begins.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again.
"""

import pytest

from tests.simulation.cluster.history import settle
from tests.simulation.cluster.test_seeds import SEEDS, Client, run_for
from tests.simulation.cluster.world import World

LOAD_S = 15.0
RULES = b"group-order: strict\n"
GROUPS = (b"a", b"b", b"c")
ENDS = (b"delete %d\r\n", b"bury %d 1\r\n")
COMES_BACK = (b"release %d 9 0\r\n", b"release %d 9 1\r\n", b"snooze-job %d 0.5\r\n", b"fail-job %d 0\r\n\r\n")


class Ordered(Client):
    """A client that works on groups; the first one sets their rule."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.held: dict[int, bytes] = {}
        """The jobs that it was told it has, and their groups."""

        self.begun: dict[bytes, int] = world.__dict__.setdefault("begun", {})
        """Group: the job of it that somebody was given, and of which nobody has asked yet that it ends."""

        self.ended: set[int] = world.__dict__.setdefault("ended", set())

    def begin(self) -> None:
        self.held.clear()

    def next_command(self) -> bytes:
        rng, pick = self.rng, self.rng.random()
        if not self.world.counts["strict"]:
            return b"set-rules default %d\r\n%b\r\n" % (len(RULES), RULES) if self.number == 0 else b"list-tubes\r\n"
        if self.held and pick < 0.6:
            id = rng.choice(sorted(self.held))
            group = self.held.pop(id)
            if pick < 0.3:
                return rng.choice(COMES_BACK) % id
            self.ended.add(id)
            if self.begun.get(group) == id:
                del self.begun[group]
            return rng.choice(ENDS) % id
        if pick < 0.8:
            return b"reserve-with-timeout 0\r\n"
        return b"put-job 1 group=%b pri=1 ttr=600\r\n%b\r\n" % ((rng.choice(GROUPS),) * 2)

    def learn(self, command: bytes, reply: bytes) -> None:
        words = reply.split()
        if command.startswith(b"set-rules "):
            self.world.counts["strict"] = 1
        if words[0] == b"RESERVED" and int(words[1]) not in self.ended:
            id, group = int(words[1]), words[3]
            before = self.begun.setdefault(group, id)
            assert before == id, f"job {id} of client {self.number} was given out before {before} had ended"
            self.held[id] = group
            self.world.counts["reserved"] += 1


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 6)])
def test_what_has_begun_ends_before_the_next_begins_whoever_leads(seed: int) -> None:
    world = World(seed)

    async def main() -> None:
        await run_for(world, LOAD_S, client=Ordered)
        await settle(world)

    world.run(main())
    assert world.counts["reserved"]
