"""Persist, then send, in the server's own turns: no reply leaves before a loss of power can take back nothing it says.

Each job has a body that no other has, so that it is found in what the disk holds for certain.
"""

import errno
from random import Random

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.files.filelog import FileLog
from beanpole.log.files.segment import State
from beanpole.log.log import Policy
from beanpole.server.turn import Turn
from tests.simulation.disk import SimDisk
from tests.simulation.life import BODY_BYTES_MAX, Space
from tests.simulation.runner import NS_PER_S, Clock, SimRunner
from tests.unit.server.memory_transport import MemoryTransport

SEGMENT_BYTES = 2048
STEPS = 300


class Sender(MemoryTransport):
    """A client of which everything that it is sent must be true."""

    def __init__(self, house: "House") -> None:
        self.house = house
        self.bodies: list[bytes] = []
        self.told = 0
        super().__init__(house.turn)

    def put(self, *, count: int) -> None:
        """Puts jobs, in one go."""
        text = b""
        for _ in range(count):
            self.house.job_count += 1
            body = b"<%d>" % self.house.job_count
            self.bodies.append(body)
            text += b"put 0 0 60 %d\r\n%b\r\n" % (len(body), body)
        self.arrive(text)

    def send_bytes(self, data: bytes) -> int:
        size = super().send_bytes(data)
        replies = self.output.split(b"\r\n")[self.told : -1]
        assert not any(reply.startswith((b"NOT", b"OUT", b"INTERNAL", b"BAD")) for reply in replies), replies
        held = self.house.kept()
        for body in self.bodies[self.told : self.told + len(replies)]:
            assert body in held, f"{body!r} was promised"
        self.told += len(replies)
        self.house.told += len(replies)
        return size


class House:
    """A server on a simulated disk."""

    def __init__(self, seed: int, policy: Policy) -> None:
        self.rng = Random(seed)
        self.disk = SimDisk(seed)
        self.clock = Clock()
        self.always = policy.always
        self.runner = SimRunner(self.clock, self.disk.ban)
        self.log = FileLog(
            self.disk,
            runner=self.runner,
            observer=Space(),
            policy=policy,
            now_ns=lambda: self.clock.now_ns,
            wall_ns=self.clock.wall_ns,
            segment_bytes=SEGMENT_BYTES,
        )
        self.engine = Engine(BODY_BYTES_MAX, self.clock.now_ns, records=self.log.records)
        self.log.recover(self.engine)
        self.turn = Turn(self.engine, self.log)
        self.job_count = self.told = 0
        self.failed = False
        self.log.start(lambda: self.turn.send_held(self.clock.now_ns), self.fail)
        self.clients = [Sender(self)]

    def fail(self, _error: OSError) -> None:
        self.failed = True
        self.turn.stop()

    def kept(self) -> bytes:
        """What a loss of power leaves for certain, or with a policy that promises less, the end of the process."""
        if self.always:
            return b"".join(bytes(each.durable) for each in self.disk.durable.values())
        return b"".join(bytes(each.cache) for each in self.disk.cache.values())

    def step(self) -> None:
        """One thing happens."""
        rng = self.rng
        what = rng.random()
        self.clock.now_ns += rng.choice((0, 1_000, 10_000_000))
        try:
            if what < 0.5 and not self.failed:
                for client in rng.sample(self.clients, rng.randint(1, len(self.clients))):
                    client.put(count=rng.choice((1, 1, 1, 3, 30)))
                self.turn.run(self.clock.now_ns)
            elif what < 0.6 and not self.failed:
                self.turn.run(self.clock.now_ns)
            elif what < 0.75:
                self.runner.finish_sync()
            elif what < 0.85:
                self.runner.run_background()
            elif what < 0.97:
                self.runner.run_soon()
            elif what < 0.99:
                self.clock.now_ns += NS_PER_S
                self.runner.run_timers()
            elif len(self.clients) < 3:
                self.clients.append(Sender(self))
        except OSError:
            assert self.log.failure is not None, "an error of the disk went by unnoticed"
            self.turn.stop()


POLICIES = [Policy(0), Policy(20), Policy(None)]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_what_is_sent_is_kept(seed: int, policy: Policy) -> None:
    house = House(seed, policy)
    for _ in range(STEPS):
        house.step()
    assert not house.failed
    assert house.told > STEPS // 10, "nearly nothing was answered"


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("kind", ["write", "sync", "rename", ""])
def test_nothing_is_sent_after_a_failure(kind: str, policy: Policy) -> None:
    for n in range(1, 40):
        house = House(n, policy)
        house.disk.call_count = 0
        house.disk.fail_at, house.disk.fail_only, house.disk.fail_errno = n, kind, errno.EIO
        while not house.failed and house.job_count < 3 * STEPS:
            house.step()
        told = house.told
        for _ in range(50):
            house.step()
        assert not house.failed or house.told == told
        if house.failed:
            house.log.close()


def test_log_that_finds_no_file_to_go_on_in_is_closed_once() -> None:
    """Its file is that of the segment before, until the next one has one."""
    house = House(1, Policy(0))
    while house.log.open.state != State.SEALING:
        house.clients[0].put(count=1)
        house.turn.run(house.clock.now_ns)
    house.runner.works.clear()
    house.log.pool.files.clear()
    house.disk.capacity = 0
    house.runner.finish_sync()
    assert house.failed
    house.log.close()
