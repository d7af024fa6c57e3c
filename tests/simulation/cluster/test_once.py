"""Puts that are sent again until they are answered: each is done once, whatever happens to nodes and the database.

A failure prints its seed; ``CLUSTER_SEED=n`` runs that one again.
"""

from collections import Counter

import pytest

from beanpole.engine.engine import Engine
from tests.simulation.cluster.history import settle
from tests.simulation.cluster.test_seeds import LOAD_S, SEEDS, Client, run_for
from tests.simulation.cluster.world import World


class Sender(Client):
    """A client that sends a put again and again until it is answered, and later at times once more."""

    sent = b""
    """The token of a put that was not answered."""

    def next_command(self) -> bytes:
        rng, answers = self.rng, self.world.__dict__.setdefault("answers", {})
        token = self.sent or (rng.choice([*answers, b""]) if rng.random() < 0.3 else b"")
        if self.sent:
            self.world.counts["sent again"] += 1
        if not token:
            self.world.counts["puts"] += 1
            number = self.world.counts["puts"] // 2  # so that another one sends it at about the same time
            token = b"%d%b" % (number, b"" if number % 4 else b"-k")
        self.sent = token
        key = b" key=k" if token.endswith(b"k") else b""
        return b"put-job %d once=%b for=86400%b\r\n%b\r\n" % (len(token), token, key, token)

    def learn(self, command: bytes, reply: bytes) -> None:
        word, id = reply.split()
        answers = self.world.__dict__["answers"]
        assert answers.setdefault(self.sent, id) == id, f"{command!r} is now {reply!r}, and was {answers[self.sent]!r}"
        self.world.counts[word.decode()] += 1
        self.sent = b""


def tokens_of(engine: Engine) -> set[tuple[bytes, int, int]]:
    return {(mark, id, end_s) for mark, _, id, end_s in engine.once.tokens()} if engine.once else set()


async def work(world: World, *kinds: str) -> None:
    await run_for(world, LOAD_S, *kinds, client=Sender)
    bodies = await settle(world)
    plain = Counter(body for body in bodies.values() if not body.endswith(b"k"))
    assert set(plain.values()) <= {1}, f"done twice: {[body for body, count in plain.items() if count > 1]}"
    lost = [token for token, id in world.__dict__["answers"].items() if int(id) not in bodies]
    assert not lost, f"what these were answered with is gone: {lost}"
    roles = [node.node.leading or node.node.following for node in world.nodes]
    known = [tokens_of(each.replica.engine) for each in roles if each is not None and each.replica is not None]
    assert all(each == known[0] for each in known), "the nodes know other tokens"
    assert len(known[0]) >= len(world.__dict__["answers"])


@pytest.mark.parametrize("seed", SEEDS[: max(1, len(SEEDS) // 8)])
def test_each_put_is_done_once_whatever_happens(seed: int) -> None:
    world = World(seed)
    world.run(work(world))


def test_seeds_meet_what_they_are_for() -> None:
    """Otherwise they would show nothing."""
    counts: Counter[str] = Counter()
    for seed, kinds in enumerate([("kill", "lose"), ("cut", "promote")]):
        world = World(1_000_000 + seed)
        world.run(work(world, *kinds))
        counts += world.counts
    assert {"sent again", "INSERTED", "EXISTS", "leads"} <= set(counts)
