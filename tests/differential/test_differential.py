"""Drives Beanpole and beanstalkd with the same random conversations and compares all bytes, but for known differences.

A failure prints the conversation's seed: `DIFFERENTIAL_SEED=<seed> pytest tests/differential` runs that one alone.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beanpole.testing.world import World
from tests.differential.conversation import BODY_BYTES_MAX, TUBES, WATCHED, Conversation
from tests.differential.differences import DIFFERENCES, NORMALISED, OVER_SHARDS, normal_over_shards
from tests.differential.side import OBSERVER, Part, ServerSide, WorldSide, split_replies
from tests.seeds import seeds
from tests.servers import WAYS, OpenServer, beanstalkd_server, beanstalkd_version, missing_peer

SEEDS = seeds(80, "DIFFERENTIAL_SEED")
"""One for each conversation."""

STEPS = 60
"""How long a conversation is."""

FLAGS = ("-z", str(BODY_BYTES_MAX))
"""What every server is started with."""

NAMES = "abcd"
"""Who takes part in a conversation."""


class Comparison:
    """The three sides, which stay for all conversations: only ids and counters go on, the same for each."""

    seeds = SEEDS
    watched: tuple[str, ...] = TUBES

    def __init__(self, stack: ExitStack, open_beanpole: OpenServer) -> None:
        self.world = WorldSide(World(BODY_BYTES_MAX))
        opened = [open_beanpole, beanstalkd_server]
        self.servers = [ServerSide(stack.enter_context(open_server(*FLAGS))) for open_server in opened]
        for server in self.servers:
            stack.callback(server.close)
        self.sides: list[WorldSide | ServerSide] = [self.world, *self.servers]
        self.told: list[str] = []

    def converse(self, seed: int) -> None:
        """One conversation, and then nothing is left of it."""
        self.told = []
        conversation = Conversation(seed, self.world, NAMES, self.watched)
        for _ in range(STEPS):
            name, deed, parts = conversation.step()
            conversation.hear(self.do(name, deed, parts, conversation.cuts(len(self.world.rendered(parts)))))
        self.clean_up()

    def do(self, name: str, deed: str, parts: list[Part], cuts: list[int]) -> dict[str, list[str]]:
        """One step on all sides, compared; the replies."""
        self.told.append(f"{name} {deed} {self.world.rendered(parts)!r}"[:400] + f" cut at {cuts}" * bool(cuts))
        for side in self.sides:
            if deed == "connect":
                if name in side.received:  # It is closed.
                    side.disconnect(name)
                side.connect(name)
            elif deed == "half-close":
                side.half_close(name)
            elif deed == "disconnect":
                side.disconnect(name)
            elif deed == "reset":
                side.reset(name)
            else:
                data = side.rendered(parts)
                for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                    side.send(name, data[begin:end])
        return self.compare()

    def compare(self) -> dict[str, list[str]]:
        """Awaits and compares the replies of all sides."""
        counts = {name: len(split_replies(received)[0]) for name, received in self.world.received.items()}
        closed = {name for name in counts if self.world.is_closed(name)}
        for server in self.servers:
            server.wait_for(counts, closed)
        engine, beanpole, beanstalkd = (side.take_replies() for side in self.sides)
        for name in engine:
            if engine[name]:
                self.told.append(f"    {name} gets {shortened(engine[name])}")
            if not engine[name] == beanpole[name] == beanstalkd[name]:
                raise AssertionError(self.report(name, [engine[name], beanpole[name], beanstalkd[name]]))
        return engine

    def report(self, name: str, replies: list[list[str]]) -> str:
        """What differs, behind the last steps that led to it."""
        lines = ["\n".join(said).split("\n") for said in replies]
        same = set.intersection(*(set(some) for some in lines))
        differing = [[line for line in some if line not in same] for some in lines]
        differing = differing if any(differing) else lines  # Only their order differs.
        ends = [f"{side.name:>10} to {name}: {some}" for side, some in zip(self.sides, differing, strict=True)]
        return "\n".join(["...", *self.told[-60:], *ends])

    def clean_up(self) -> None:
        """Ends all connections and deletes all jobs; tubes go with them, and pauses but that of `default`."""
        # jobs-given-back-at-once: who waits goes first.
        names = sorted(set(self.world.received) - {OBSERVER}, key=lambda name: (not self.world.waits(name), name))
        for name in names:
            if not self.world.is_closed(name):
                self.do(name, "half-close", [], [])
            for side in self.sides:
                side.disconnect(name)
        for job in range(len(self.world.ids)):
            self.do(OBSERVER, "send", [b"delete ", job, b"\r\n"], [])
        for line in (b"pause-tube default 0\r\n", b"list-tubes\r\n", b"stats\r\n", b"stats-tube default\r\n"):
            self.do(OBSERVER, "send", [line], [])
        for side in self.sides:
            side.ids.clear()


def shortened(replies: list[str]) -> str:
    """Replies for a report; of a long one its beginning."""
    return ", ".join(repr(reply if len(reply) < 200 else reply[:60] + "...") for reply in replies)


@pytest.fixture(scope="module", params=WAYS)
def comparison(request: pytest.FixtureRequest) -> Iterator[Comparison]:
    """All sides, connected; Beanpole as it is, and, for some of the conversations, behind fronts and a router."""
    if beanstalkd_version() != "1.12":
        missing_peer("beanstalkd 1.12")
    with ExitStack() as stack:
        comparison = Comparison(stack, WAYS[request.param])
        comparison.seeds = SEEDS if request.param == "default" else SEEDS[::4]
        if request.param == "three shards":
            comparison.watched = WATCHED
            for side in comparison.sides:
                side.normal = normal_over_shards
            for tube in TUBES:  # tubes-of-shards: none comes and goes with who uses it
                comparison.do(OBSERVER, "send", [f"watch {tube}\r\n".encode("latin-1")], [])
        yield comparison


def test_beanpole_answers_as_beanstalkd(comparison: Comparison) -> None:
    """Random conversations have the same replies."""
    converse(comparison, comparison.seeds)


def converse(comparison: Comparison, seeds: range) -> None:
    """A conversation of each seed."""
    for number in seeds:
        try:
            comparison.converse(number)
        except AssertionError as difference:
            replay = f"DIFFERENTIAL_SEED={number} pytest tests/differential"
            raise AssertionError(f"{difference}\nTo replay: {replay}") from None


@pytest.mark.repository
def test_differences_are_documented() -> None:
    """What the comparison overlooks, users are told."""
    page = Path(__file__).parents[2].joinpath("docs", "compatibility.md").read_text()
    names = [difference.name for difference in (*DIFFERENCES, *OVER_SHARDS)]
    assert [name for name in names if f"`{name}`" not in page] == []
    assert len(set(names)) == len(names)


def test_differences_are_handled() -> None:
    """Each difference is normalised or avoided, and nothing else is."""
    normalised = {difference.name for difference in DIFFERENCES if difference.handled == "normalised"}
    assert normalised == {*NORMALISED, "failed-put-takes-no-id"}
    rules = Path(__file__).with_name("conversation.py").read_text()
    told = {difference.name for difference in DIFFERENCES if difference.name in rules}
    timeless = {"jobs-due-at-once", "deadline-soon-after-stall", "ttr-timer"}  # All times are too long for them.
    avoided = {difference.name for difference in DIFFERENCES if difference.handled == "avoided"}
    assert avoided == told | timeless
