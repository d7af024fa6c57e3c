"""How long the oldest ready job has been ready, whatever was put, taken and kicked, and in whatever order."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

SECOND_NS = 10**9
DAY_S = 86_400


class Queue:
    """An engine with one tube, whose jobs are also known here by the moment since which they are ready."""

    def __init__(self) -> None:
        self.now_ns = SECOND_NS
        self.engine = Engine(now_ns=self.now_ns)
        self.client = Connection(self.engine, self.now_ns)
        self.ready: dict[int, int] = {}
        self.held: list[int] = []
        self.delayed: dict[int, int] = {}

    def ask(self, command: bytes) -> bytes:
        """The reply to a command."""
        self.client.receive(self.now_ns, command)
        return self.client.take_output()

    def wait(self, nanoseconds: int) -> None:
        """Let time go on. What is due becomes ready when :meth:`tick` is called, and counts from when it was due."""
        self.now_ns += nanoseconds

    def tick(self) -> None:
        self.engine.tick(self.now_ns)
        for id, due_ns in list(self.delayed.items()):
            if due_ns <= self.now_ns:
                self.ready[id] = self.delayed.pop(id)

    def put(self, number: int = 0) -> None:
        """Put a job; those of higher numbers are reserved first."""
        id = int(self.ask(b"put %d 0 4000000000 0\r\n\r\n" % (2000 - number)).split()[1])
        self.ready[id] = self.now_ns

    def put_later(self, delay_s: int) -> None:
        id = int(self.ask(b"put 0 %d 4000000000 0\r\n\r\n" % delay_s).split()[1])
        self.delayed[id] = self.now_ns + delay_s * SECOND_NS

    def delete(self, number: int) -> None:
        """Delete a ready job, in any order."""
        if self.ready:
            id = sorted(self.ready)[number % len(self.ready)]
            assert self.ask(b"delete %d\r\n" % id) == b"DELETED\r\n"
            del self.ready[id]

    def reserve(self) -> None:
        if self.ready:
            self.held.append(int(self.ask(b"reserve-with-timeout 0\r\n").split()[1]))
            del self.ready[self.held[-1]]

    def release(self) -> None:
        if self.held:
            assert self.ask(b"release %d 0 0\r\n" % self.held[0]) == b"RELEASED\r\n"
            self.ready[self.held.pop(0)] = self.now_ns

    def oldest_s(self) -> int:
        found = re.search(rb"oldest-ready: (\d+)", self.ask(b"stats-tubes\r\n"))
        assert found
        return int(found[1])

    def check(self) -> None:
        """Compare with a recount."""
        age_s = (self.now_ns - min(self.ready.values())) / SECOND_NS if self.ready else 0
        assert abs(self.oldest_s() - age_s) <= max(age_s / 8, 2), f"the oldest is {age_s} s old"


MOMENTS = st.sampled_from([0, 1, SECOND_NS - 1, SECOND_NS, 3 * SECOND_NS]) | st.integers(0, 30 * DAY_S * SECOND_NS)
STEPS = st.lists(
    st.tuples(st.just("wait"), MOMENTS)
    | st.tuples(st.sampled_from(["put", "delete"]), st.integers(0, 1000))
    | st.tuples(st.just("put_later"), st.integers(1, 10**6))
    | st.tuples(st.sampled_from(["reserve", "release", "tick"])),
    max_size=200,
)


@given(STEPS)
def test_the_age_equals_a_recount(steps: list[tuple[str, int]]) -> None:
    queue = Queue()
    for what, *numbers in steps:
        getattr(queue, what)(*numbers)
        queue.check()
    queue.tick()
    check(queue.engine)


@pytest.mark.parametrize("step_s", [1, 7, 1000])
def test_a_backlog_that_grows_for_long(step_s: int) -> None:
    """A job becomes ready in each second, minute, hour; then all go, the oldest first."""
    queue = Queue()
    for _ in range(3000):
        queue.put()
        queue.wait(step_s * SECOND_NS)
        queue.check()
    check(queue.engine)
    while queue.ready:
        queue.delete(0)
        queue.check()


def test_jobs_that_were_due_long_ago_count_from_then() -> None:
    queue = Queue()
    for delay_s in range(1, 400):
        queue.put_later(delay_s * 7919 % 397 * 50 + 1)
    queue.wait(DAY_S * SECOND_NS)
    queue.put()
    queue.tick()
    queue.check()
    check(queue.engine)
    while queue.ready:
        queue.delete(0)
        queue.check()


def test_what_changes_a_ready_job_leaves_its_age() -> None:
    queue = Queue()
    queue.put()
    queue.wait(100 * SECOND_NS)
    for command in (b"change-job 1 pri=7\r\n", b"change-body 1 1\r\nx\r\n"):
        assert queue.ask(command) == b"CHANGED\r\n"
        assert queue.oldest_s() in {99, 100}
    assert queue.ask(b"change-job 1 tube=other\r\n") == b"CHANGED\r\n"
    assert queue.oldest_s() == 0
