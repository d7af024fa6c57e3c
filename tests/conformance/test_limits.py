"""Old clients in tubes with limits: whoever may not be served now waits, whoever puts too much is refused."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import greenstalk
import pytest
from pystalk.client import BeanstalkError

from tests.conformance.old import WAIT_S, OldClient, Plain, ask, set_rules
from tests.servers import Server, beanpole_server

REFUSALS = (greenstalk.OutOfMemoryError, BeanstalkError, AssertionError)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all; each test works in tubes of its own."""
    with beanpole_server() as running:
        yield running


class Tube:
    """A tube with rules, and connections of one kind of client to it."""

    def __init__(self, server: Server, kind: type[OldClient], name: str, stack: ExitStack) -> None:
        self.server = server
        self.kind = kind
        self.name = f"{kind.__name__}-{name}"
        self.stack = stack

    def rules(self, *rules: str) -> None:
        set_rules(self.server, self.name, *rules)

    def connect(self, tube: str = "") -> OldClient:
        return self.stack.enter_context(closing(self.kind(self.server.port, tube or self.name)))

    def wait_until_waiting(self, count: int) -> None:
        """Returns when so many clients wait for a job of the tube."""
        give_up_at = time.monotonic() + WAIT_S
        with closing(Plain(self.server.port)) as plain:
            while time.monotonic() < give_up_at:
                if b"\ncurrent-waiting: %d\n" % count in plain.ask(f"stats-tube {self.name}")[1]:
                    return
        raise AssertionError("nobody waits")


NewTube = Callable[[str], Tube]


@pytest.fixture
def new_tube(server: Server, kind: type[OldClient]) -> Iterator[NewTube]:
    """Makes a tube."""
    with ExitStack() as stack:
        yield lambda name: Tube(server, kind, name, stack)


def refused(client: OldClient, body: bytes) -> None:
    """A put is answered with OUT_OF_MEMORY."""
    with pytest.raises(REFUSALS) as caught:
        client.put(body)
    if not isinstance(caught.value, greenstalk.OutOfMemoryError):
        assert "OUT_OF_MEMORY" in str(caught.value)


def test_jobs_are_handed_out_at_their_rate(new_tube: NewTube) -> None:
    tube = new_tube("rate")
    begun = time.monotonic()
    tube.rules("rate: 10/s burst 2")
    client = tube.connect()
    ids = [client.put(b"%d" % number) for number in range(6)]
    for number, id in enumerate(ids):
        assert client.reserve() == (id, b"%d" % number)
        client.delete(id)
        assert time.monotonic() - begun >= (number + 1) * 0.1, "the bucket was not empty at first"


def test_nobody_is_served_before_there_is_a_token(new_tube: NewTube) -> None:
    tube = new_tube("slow")
    tube.rules("rate: 1/h")
    client = tube.connect()
    id = client.put(b"")
    assert client.reserve(0) is None
    assert client.reserve(1) is None
    assert client.stats_job(id)["state"] == "ready"
    assert ask(tube.server, f"drop-rules {tube.name}")[0] == "DROPPED"
    assert client.reserve(0) == (id, b"")


def delete(_: Tube, holder: OldClient, id: int) -> None:
    holder.delete(id)


def bury(_: Tube, holder: OldClient, id: int) -> None:
    holder.bury(id)


def release_for_later(_: Tube, holder: OldClient, id: int) -> None:
    holder.release(id, 100)


def hang_up(_: Tube, holder: OldClient, __: int) -> None:
    holder.close()


def time_out(_: Tube, __: OldClient, ___: int) -> None:
    """The TTR of the job is a second."""


def lift_the_limit(tube: Tube, _: OldClient, __: int) -> None:
    tube.rules("concurrency: 3")


