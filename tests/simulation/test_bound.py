"""Files on disk stay below twice the bytes of live jobs and four segments, at every step of every workload.

Segments are scaled down, and so are the workloads; what counts is the ratio.
"""

from collections.abc import Callable
from random import Random

import pytest

from beanpole.log.compaction import Compaction
from beanpole.log.files.diskfile import File
from beanpole.log.log import Policy
from tests.simulation.disk import SimDisk
from tests.simulation.life import BODY_BYTES_MAX, Client, Life, Promises
from tests.simulation.runner import NS_PER_S, Clock

SEGMENT_BYTES = 65_536


class Bound:
    """A server whose disk is looked at after every step."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.clock = Clock()
        self.life = Life(self.disk, self.clock, Policy(0), SEGMENT_BYTES, Promises())
        self.life.log.on_durable = lambda: None
        self.client: Client = self.life.connect()
        self.life.connect()
        self.worst = 0.0
        """The most that was taken between two steps, as a part of what may be."""

        self.worst_settled = 0.0
        """The same when the log had done what there was to do."""

        self.highest_live = 0
        """The most bytes that were live during the turn: what is deleted can't be gone at once."""

    def turn(self, *lines: bytes) -> bytes:
        """Commands in one turn, and all that the log does of it; returns the last replies."""
        connection = self.client.connection
        self.highest_live = self.life.accounts.live_bytes
        self.clock.now_ns += NS_PER_S // 1000
        self.life.engine.tick(self.life.now_ns)
        connection.receive(self.life.now_ns, b"".join(lines))
        while connection.pending:
            self.life.log.append()
            connection.resume(self.life.now_ns)
        self.life.log.append()
        self.look()
        while self.life.runner.under_way or self.life.runner.works or self.life.runner.calls:
            self.life.runner.finish_sync()
            self.life.runner.run_background()
            self.look()
            self.life.runner.run_soon()
            self.look()
        assert not self.life.failed
        self.highest_live = self.life.accounts.live_bytes
        self.worst_settled = max(self.worst_settled, self.look())
        return connection.take_output(self.life.log.durable_index)

    def look(self) -> float:
        """Asserts that not too much is taken; returns how much it is, as a part of what may be."""
        self.highest_live = max(self.highest_live, self.life.accounts.live_bytes)
        accounts = self.life.accounts
        allowed = 2 * self.highest_live + 4 * SEGMENT_BYTES
        if accounts.largest_bytes > accounts.whole_bytes:
            allowed += 2 * accounts.largest_bytes
        taken = self.disk.used_bytes()
        self.worst = max(self.worst, taken / allowed)
        assert taken <= allowed, f"{taken} bytes on disk, {self.highest_live} live, {allowed} allowed"
        return taken / allowed

    def put(self, count: int, body_bytes: int = 100) -> None:
        job = b"put 1 0 1000 %d\r\n%s\r\n" % (body_bytes, bytes(body_bytes))
        for _ in range(0, count, 100):
            self.turn(job * 100)

    def reserved(self, count: int) -> list[int]:
        words = self.turn(b"reserve\r\n" * count).split()
        return [int(words[i + 1]) for i, word in enumerate(words) if word == b"RESERVED"]


def one_pinned(bound: Bound) -> None:
    bound.turn(b"put 1 0 1000 1\r\nx\r\n")
    for first in range(2, 20_000, 50):
        bound.turn(b"put 1 0 1000 100\r\n%s\r\n" % bytes(100) * 50)
        bound.turn(b"".join(b"delete %d\r\n" % id for id in range(first, first + 50)))


def release_with_delay(bound: Bound) -> None:
    bound.put(500)
    for _ in range(1000):
        ids = bound.reserved(50)
        bound.turn(b"".join(b"release %d 1 1\r\n" % id for id in ids))
        bound.clock.now_ns += NS_PER_S // 5


def kick_of_many(bound: Bound) -> None:
    bound.put(20_000, 10)
    for _ in range(200):
        ids = bound.reserved(100)
        bound.turn(b"".join(b"bury %d 1\r\n" % id for id in ids))
    for _ in range(200):
        assert bound.turn(b"kick 100\r\n") == b"KICKED 100\r\n"


def bury_and_kick(bound: Bound) -> None:
    bound.put(100)
    for _ in range(300):
        ids = bound.reserved(100)
        bound.turn(b"".join(b"bury %d 1\r\n" % id for id in ids))
        bound.turn(b"kick 100\r\n")


def pause_and_resume(bound: Bound) -> None:
    bound.turn(b"put 1 0 1000 1\r\nx\r\n")
    for _ in range(300):
        bound.turn(b"pause-tube default 100\r\npause-tube default 0\r\n" * 50)


def fill_and_empty(bound: Bound) -> None:
    for first in (1, 5001, 10001):
        bound.put(5000)
        for id in range(first, first + 5000, 100):
            bound.turn(b"".join(b"delete %d\r\n" % each for each in range(id, id + 100)))


def churn(bound: Bound) -> None:
    rng = Random(1)
    ids: list[int] = []
    for _ in range(600):
        sizes = [rng.choice((0, 100, 1000, 20_000)) for _ in range(rng.randint(1, 10))]
        replies = bound.turn(*[b"put 1 0 1000 %d\r\n%s\r\n" % (size, bytes(size)) for size in sizes])
        ids += [int(word) for word in replies.split()[1::2]]
        rng.shuffle(ids)
        gone = [ids.pop() for _ in range(min(len(ids), rng.randint(0, 10)))]
        bound.turn(b"".join(b"delete %d\r\n" % id for id in gone))


