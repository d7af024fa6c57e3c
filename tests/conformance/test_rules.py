"""An old client in tubes with rules: it is told nothing that it doesn't know, and its jobs go by the rules.

greenstalk does not know that there are rules: it puts, reserves, releases, buries, deletes and dies.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import greenstalk
import pytest

from tests.conformance.old import WAIT_S, Greenstalk, Plain, ask, set_rules
from tests.servers import Server, beanpole_server

BACKOFF_S = 0.1
FACTOR = 3
LEAST = 0.8
"""A backoff is drawn out by chance: up to a fifth less."""

ATTEMPTS = 3
BODY = b"poison\r\n\0"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all; each test works in tubes of its own."""
    with beanpole_server() as running:
        yield running


class Tube:
    """A tube with rules and its tube for the dead, and connections to them."""

    def __init__(self, server: Server, name: str, stack: ExitStack) -> None:
        self.server = server
        self.name = name
        self.dead = self.name + "-dead"
        self.stack = stack
        self.worker = self.connect()

    def rules(self, *rules: str) -> None:
        set_rules(self.server, self.name, *rules)

    def retry(self, *more: str) -> None:
        self.rules(f"attempts: {ATTEMPTS}", f"backoff: {BACKOFF_S} factor {FACTOR}", *more)

    def connect(self, tube: str = "") -> Greenstalk:
        return self.stack.enter_context(closing(Greenstalk(self.server.port, tube or self.name)))

    def wait_until_waiting(self) -> None:
        """Returns when a client waits for a job of the tube."""
        give_up_at = time.monotonic() + WAIT_S
        with closing(Plain(self.server.port)) as plain:
            while time.monotonic() < give_up_at:
                if b"\ncurrent-waiting: 1\n" in plain.ask(f"stats-tube {self.name}")[1]:
                    return
        raise AssertionError("nobody waits")


NewTube = Callable[[str], Tube]


@pytest.fixture
def new_tube(server: Server) -> Iterator[NewTube]:
    """Makes a tube."""
    with ExitStack() as stack:
        yield lambda name: Tube(server, name, stack)


def release(tube: Tube, id: int) -> None:
    tube.worker.release(id)


def lose_the_connection(tube: Tube, _: int) -> None:
    tube.worker.close()
    tube.worker = tube.connect()


@pytest.mark.parametrize("end", [release, lose_the_connection])
def test_a_handler_that_always_fails_is_tried_ever_later_and_its_job_is_put_aside(
    new_tube: NewTube, end: Callable[[Tube, int], None]
) -> None:
    """The last release is answered like any other: a client takes BURIED for a server without memory."""
    tube = new_tube(end.__name__)
    tube.retry(f"dead: {tube.dead}")
    undertaker = tube.connect(tube.dead)
    id = tube.connect().put(BODY)
    earliest = time.monotonic()
    for attempt in range(1, ATTEMPTS + 1):
        assert tube.worker.reserve() == (id, BODY)
        assert time.monotonic() >= earliest, f"attempt {attempt} came too early"
        earliest = time.monotonic() + LEAST * BACKOFF_S * FACTOR ** (attempt - 1)
        end(tube, id)
    assert undertaker.reserve() == (id, BODY)
    assert tube.worker.reserve(0) is None
    stats = undertaker.stats_job(id)
    assert (stats["tube"], stats["reserves"]) == (tube.dead, ATTEMPTS + 1)
    assert stats["releases"] == (ATTEMPTS if end is release else 0)
    undertaker.delete(id)


def test_a_job_that_is_done_in_its_last_attempt_is_not_dead(new_tube: NewTube) -> None:
    tube = new_tube("last")
    tube.retry(f"dead: {tube.dead}")
    id = tube.worker.put(BODY)
    for _ in range(ATTEMPTS - 1):
        assert tube.worker.reserve() == (id, BODY)
        tube.worker.release(id)
    assert tube.worker.reserve() == (id, BODY)
    tube.worker.delete(id)
    assert tube.connect(tube.dead).reserve(0) is None


def test_dead_jobs_are_buried_where_there_is_no_tube_for_them_and_a_kick_forgives(new_tube: NewTube) -> None:
    tube = new_tube("buried")
    tube.rules("attempts: 1")
    id = tube.worker.put(BODY)
    for _ in range(2):
        assert tube.worker.reserve() == (id, BODY)
        tube.worker.release(id)
        assert tube.worker.peek_buried() == id
        assert tube.worker.kick(1) == 1
    assert tube.worker.reserve(0) == (id, BODY)
    tube.worker.bury(id)
    assert tube.worker.peek_buried() == id


def test_the_dead_are_brought_back_to_the_tube_in_which_they_died(new_tube: NewTube) -> None:
    tube = new_tube("back")
    tube.rules("attempts: 1", f"dead: {tube.dead}")
    ids = [tube.worker.put(BODY) for _ in range(3)]
    for _ in ids:
        job = tube.worker.reserve(0)
        assert job is not None
        tube.worker.release(job[0])
    assert tube.worker.reserve(0) is None
    assert ask(tube.server, f"move-jobs {tube.dead} ready 100")[0] == "MOVED 3"
    assert [tube.worker.reserve(0) for _ in ids] == [(id, BODY) for id in ids]


def test_nobody_is_served_before_there_is_a_token(new_tube: NewTube) -> None:
    tube = new_tube("slow")
    tube.rules("rate: 1/h")
    id = tube.worker.put(b"")
    assert tube.worker.reserve(0) is None
    assert tube.worker.stats_job(id)["state"] == "ready"
    assert ask(tube.server, f"drop-rules {tube.name}")[0] == "DROPPED"
    assert tube.worker.reserve(0) == (id, b"")


@pytest.mark.parametrize("hangs_up", [False, True])
def test_who_waits_is_served_when_one_of_the_jobs_that_may_be_held_is_done(new_tube: NewTube, hangs_up: bool) -> None:
    tube = new_tube(f"concurrency-{hangs_up}")
    tube.rules("concurrency: 1")
    waiting = tube.connect()
    ids = [tube.worker.put(b"") for _ in range(2)]
    assert tube.worker.reserve(0) == (ids[0], b"")
    assert waiting.reserve(0) is None
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(waiting.reserve)
        tube.wait_until_waiting()
        assert not answer.done()
        if hangs_up:
            tube.worker.close()
        else:
            tube.worker.delete(ids[0])
        assert answer.result(WAIT_S) == (ids[not hangs_up], b"")


def test_a_job_that_is_there_is_not_put_again(new_tube: NewTube) -> None:
    tube = new_tube("unique")
    tube.rules("unique: body")
    client = tube.worker
    first, other = client.put(b"same"), client.put(b"other")
    assert first != other
    assert client.put(b"same") == first
    assert client.reserve(0) == (first, b"same")
    assert client.put(b"same") == first
    client.delete(first)
    again = client.put(b"same")
    assert again not in {first, other}
    assert [client.reserve(0), client.reserve(0), client.reserve(0)] == [(other, b"other"), (again, b"same"), None]


def test_puts_into_a_full_tube_are_refused(new_tube: NewTube) -> None:
    tube = new_tube("full")
    tube.rules("jobs-max: 1")
    id = tube.worker.put(b"1")
    with pytest.raises(greenstalk.OutOfMemoryError):
        tube.worker.put(b"2")
    assert tube.worker.reserve(0) == (id, b"1")
