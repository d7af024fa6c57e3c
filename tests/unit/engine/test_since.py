"""Since when a job is in its state: what the ages and the times of jobs count from."""

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.state.job import Job, State
from beanpole.server.connection import Connection

SECOND_NS = 10**9


class Server:
    """An engine with a client, and a clock."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = engine or Engine(now_ns=SECOND_NS)
        self.now_ns = SECOND_NS
        self.client = Connection(self.engine, self.now_ns)

    def say(self, data: bytes) -> None:
        self.client.receive(self.now_ns, data)
        self.client.take_output()

    def after(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)

    def tick(self) -> None:
        self.engine.tick(self.now_ns)

    @property
    def job(self) -> Job:
        """The job with the highest id."""
        return max(self.engine.jobs.jobs(), key=lambda job: job.id)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"reserve\r\n", State.RESERVED),
        (b"reserve-job 1\r\n", State.RESERVED),
        (b"change-job 1 delay=9\r\n", State.DELAYED),
        (b"reserve\r\nrelease 1 0 0\r\n", State.READY),
        (b"reserve\r\nrelease 1 0 7\r\n", State.DELAYED),
        (b"reserve\r\nbury 1 0\r\n", State.BURIED),
        (b"reserve\r\nbury 1 0\r\nkick 1\r\n", State.READY),
        (b"move-jobs default ready 9 to=other\r\n", State.READY),
    ],
)
def test_a_command_changes_the_state_now(data: bytes, state: State) -> None:
    server = Server()
    server.say(b"put 0 0 60 1\r\na\r\n")
    server.after(5)
    server.say(data)
    assert (server.job.state, server.job.since_ns) == (state, server.now_ns)


@pytest.mark.parametrize(
    "data", [b"change-job 1 pri=3\r\n", b"change-job 1 expire=99\r\n", b"change-body 1 1\r\nb\r\n"]
)
def test_what_leaves_the_state_leaves_the_moment(data: bytes) -> None:
    server = Server()
    server.say(b"put 9 0 60 1\r\na\r\n")
    since_ns = server.now_ns
    server.after(5)
    server.say(data)
    assert (server.job.state, server.job.since_ns) == (State.READY, since_ns)


def test_a_touch_moves_the_end_and_not_the_beginning() -> None:
    server = Server()
    server.say(b"put 9 0 60 1\r\na\r\nreserve\r\n")
    since_ns = server.now_ns
    server.after(5)
    server.say(b"touch 1\r\n")
    assert (server.job.since_ns, server.job.deadline_at_ns) == (since_ns, server.now_ns + 60 * SECOND_NS)


@pytest.mark.parametrize("options", [b"delay=5", b"delay=5 expire=99"])
def test_a_delay_ends_when_it_was_due_however_late_that_is_noticed(options: bytes) -> None:
    server = Server()
    server.say(b"put-job 1 %b\r\na\r\n" % options)
    due_ns = server.now_ns + 5 * SECOND_NS
    assert server.job.deadline_at_ns == due_ns
    server.after(7)
    server.tick()
    assert (server.job.state, server.job.since_ns, server.job.deadline_at_ns) == (State.READY, due_ns, 0)


def test_a_time_to_run_ends_when_it_is_noticed() -> None:
    server = Server()
    server.say(b"put 9 0 5 1\r\na\r\nreserve\r\n")
    server.after(7)
    server.tick()
    assert (server.job.state, server.job.since_ns) == (State.READY, server.now_ns)
