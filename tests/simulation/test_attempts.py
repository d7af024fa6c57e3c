"""A log that must make room first lets no attempt go uncounted: a job runs as often as its rules say, and no more."""

import pytest

from beanpole.engine.check import check
from beanpole.engine.limits import ROOM_RETRY_NS
from beanpole.engine.state.records import Room
from beanpole.log.log import Policy
from tests.simulation.disk import SimDisk
from tests.simulation.history import attempts
from tests.simulation.life import Life, Promises
from tests.simulation.runner import NS_PER_S, Clock

SEGMENT_BYTES = 4096
ATTEMPTS = 2
TTR_S = 5
CHANGES_MAX = 10_000


class Run:
    """A server on a disk, a job that is older than the rule of its tube, and what happens to it."""

    def __init__(self) -> None:
        self.disk, self.clock, self.promises = SimDisk(), Clock(), Promises()
        self.start()
        client = self.life.connect()
        for line in (b"put 0 0 %d 100" % TTR_S, b"put-job 100 tube=other"):
            self.life.send(client, b"put", line, body=bytes(100))
        rules = b"attempts: %d" % ATTEMPTS
        self.life.send(client, b"set-rules", b"set-rules default %d" % len(rules), body=rules)
        self.end_turn()

    def start(self) -> None:
        self.life = Life(self.disk, self.clock, Policy(0), SEGMENT_BYTES, self.promises)
        self.life.tick()

    def fill(self) -> None:
        """Change another job until the log has no room at once."""
        client = self.life.connect()
        for _ in range(CHANGES_MAX):
            if self.life.records.room_for_move(100) == Room.WAIT:
                return
            self.life.send(client, b"reserve-job", b"reserve-job 2", 2)
            self.life.send(client, b"release", b"release 2 0 0", 2)
        raise AssertionError("the log always has room")

    def pass_time(self, duration_ns: int) -> None:
        self.clock.now_ns += duration_ns
        self.life.tick()

    def end_turn(self) -> None:
        """The log makes room."""
        self.life.end_turn()
        self.life.runner.settle()
        self.life.deliver()
        assert not self.life.failed
        check(self.life.engine)

    def count(self) -> int:
        """Which attempt at the job is counted."""
        (job,) = [job for job in self.life.engine.jobs.jobs() if job.id == 1]
        return attempts(job)[0]


@pytest.mark.parametrize("crashes", [False, True], ids=["runs on", "crashes"])
@pytest.mark.parametrize("how", ["timeout", "disconnect"])
def test_log_that_makes_room_first_counts_every_attempt(how: str, *, crashes: bool) -> None:
    run = Run()
    for attempt in range(1, ATTEMPTS + 1):
        worker = run.life.connect()
        run.fill()
        run.life.send(worker, b"reserve", b"reserve-with-timeout 0")
        assert run.life.records.room_for_move(100) == Room.WAIT
        assert worker.connection.session.reserved_count == 1
        if how == "timeout":
            run.pass_time(TTR_S * NS_PER_S)
        else:
            run.life.disconnect(worker)
        assert run.life.records.room_for_move(100) == Room.WAIT
        run.life.send(other := run.life.connect(), b"reserve", b"reserve-with-timeout 0")
        assert other.connection.session.reserved_count == 0
        run.end_turn()
        run.pass_time(ROOM_RETRY_NS)
        run.end_turn()
        if crashes:
            run.disk.kill()
            run.start()
        assert run.count() == attempt
    run.life.send(other := run.life.connect(), b"reserve", b"reserve-with-timeout 0")
    assert other.connection.session.reserved_count == 0
