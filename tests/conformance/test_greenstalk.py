"""greenstalk, a client from PyPI, does what its users do with it."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import greenstalk
import pytest

from beanpole import Client
from tests.servers import HOST, WAYS, Server

Connect: TypeAlias = "Callable[..., greenstalk.Client[bytes]]"

NOBODY = 2**64 - 1
"""An id that no job has."""


@pytest.fixture(scope="module", params=WAYS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server for all, as it is and behind fronts and a router; each test works in tubes of its own."""
    with WAYS[request.param]("-z", "1000000") as running:
        yield running


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Opens clients, and closes them when the test is over."""
    opened: list[greenstalk.Client[bytes]] = []

    def new(**given: object) -> "greenstalk.Client[bytes]":
        opened.append(greenstalk.Client((HOST, server.port), encoding=None, **given))  # type: ignore[call-overload]
        opened[-1]._sock.settimeout(20)
        return opened[-1]

    yield new
    for client in opened:
        client.close()


def test_job_goes_through_its_life(connect: Connect) -> None:
    client = connect(use="life", watch="life")
    first = client.put(b"body", ttr=100)
    job = client.reserve()
    assert (job.id, job.body) == (first, b"body")
    assert client.stats_job(job)["state"] == "reserved"
    client.touch(job)
    client.release(job, priority=7)
    assert client.stats_job(job)["pri"] == 7
    assert client.peek_ready().id == first
    client.bury(client.reserve(timeout=0), priority=8)
    assert client.peek_buried().body == b"body"
    assert client.kick(10) == 1
    client.bury(client.reserve_job(first))
    client.kick_job(first)
    assert client.peek(first).body == b"body"
    stats = client.stats_job(first)
    assert (stats["reserves"], stats["releases"], stats["buries"], stats["kicks"]) == (3, 1, 2, 2)
    client.delete(client.reserve(timeout=0))
    with pytest.raises(greenstalk.NotFoundError):
        client.peek(first)


@pytest.mark.parametrize("body", [b"", b"\r\n", bytes(range(256)), b"\0" * 1000, b"x" * 1_000_000], ids=len)
def test_body_comes_back_as_it_was(connect: Connect, body: bytes) -> None:
    client = connect(use="bodies", watch="bodies")
    client.put(body)
    assert client.peek_ready().body == body
    job = client.reserve(timeout=0)
    assert job.body == body
    client.delete(job)


def test_body_over_the_limit(connect: Connect) -> None:
    client = connect(use="bodies", watch="bodies")
    with pytest.raises(greenstalk.JobTooBigError):
        client.put(b"x" * 1_000_001)
    assert client.using() == "bodies"


def test_text_bodies(server: Server) -> None:
    with greenstalk.Client((HOST, server.port), use="text", watch="text") as client:
        client.put("grün")
        job = client.reserve(timeout=0)
        assert job.body == "grün"
        client.delete(job)


def test_priorities_and_order(connect: Connect) -> None:
    client = connect(use="order", watch="order")
    ids = {pri: client.put(b"", priority=pri) for pri in (5, 0, 2**32 - 1, 3)}
    later = client.put(b"", priority=3)
    got = [client.reserve(timeout=0).id for _ in range(5)]
    assert got == [ids[0], ids[3], later, ids[5], ids[2**32 - 1]]
    for job_id in got:
        client.delete(job_id)


def test_delays(connect: Connect) -> None:
    client = connect(use="delay", watch="delay")
    job_id = client.put(b"", delay=100)
    assert client.peek_delayed().id == job_id
    assert 90 <= client.stats_job(job_id)["time-left"] <= 100
    with pytest.raises(greenstalk.TimedOutError):
        client.reserve(timeout=0)
    assert client.kick(1) == 1
    client.release(client.reserve(timeout=0), delay=1)
    job = client.reserve(timeout=20)
    assert job.id == job_id
    client.delete(job)


def test_time_to_run_and_deadline_soon(connect: Connect) -> None:
    client, other = connect(use="ttr", watch="ttr"), connect(watch="ttr")
    job_id = client.put(b"", ttr=3)  # time enough to ask again, on any machine and through a cluster
    client.reserve(timeout=0)
    with pytest.raises(greenstalk.DeadlineSoonError):
        client.reserve(timeout=20)
    job = other.reserve(timeout=20)
    assert job.id == job_id
    assert other.stats_job(job_id)["timeouts"] == 1
    with pytest.raises(greenstalk.NotFoundError):
        client.delete(job_id)
    other.delete(job)


def test_errors(connect: Connect) -> None:
    client = connect(use="errors", watch="errors")
    for ask in (client.delete, client.release, client.bury, client.touch, client.kick_job):
        with pytest.raises(greenstalk.NotFoundError):
            ask(greenstalk.Job(NOBODY, b""))
    with pytest.raises(greenstalk.NotFoundError):
        client.reserve_job(NOBODY)
    for peek in (client.peek_ready, client.peek_delayed, client.peek_buried):
        with pytest.raises(greenstalk.NotFoundError):
            peek()
    with pytest.raises(greenstalk.NotFoundError):
        client.stats_tube("no-such-tube")
    with pytest.raises(greenstalk.NotIgnoredError):
        client.ignore("errors")
    with pytest.raises(greenstalk.BadFormatError):
        client.use("-not-a-name")
    with pytest.raises(greenstalk.TimedOutError):
        client.reserve(timeout=1)


def test_tubes(connect: Connect) -> None:
    client = connect(use="tubes-a", watch=["tubes-b", "tubes-c"])
    assert client.using() == "tubes-a"
    assert sorted(client.watching()) == ["tubes-b", "tubes-c"]
    assert {"default", "tubes-a", "tubes-b", "tubes-c"} <= set(client.tubes())
    client.ignore("tubes-b")
    assert client.watching() == ["tubes-c"]
    assert client.watch("default") == 2
    assert "tubes-b" not in client.tubes()


def test_pause(connect: Connect) -> None:
    client = connect(use="pause", watch="pause")
    client.put(b"")
    client.pause_tube("pause", 100)
    stats = client.stats_tube("pause")
    assert stats["pause"] == 100
    assert 90 <= stats["pause-time-left"] <= 100
    with pytest.raises(greenstalk.TimedOutError):
        client.reserve(timeout=0)
    client.pause_tube("pause", 0)
    client.delete(client.reserve(timeout=0))


def test_statistics_have_the_keys_and_types_that_it_knows(connect: Connect) -> None:
    client = connect(use="stats", watch="stats")
    job_id = client.put(b"")
    for found, known in (
        (client.stats(), greenstalk.Stats),
        (client.stats_tube("stats"), greenstalk.StatsTube),
        (client.stats_job(job_id), greenstalk.StatsJob),
    ):
        wanted = known.__annotations__
        assert set(wanted) <= set(found)
        assert known is greenstalk.Stats or len(found) == len(wanted), "an extra key"
        for key, kind in wanted.items():
            assert isinstance(found[key], int) or kind is not int, key  # type: ignore[literal-required]
    client.delete(job_id)


def test_jobs_of_schedules_are_as_any(server: Server, connect: Connect) -> None:
    """A client that knows nothing of schedules reserves, buries, kicks, releases and deletes what they have put."""
    client = connect(watch="scheduled")
    with Client((HOST, server.port)) as ours:
        ours.set_schedule("nightly", "made", cron="30 2 * * *", zone="Europe/Berlin", tube="scheduled", ttr=100)
        fired = ours.fire_schedule("nightly")
    job = client.reserve(timeout=0)
    assert (job.id, job.body, client.stats_job(job)["ttr"]) == (fired, b"made", 100)
    client.bury(job)
    client.kick_job(fired)
    client.release(client.reserve(timeout=0))
    client.touch(client.reserve(timeout=0))
    client.delete(fired)
    with pytest.raises(greenstalk.TimedOutError):
        client.reserve(timeout=0)
