"""Followers know what extensions do: after faults and fail-overs all nodes hold the same jobs, tags and numbers.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again.
"""

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.postgres.digest import digest_of
from tests.simulation.cluster.history import settle
from tests.simulation.cluster.test_seeds import SEEDS, Client, run_for
from tests.simulation.cluster.world import (
    World,
)
from tests.simulation.history import check_accounts

LOAD_S = 10.0
TUBES = (b"default", b"t", b"u")
CLEARED = b"cleared"
"""The only tube whose jobs are deleted otherwise than by their ids; none leaves it."""

AFTER_ALL_NS = 2**62
KEYS = (
    b"",
    b"",
    b" key=k",
    b" key=k taken=replace",
    b" key=k until=reserve",
    b" key=l taken=replace until=reserve",
)
RULES = (
    b"",
    b"attempts: 2\n",
    b"attempts: 1\ndead: u\n",
    b"backoff: 0.5\n",
    b"attempts: 3\ndead: t\nbackoff: 1 max 2\n",
)
OF_A_JOB = (
    b"reserve-job %d\r\n",
    b"reserve-job %d\r\n",
    b"kick-job %d\r\n",
    b"snooze-job %d 0.5\r\n",
    b"fail-job %d 3\r\nwhy\r\n",
    b"fail-job %d 0\r\n\r\n",
    b"fail-job %d 2 dead=now\r\nno\r\n",
    b"bury %d 1\r\n",
    b"release %d 1 0\r\n",
    b"change-job %d pri=3 delay=0.5\r\n",
    b"change-job %d ttr=2\r\n",
    b"change-body %d 5\r\nother\r\n",
    b"touch-many %d 1\r\n",
    b"cancel-job %d\r\n",
)
OF_A_TUBE = (
    b"reserve-many 3 0\r\n",
    b"reserve-many 3 0\r\n",
    b"kick 3\r\n",
    b"watch t\r\n",
    b"watch u\r\n",
    b"use t\r\n",
    b"find-job t k\r\n",
    b"stats-tubes\r\n",
    b"clear-tube " + CLEARED + b"\r\n",
    *(b"move-jobs %b buried 3\r\n" % tube for tube in TUBES),
    *(b"set-rules t %d\r\n%b\r\n" % (len(rules), rules) for rules in RULES),
    *(b"set-rules * %d\r\n%b\r\n" % (len(rules), rules) for rules in RULES),
)


class ExtendedClient(Client):
    """A client that speaks extensions."""

    def next_command(self) -> bytes:
        """Return what it sends next."""
        rng, pick = self.rng, self.rng.random()
        tube, other = rng.choice(TUBES), rng.choice(TUBES)
        if pick < 0.3 or not self.ids:
            self.count += 1
            body = b"%d-%d" % (self.number, self.count)
            line = b"put-job %d ttr=%d delay=%b" % (len(body), rng.choice((1, 60)), rng.choice((b"0", b"0.5", b"2")))
            where = CLEARED if rng.random() < 0.1 else tube
            return b"%b tube=%b%b\r\n%b\r\n" % (line, where, rng.choice(KEYS), body)
        id = rng.choice(self.ids)
        if pick < 0.65:
            return rng.choice(OF_A_JOB) % id
        if pick < 0.7:
            return b"delete-many %d %d\r\n" % (id, rng.choice(self.ids))
        if pick < 0.8:
            state = rng.choice((b"ready", b"delayed", b"buried"))
            return b"move-jobs %b %b 5 to=%b\r\n" % (tube, state, other)
        if pick < 0.85:
            return b"list-jobs %b ready 5 bodies=9\r\n" % tube
        return rng.choice(OF_A_TUBE)


def check_puts(world: World, engine: Engine) -> None:
    """No id was given twice, and a job without a key that nobody deleted is there."""
    puts: list[int] = []
    gone: set[int] = set()
    for command in [*world.unknown, *(seen.command for seen in world.history)]:
        if command.startswith((b"delete-many", b"cancel-job")):
            gone.update(map(int, command.split()[1:]))
    kept: set[int] = set()
    for seen in world.history:
        words = seen.reply.split(b"\r\n")[0].split()
        if words[0] == b"INSERTED":
            puts.append(int(words[1]))
            line = seen.command.split(b"\r\n")[0]
            if b" key=" not in line and CLEARED not in line:
                kept.add(int(words[1]))
    assert len(puts) == len(set(puts)), "an id was given twice"
    lost = kept - gone - {job.id for job in engine.jobs.jobs()}
    assert not lost, f"jobs are lost: {sorted(lost)}"


def check_ends(world: World) -> None:
    """A job that is done was not cancelled, and one that was cancelled not done, whoever leads in between."""
    done: list[int] = []
    cancelled: list[int] = []
    for seen in world.history:
        ids, words = seen.command.split()[1:], seen.reply.split()
        if words[0] == b"CANCELLED":
            cancelled += map(int, ids)
        elif seen.command.startswith(b"delete-many"):
            done += set(map(int, ids)) - set(map(int, words[2:]))
    assert len(done) + len(cancelled) == len({*done, *cancelled}), "a job has ended twice"


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 3)])
def test_nodes_hold_the_same_after_extensions(seed: int) -> None:
    world = World(seed)

    async def main() -> None:
        await run_for(world, LOAD_S, client=ExtendedClient)
        await settle(world)
        leaders = [node.log.replica for node in world.nodes if node.node.leading is not None]
        followers = [node.node.following.replica for node in world.nodes if node.node.following is not None]
        replicas = [replica for replica in (*leaders, *followers) if replica is not None]
        assert len(replicas) == len(world.nodes)
        for replica in replicas:
            check_accounts(replica.engine, replica.records)
        engines = [replica.engine for replica in replicas]
        check_puts(world, engines[0])
        check_ends(world)
        assert len({digest_of(engine, AFTER_ALL_NS) for engine in engines}) == 1, "the nodes differ"

    world.run(main())