@pytest.mark.parametrize("end", [delete, bury, release_for_later, hang_up, time_out, lift_the_limit])
def test_no_more_jobs_than_allowed_are_held(new_tube: NewTube, end: Callable[[Tube, OldClient, int], None]) -> None:
    tube = new_tube(f"concurrency-{end.__name__}")
    tube.rules("concurrency: 2")
    holders = [tube.connect() for _ in range(2)]
    ids = [holders[0].put(b"", 1 if end is time_out and number == 1 else 60) for number in range(4)]
    assert [holder.reserve(0) for holder in holders] == [(ids[0], b""), (ids[1], b"")]
    waiting = tube.connect()
    if end is time_out:
        assert waiting.reserve() == (ids[1], b"")
        return
    assert waiting.reserve(0) is None
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(waiting.reserve)
        tube.wait_until_waiting(1)
        assert not answer.done()
        end(tube, holders[1], ids[1])
        got = answer.result(WAIT_S)
    assert got == (ids[1] if end is hang_up else ids[2], b"")
    if end is not lift_the_limit:
        assert tube.connect().reserve(0) is None


def test_a_job_that_is_there_is_not_put_again(new_tube: NewTube) -> None:
    tube = new_tube("unique")
    tube.rules("unique: body")
    client = tube.connect()
    first, other = client.put(b"same"), client.put(b"other")
    assert first != other
    assert client.put(b"same") == first
    assert client.reserve(0) == (first, b"same")
    assert client.put(b"same") == first
    client.delete(first)
    again = client.put(b"same")
    assert again not in {first, other}
    assert [client.reserve(0), client.reserve(0), client.reserve(0)] == [(other, b"other"), (again, b"same"), None]


def test_a_job_that_somebody_works_on_may_be_put_again(new_tube: NewTube) -> None:
    tube = new_tube("unique-until")
    tube.rules("unique: body until reserve")
    client = tube.connect()
    first = client.put(b"same")
    assert client.put(b"same") == first
    assert client.reserve(0) == (first, b"same")
    again = client.put(b"same")
    assert again != first
    assert client.put(b"same") == again
    assert client.reserve(0) == (again, b"same")


@pytest.mark.parametrize("dead", [False, True])
def test_nobody_gets_what_nobody_took_in_time(new_tube: NewTube, dead: bool) -> None:
    tube = new_tube(f"expire-{dead}")
    graveyard = tube.name + "-dead"
    tube.rules("expire: 0.5" + " dead" * dead, f"dead: {graveyard}")
    client, undertaker = tube.connect(), tube.connect(graveyard)
    with ThreadPoolExecutor() as pool:  # A job for which somebody waits is handed out as soon as it is put.
        answer = pool.submit(client.reserve)
        tube.wait_until_waiting(1)
        held = tube.connect().put(b"held")
        assert answer.result(WAIT_S) == (held, b"held")
    late = client.put(b"late")
    if dead:
        assert undertaker.reserve() == (late, b"late")
        assert undertaker.stats_job(late)["tube"] == graveyard
    else:
        assert undertaker.reserve(1) is None  # A second goes by.
    assert client.reserve(0) is None
    assert client.stats_job(held)["state"] == "reserved"
    client.delete(held)


def test_nobody_gets_a_job_that_was_put_for_a_shorter_time(new_tube: NewTube) -> None:
    """By a program that knows more than who works on it."""
    tube = new_tube("expire-option")
    client, elsewhere = tube.connect(), tube.connect(tube.name + "-other")
    assert ask(tube.server, f"put-job 4 tube={tube.name} expire=0.5", b"late")[0].startswith("INSERTED ")
    kept = client.put(b"kept")
    assert elsewhere.reserve(1) is None  # A second goes by.
    assert client.reserve(0) == (kept, b"kept")


@pytest.mark.parametrize("rule", ["jobs-max: 2", "bytes-max: 9"])
def test_puts_into_a_full_tube_are_refused(new_tube: NewTube, rule: str) -> None:
    tube = new_tube(rule.partition(":")[0])
    tube.rules(rule)
    client = tube.connect()
    first, second = client.put(b"1234"), client.put(b"5678")
    refused(client, b"9abc")
    assert client.reserve(0) == (first, b"1234")
    if rule.startswith("jobs"):  # What is held is no job of the line any more, but its body is still there.
        third = client.put(b"9abc")
        refused(client, b"def0")
    client.release(first)
    refused(client, b"9abc")
    assert client.reserve(0) == (first, b"1234")
    client.delete(first)
    if rule.startswith("bytes"):
        third = client.put(b"9abc")
    assert [client.reserve(0), client.reserve(0), client.reserve(0)] == [(second, b"5678"), (third, b"9abc"), None]