def queues_of_every_small_length(bound: Bound) -> None:
    """Jobs come and go while a quarter of a segment more is alive each time, up to five segments."""
    rng = Random(2)
    ids: list[int] = []
    for quarter in range(1, 21):
        for _ in range(40):
            replies = bound.turn(b"put 1 0 1000 100\r\n%s\r\n" % bytes(100) * 30)
            ids += [int(word) for word in replies.split()[1::2]]
            rng.shuffle(ids)
            while len(ids) * 182 > quarter * SEGMENT_BYTES // 4:
                bound.turn(b"".join(b"delete %d\r\n" % ids.pop() for _ in range(10)))


def jobs_as_large_as_segments(bound: Bound) -> None:
    put = b"put 1 0 1000 %d\r\n%s\r\n" % (BODY_BYTES_MAX, bytes(BODY_BYTES_MAX))
    for id in range(1, 200):
        bound.turn(put)
        if id > 5:
            bound.turn(b"delete %d\r\n" % (id - 5))


def steady(bound: Bound, live: tuple[int, ...] = (50, 160, 270, 500, 1000)) -> None:
    """As many jobs come as go, the oldest first, whatever there are of them."""
    ids: list[int] = []
    for count in live:
        while len(ids) < count:
            ids += [int(word) for word in bound.turn(b"put 1 0 1000 100\r\n%s\r\n" % bytes(100) * 10).split()[1::2]]
        for _ in range(300):
            replies = bound.turn(b"put 1 0 1000 100\r\n%s\r\n" % bytes(100) * 10)
            ids += [int(word) for word in replies.split()[1::2]]
            bound.turn(b"".join(b"delete %d\r\n" % ids.pop(0) for _ in range(10)))


def idle(bound: Bound) -> None:
    """A log that is neither empty nor large does not turn over for ever."""
    bound.put(500)
    before = bound.disk.call_count
    for _ in range(100):
        bound.turn()
    assert bound.disk.call_count == before


def idle_with_pauses(bound: Bound) -> None:
    """Pauses of empty tubes may fill more than a segment, and are worth no more than what has to be kept."""
    bound.turn(b"".join(b"watch %d\r\npause-tube %d 1000\r\n" % (10**20 + i, 10**20 + i) for i in range(3000)))
    assert bound.life.accounts.live_bytes == 3000 * 43
    idle(bound)


WORKLOADS = [
    one_pinned,
    release_with_delay,
    kick_of_many,
    bury_and_kick,
    pause_and_resume,
    fill_and_empty,
    churn,
    queues_of_every_small_length,
    jobs_as_large_as_segments,
    steady,
    idle,
    idle_with_pauses,
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.__name__)
def test_disk_stays_in_proportion(
    workload: Callable[[Bound], None], record_property: Callable[[str, object], None]
) -> None:
    bound = Bound()
    workload(bound)
    record_property("worst", bound.worst)
    record_property("worst_settled", bound.worst_settled)


def test_segments_are_prepared_before_puts_need_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = Bound()

    create = bound.life.log.pool.create

    def in_time(size: int, *, fast: bool = False) -> File:
        assert not fast, f"a segment of {size} bytes is created while clients wait"
        return create(size)

    monkeypatch.setattr(bound.life.log.pool, "create", in_time)
    steady(bound)
    assert bound.life.records.segment > 50


class Measured(Compaction):
    """A compaction of whose steps somebody takes note."""

    def __init__(self, life: Life) -> None:
        super().__init__(life.engine, life.records)
        self.life = life
        self.noted_bytes = 0
        self.steps: list[tuple[int, int]] = []
        """Each with the bytes that it moved, and that it was allowed to."""

    def live_in_sealed(self) -> int:
        return sum(self.life.accounts.live_in(each.number) for each in self.life.log.sealed)

    def step(self, at_once: bool) -> bool:
        assert not at_once, "a disk with space is compacted as a full one is"
        log_bytes = self.life.records.written_bytes + self.life.records.unwritten_bytes
        budget, before = 1000 + 4 * (log_bytes - self.noted_bytes), self.live_in_sealed()
        came_further = super().step(at_once)
        moved = before - self.live_in_sealed()
        self.noted_bytes = log_bytes + moved
        self.steps.append((moved, budget))
        return came_further


def test_compaction_goes_in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beanpole.log.compaction.COMPACTION_BYTES_PER_TURN", 1000)
    bound = Bound()
    measured = bound.life.log.compaction = Measured(bound.life)
    idle_with_pauses(bound)
    release_with_delay(bound)
    assert measured.moved_count > 3500
    assert all(moved < budget + 200 for moved, budget in measured.steps), "at the most the rest of a record more"


@pytest.mark.parametrize("body", [SEGMENT_BYTES * 52 // 100, SEGMENT_BYTES * 35 // 100])
def test_log_that_nothing_can_make_smaller_is_left_alone(body: int) -> None:
    """Jobs leave the ends of segments unused: to move them again and again would write for ever and gain nothing."""
    bound = Bound()
    for _ in range(9):
        bound.turn(b"put 1 0 60 %d\r\n%b\r\n" % (body, bytes(body)))
    for _ in range(200):
        bound.turn()
    moved_count = bound.life.log.compaction.moved_count
    for _ in range(200):
        bound.turn()
    assert bound.life.log.compaction.moved_count == moved_count
