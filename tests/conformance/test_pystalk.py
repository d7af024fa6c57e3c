"""pystalk, a client from PyPI that feeds statistics to a real YAML parser, does what its users do with it."""

from collections.abc import Iterator

import pystalk
import pytest
import yaml
from pystalk.client import BeanstalkClient, BeanstalkError

from tests.servers import HOST, WAYS, Server, beanpole_server


@pytest.fixture(
    scope="module",
    params=[*WAYS, "one-reply-per-send"],
)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server for all tests: as it is, behind fronts and a router, and with the option meant for this client."""
    with WAYS[request.param]() if request.param in WAYS else beanpole_server("--one-reply-per-send") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[BeanstalkClient]:
    """A client."""
    opened = pystalk.BeanstalkClient(HOST, server.port, socket_timeout=20)
    yield opened
    opened.close()


def test_job_goes_through_its_life(client: BeanstalkClient) -> None:
    client.use("life")
    client.watch("life")
    assert client.watchlist == {"life"}
    _, job_id = client.put_job(b"body", pri=3, ttr=100)
    job = client.reserve_job(0)
    assert (job.job_id, job.job_data) == (job_id, b"body")
    client.release_job(job_id, pri=4)
    assert client.peek_ready().job_data == b"body"
    client.bury_job(client.reserve_job(0).job_id, pri=5)
    assert client.peek_buried().job_id == job_id
    assert client.kick_jobs(10) == (b"KICKED", 1)
    client.bury_job(client.reserve_job(0).job_id)
    client.kick_job(job_id)
    stats = client.stats_job(job_id)
    assert (stats["tube"], stats["state"], stats["releases"], stats["buries"]) == ("life", "ready", 1, 2)
    client.release_job(client.reserve_job(0).job_id, delay=100)
    assert client.peek_delayed().job_id == job_id
    client.delete_job(job_id)


@pytest.mark.parametrize("body", [b"", b"\r\n", bytes(range(256)), b"x" * 65535])
def test_body_comes_back_as_it_was(client: BeanstalkClient, body: bytes) -> None:
    client.put_job(body)
    job = client.reserve_job(0)
    assert job.job_data == body
    client.delete_job(job.job_id)


def test_errors(client: BeanstalkClient) -> None:
    for ask in (client.delete_job, client.release_job, client.bury_job, client.kick_job, client.stats_job):
        with pytest.raises(BeanstalkError) as caught:
            ask(2**64 - 1)
        assert caught.value.message == "NOT_FOUND"
    with pytest.raises(BeanstalkError) as caught:
        client.reserve_job(0)
    assert caught.value.message == "TIMED_OUT"
    with pytest.raises(BeanstalkError) as caught:
        client.put_job(b"x" * 65536)
    assert caught.value.message == "JOB_TOO_BIG"


def test_iterators_end(client: BeanstalkClient) -> None:
    client.use("iterated")
    client.watchlist = {"iterated"}
    ids = [client.put_job(b"%d" % number)[1] for number in range(20)]
    got = []
    for job in client.reserve_iter():
        got.append(job.job_id)
        client.delete_job(job.job_id)
    assert got == ids
    assert list(client.peek_buried_iter()) == []


@pytest.mark.parametrize("name", ["1.5", "null", "yes", "0x1f", "2001-01-01", "1_000", "plain", "a+b/c;d.$_()"])
def test_names_as_its_yaml_parser_reads_them(client: BeanstalkClient, name: str) -> None:
    """Names are written plain, as beanstalkd does, so what YAML takes for a number or a date is one to pystalk."""
    client.use(name)
    _, job_id = client.put_job(b"")
    read = yaml.safe_load(name)
    assert client.stats_tube(name)["name"] == read
    assert client.stats_job(job_id)["tube"] == read
    assert read in client.list_tubes()
    client.delete_job(job_id)


def test_statistics(client: BeanstalkClient) -> None:
    client.use("stats")
    with client.using("other") as inserter:
        _, job_id = inserter.put_job(b"")
    stats = client.stats()
    assert str(stats["version"]) == "1.13"
    assert isinstance(stats["hostname"], str)
    assert isinstance(stats["os"], str)
    assert stats["current-jobs-ready"] == 1
    client.delete_job(job_id)


def test_pause(client: BeanstalkClient) -> None:
    client.put_job_into("paused", b"")
    client.pause_tube("paused", 100)
    assert client.stats_tube("paused")["pause"] == 100
    client.watchlist = {"paused"}
    with pytest.raises(BeanstalkError):
        client.reserve_job(0)
    client.unpause_tube("paused")
    client.delete_job(client.reserve_job(0).job_id)
