"""A strict order of groups over a crash at each call that the log makes: what has begun ends before the next begins."""

from random import Random

import pytest

from beanpole.engine.check import check
from tests.simulation.disk import CrashError
from tests.simulation.runner import NS_PER_S
from tests.simulation.server import Server

RULES = b"group-order: strict\n"
GROUPS = (b"a", b"b")
STEPS = 40
CALLS = 80  # more than the log makes in so many steps
SEGMENT_BYTES = 2048


class Run:
    """A server that crashes once, and a worker that knows what it was given."""

    def __init__(self, seed: int, crash_at: int) -> None:
        self.rng = Random(seed)
        self.server = Server(seed, segment_bytes=SEGMENT_BYTES)
        self.begun: dict[bytes, int] = {}
        """Group: the job of it that was handed out, and of which nobody has asked yet that it ends."""

        self.group: dict[int, bytes] = {}
        self.held: list[int] = []
        self.crashed = False
        self.server.ask(b"set-rules t %d\r\n%b" % (len(RULES), RULES), b"use t")
        self.watch()
        self.server.disk.crash_at = self.server.disk.call_count + crash_at

    def watch(self) -> None:
        self.server.ask(b"watch t", b"ignore default")

    def ask(self, line: bytes) -> bytes:
        try:
            return self.server.ask(line)
        except CrashError:
            self.crashed, self.held = True, []
            self.server.disk.kill()  # nothing of the process that crashed goes on
            self.server.start()
            check(self.server.life.engine)
            self.watch()
            return b""

    def reserve(self) -> int:
        """Reserves a job, of which the body is its group, and asserts that it may be given out; 0: there is none."""
        reply = self.ask(b"reserve-with-timeout 0").split()
        if reply[:1] != [b"RESERVED"]:
            return 0
        id, group = int(reply[1]), reply[3]
        assert self.begun.get(group, id) == id, f"job {id} was given out before {self.begun[group]} had ended"
        self.begun[group], self.group[id] = id, group
        self.held.append(id)
        return id

    def finish(self, verb: bytes) -> None:
        """Ends a reservation; deleted and buried is the end of the job, whether the reply comes or not."""
        if self.held:
            id = self.held.pop(self.rng.randrange(len(self.held)))
            if verb in {b"delete %d", b"bury %d 0"}:
                del self.begun[self.group[id]]
            self.ask(verb % id)

    def step(self) -> None:
        what = self.rng.random()
        if what < 0.35:
            group, delay = self.rng.choice(GROUPS), self.rng.choice((0, 0, 9))
            line = b"put-job 1 tube=t group=%b pri=%d delay=%d ttr=3\r\n%b"
            self.ask(line % (group, self.rng.randrange(9), delay, group))
        elif what < 0.65:
            self.reserve()
        elif what < 0.95:
            self.finish(self.rng.choice((b"delete %d", b"bury %d 0", b"release %d 9 0", b"release %d 9 5")))
        else:
            self.pass_time(4)

    def pass_time(self, seconds: int) -> None:
        """Lets time pass by which what is held comes back."""
        self.server.clock.now_ns += seconds * NS_PER_S
        self.held = []
        self.server.life.tick()

    def drain(self) -> None:
        """Lets each job be done: none is held up by what is gone."""
        self.server.restart()
        self.watch()
        self.pass_time(100)
        while self.reserve():
            self.finish(b"delete %d")
        left = self.ask(b"stats-tube t")
        assert b"current-jobs-ready: 0\n" in left
        assert b"current-jobs-delayed: 0\n" in left


@pytest.mark.parametrize("block", range(4))
def test_what_has_begun_ends_before_the_next_begins_over_a_crash_at_each_call(block: int) -> None:
    crashes = 0
    for call in range(1 + block, CALLS, 4):
        run = Run(call, call)
        for _ in range(STEPS):
            run.step()
        run.drain()
        crashes += run.crashed
    assert crashes
