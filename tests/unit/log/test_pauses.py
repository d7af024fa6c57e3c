"""How long the log takes: each sync is counted, and what it does on the loop is reported, if clients can feel it."""

import pytest

from beanpole.log.limits import PAUSE_NS, SHORT_SYNC_NS, SHORT_SYNCS
from beanpole.log.log import Policy
from beanpole.server.connection import Connection
from tests.simulation.disk import SimDisk
from tests.simulation.life import Life, Promises
from tests.simulation.runner import Clock

MS = 1_000_000
SEGMENT_BYTES = 65_536


class SlowDisk(SimDisk):
    """A disk whose calls take as long as a test says."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.takes_ns: dict[str, int] = {}

    def call(self, kind: str) -> None:
        super().call(kind)
        self.clock.now_ns += self.takes_ns.get(kind, 0)


class House:
    """A log with a client."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.disk = SlowDisk(self.clock)
        life = Life(self.disk, self.clock, Policy(), SEGMENT_BYTES, Promises())
        self.log, self.runner, self.engine, self.recovered = life.log, life.runner, life.engine, life.recovered
        self.runner.settle()
        self.pauses: list[tuple[str, int]] = []
        self.log.on_pause = lambda what, took_ns: self.pauses.append((what, took_ns))
        self.connections = [Connection(self.engine, self.clock.now_ns)]

    def put(self, body_bytes: int = 1, *, append: bool = True) -> None:
        """Put a job, and give the log what was recorded."""
        line = b"put 0 0 60 %d\r\n%s\r\n" % (body_bytes, b"x" * body_bytes)
        self.connections[0].receive(self.clock.now_ns + self.recovered.clock.offset_ns, line)
        if append:
            self.log.append()


@pytest.mark.parametrize(("takes_ns", "found"), [(PAUSE_NS, [("sync", PAUSE_NS)]), (PAUSE_NS - 1, [])])
def test_a_sync_on_the_loop(takes_ns: int, found: list[tuple[str, int]]) -> None:
    house = House()
    house.disk.takes_ns = {"sync": takes_ns}
    house.put()
    assert house.pauses == found
    sync = house.engine.server_times.sync
    assert (sum(sync.counts), sync.sum) == (1, takes_ns // 1_000)


def test_a_sync_in_the_thread_is_none() -> None:
    house = House()
    house.connections.append(Connection(house.engine, house.clock.now_ns))
    house.disk.takes_ns = {"sync": 60 * MS}
    house.put()
    house.runner.settle()
    assert house.pauses == []
    assert house.log.synced == house.log.written
    sync = house.engine.server_times.sync
    assert (sum(sync.counts), sync.sum) == (1, 60_000)


def test_a_lone_record_beside_another_client_is_synced_on_the_loop_while_syncs_are_short() -> None:
    house = House()
    house.connections.append(Connection(house.engine, house.clock.now_ns))
    for _ in range(SHORT_SYNCS):
        house.put()
        assert house.log.synced != house.log.written, "the disk has not shown yet that it is fast"
        house.runner.settle()
    house.put()
    assert house.log.synced == house.log.written, "the thread was woken"

    house.put(append=False)
    house.put()
    assert house.log.synced != house.log.written, "two records are company"
    house.runner.settle()

    house.disk.takes_ns = {"sync": SHORT_SYNC_NS}
    house.put()
    assert house.log.synced == house.log.written, "a sync that is longer than those before was foreseen"
    house.put()
    assert house.log.synced != house.log.written, "a disk that was slow once is taken for a fast one"


@pytest.mark.parametrize("short_syncs", [0, SHORT_SYNCS])
def test_no_sync_on_the_loop_beside_a_link_whose_other_end_would_take_it_for_dead(short_syncs: int) -> None:
    house = House()
    for _ in range(short_syncs):
        house.put()
    house.log.link_count = 1
    house.put()
    assert house.log.synced != house.log.written


def test_a_write() -> None:
    house = House()
    house.disk.takes_ns = {"write": 60 * MS}
    house.put()
    assert house.pauses == [("write", 60 * MS)]


def test_taking_the_next_segment() -> None:
    house = House()
    house.disk.takes_ns = {"rename": 60 * MS}
    for _ in range(SEGMENT_BYTES // 10_000 + 1):
        house.put(10_000)
        house.runner.settle()  # so that the next segment is made before it is needed
    assert house.log.open.number == 2
    assert house.pauses == [("rolling", 60 * MS)]


def test_making_a_segment_for_a_put_that_waits() -> None:
    house = House()
    house.disk.takes_ns = {"create": 60 * MS}
    for _ in range(3):
        house.put(60_000)
        house.runner.finish_sync()
    assert set(house.pauses) == {("rolling", 60 * MS)}
