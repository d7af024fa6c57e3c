"""The parts of the client that need no connection."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

import beanpole
from beanpole.address import Address, Addresses, reason_of
from beanpole.client.base import BaseClient
from beanpole.client.codec import JsonCodec, TextCodec
from beanpole.client.job import Job, JobInfo, job_id
from beanpole.client.pool import Pool, Ring
from beanpole.client.recovery import Backoff
from beanpole.client.stats import Stats, StatsJob, StatsTube, parse_list
from beanpole.errors import ArgumentError, UnexpectedReplyError
from beanpole.protocol import wire
from beanpole.testing import FakeServer


@pytest.mark.parametrize(
    ("given", "wanted", "shown"),
    [
        ("beanstalk://h:1", Address("h", 1), "beanstalk://h:1"),
        ("beanstalk://h", Address("h", 11300), "beanstalk://h:11300"),
        ("beanstalk://h/", Address("h", 11300), "beanstalk://h:11300"),
        ("beanstalk://[::1]:2", Address("::1", 2), "beanstalk://[::1]:2"),
        ("unix:/run/b", Address(path="/run/b"), "unix:/run/b"),
        ("unix:///run/b", Address(path="/run/b"), "unix:/run/b"),
        ("unix:b", Address(path="b"), "unix:b"),
        ("/run/b", Address(path="/run/b"), "unix:/run/b"),
        (("h", 3), Address("h", 3), "beanstalk://h:3"),
        ("h:3", Address("h", 3), "beanstalk://h:3"),
        ("[::1]:3", Address("::1", 3), "beanstalk://[::1]:3"),
        ("./h:3", Address(path="./h:3"), "unix:./h:3"),
        ("./b.sock", Address(path="./b.sock"), "unix:./b.sock"),
        ("run/b", Address(path="run/b"), "unix:run/b"),
        ("localhost", Address("localhost"), "beanstalk://localhost:11300"),
        ("queue.example.org", Address("queue.example.org"), "beanstalk://queue.example.org:11300"),
        ("[::1]", Address("::1"), "beanstalk://[::1]:11300"),
        ("[fe80::1%eth0]:2", Address("fe80::1%eth0", 2), "beanstalk://[fe80::1%eth0]:2"),
        ("a, b:2", Address("a", others=(Address("b", 2),)), "beanstalk://a:11300,b:2"),
        ("beanstalk://h:1,g", Address("h", 1, others=(Address("g"),)), "beanstalk://h:1,g:11300"),
        ("beanstalk://h,beanstalk://g:2", Address("h", others=(Address("g", 2),)), "beanstalk://h:11300,g:2"),
        ("h:1,[::1]:2", Address("h", 1, others=(Address("::1", 2),)), "beanstalk://h:1,[::1]:2"),
        ("h,g:2", Address("h", others=(Address("g", 2),)), "beanstalk://h:11300,g:2"),
        (["h:1", ("g", 2)], Address("h", 1, others=(Address("g", 2),)), "beanstalk://h:1,g:2"),
        (["h:1"], Address("h", 1), "beanstalk://h:1"),
        (
            ["h:1,g:2", "unix:/b"],
            Address("h", 1, others=(Address("g", 2), Address(path="/b"))),
            "beanstalk://h:1,g:2,unix:/b",
        ),
        ("unix:/run/a,b:1", Address(path="/run/a,b:1"), "unix:/run/a,b:1"),
        ("/run/a,b:1", Address(path="/run/a,b:1"), "unix:/run/a,b:1"),
        ("a,b", Address("a", others=(Address("b"),)), "beanstalk://a:11300,b:11300"),
        ("beanstalks://h", Address("h", 11400, tls=True), "beanstalks://h:11400"),
        (
            "beanstalks://h:1,[::1]",
            Address("h", 1, tls=True, others=(Address("::1", 11400, tls=True),)),
            "beanstalks://h:1,[::1]:11400",
        ),
    ],
)
def test_address(given: Any, wanted: Address, shown: str) -> None:
    assert Address.of(given) == wanted
    assert Address.of(wanted) == wanted
    assert str(wanted) == shown


NO_URLS = """
    beanstalk:// beanstalk://h:x beanstalk://h:99999 http://h beanstalk://h/tube unix: unix:/
    beanstalks:// beanstalks://h:x beanstalks://h,beanstalk://g beanstalk://h,beanstalks://g
    beanstalk://h, beanstalk://,h beanstalk://h,http://g beanstalk://h,g:x beanstalk://h,unix:/b
"""


@pytest.mark.parametrize("url", NO_URLS.split())
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ArgumentError):
        Address.from_url(url)


NO_ADDRESSES: list[Any] = [
    *("", "two words", "::1", "user@h", "h:", "h:" + "1" * 5_000, "a,,b", "/b\0", "h:0"),
    *(5, b"h", (), ("h",), ("h", 1, 2), ("h", "1"), ("h", 0), ("h", 65536), [], ["h:1", None], ("h:1", "g:1")),
]


@pytest.mark.parametrize("given", NO_ADDRESSES)
def test_what_is_no_address(given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"address|host"):
        beanpole.Client(given)


def test_what_an_error_says_of_an_address() -> None:
    with pytest.raises(ArgumentError, match=r"^'h:x' is no address: .*HOST:PORT, HOST, .* with a slash$"):
        Address.of("h:x")
    with pytest.raises(ArgumentError, match=r"'::1' is no address: .*; an IPv6 address stands in brackets$"):
        Address.of("::1")


@pytest.mark.parametrize(
    "made",
    [
        lambda *given: beanpole.Client(*given).address,
        lambda *given: beanpole.AsyncClient(*given).address,
        lambda *given: beanpole.Worker(*given).address,
        lambda *given: beanpole.Pool(*([each] for each in given))._addresses[0],
    ],
)
def test_the_variable_says_where_the_server_is_if_nobody_else_does(
    made: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEANPOLE_URL", "elsewhere,b:2")
    assert made().host == "elsewhere"
    assert made("here") == Address("here")
    monkeypatch.setenv("BEANPOLE_URL", "")
    assert made() == Address("127.0.0.1", 11300)
    monkeypatch.setenv("BEANPOLE_URL", "http://h")
    assert made("here") == Address("here")
    with pytest.raises(ArgumentError, match=r"^the variable BEANPOLE_URL: .*'http://h'"):
        made()


def test_addresses_go_round() -> None:
    addresses = Addresses(Address.of("a:1,b:2"))
    first = addresses.current
    assert (first, len(addresses)) == (Address("a", 1), 2)
    addresses.failed(first)
    addresses.failed(first)  # by another client, which was there as well
    assert addresses.current == Address("b", 2)
    addresses.failed(addresses.current)
    assert addresses.current is first


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"timeout": 0}, "timeout must be a number of seconds above 0, or None"),
        ({"timeout": "5"}, "timeout must be a number"),
        ({"connect_timeout": -1}, "connect_timeout must be a number"),
        ({"codec": JsonCodec}, r"codec=JsonCodec\(\)"),
        ({"watch": []}, "at least one tube"),
        ({"use": "no tube"}, "a tube's name"),
    ],
)
def test_wrong_options_are_found_at_once(option: Any, message: str) -> None:
    for kind in (beanpole.Client, beanpole.AsyncClient):
        with pytest.raises(ArgumentError, match=message):
            kind("beanstalk://h", **option)


def test_an_encoding_that_there_is_not() -> None:
    with pytest.raises(LookupError, match="nonsense"):
        beanpole.Client("beanstalk://h", "nonsense")


def test_bodies_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match=r"a body is a string, not dict: .* codec"):
        beanpole.Client("beanstalk://h").put({"a": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a body is bytes here, not str"):
        beanpole.Client("beanstalk://h", None).put("x")  # type: ignore[arg-type]


def test_put_many_of_one_body() -> None:
    with FakeServer() as server, beanpole.Client(server.url) as client:
        with pytest.raises(ArgumentError, match="not one body"):
            client.put_many("abc")
        assert server.jobs() == []


@pytest.mark.parametrize(
    "error",
    [
        OSError(111, "Connect call failed ('127.0.0.1', 21499)"),
        OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 111] Connect call failed"),
    ],
)
def test_what_asyncio_says_is_put_in_the_words_of_the_system(error: OSError) -> None:
    assert reason_of(error) == "Connection refused"


def test_pauses_double_up_to_the_longest() -> None:
    assert list(Backoff(5, 1.0, 3.0, lambda: 0.0).pauses()) == [1.0, 2.0, 3.0, 3.0]
    assert list(Backoff(3, 1.0, 3.0, lambda: 1.0).pauses()) == [0.5, 1.0]
    assert list(Backoff(1).pauses()) == []


def test_codecs() -> None:
    assert JsonCodec().decode(JsonCodec().encode({"ü": [1, None]})) == {"ü": [1, None]}
    assert TextCodec("latin-1").encode("ü") == b"\xfc"
    assert TextCodec().encode(b"\xff") == b"\xff"


def test_job_or_id() -> None:
    assert job_id(Job(3, "x")) == job_id(3) == 3
    assert repr(Job(3, "x")) == "beanpole.Job(id=3, body='x')"


def test_stats_are_typed_and_tolerant() -> None:
    stats = Stats.parse(b'---\ncmd-put: 3\nrusage-utime: 0.25\nversion: "1.13"\ndraining: true\nid: 0123\nnew: a b\n')
    assert (stats.cmd_put, stats.rusage_utime, stats.version, stats.draining) == (3, 0.25, "1.13", True)
    assert (stats["cmd-put"], stats["new"], stats["draining"]) == (3, "a b", "true")
    assert stats.current_tubes == 0
    assert "cmd-put" in stats
    assert len(stats) == 6
    for name in ("1.5", "017", "1_000", "null"):
        tube = StatsTube.parse(b"---\nname: %s\n" % name.encode())
        assert (tube.name, tube["name"]) == (name, name)
    job = StatsJob.parse(b'---\ntube: "a"\ntime-left: -1\n')
    assert (job.tube, job.time_left) == ("a", -1)


@pytest.mark.parametrize("text", [b"", b"x: 1\n", b"---\nx\n", b"---\nid: x\n"])
def test_what_is_no_statistics(text: bytes) -> None:
    with pytest.raises(UnexpectedReplyError):
        StatsJob.parse(text)


def test_lists() -> None:
    assert parse_list(b'---\n- default\n- 017\n- "1.5"\n') == ["default", "017", "1.5"]
    with pytest.raises(UnexpectedReplyError):
        parse_list(b"---\nx: 1\n")


# --- Pools ------------------------------------------------------------------------------------------------------------


def test_ring_round_robin_and_spares() -> None:
    ring = Ring(3, "round-robin", lambda: 0.0)
    assert [ring.order() for _ in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]
    assert Ring(3, "first", lambda: 0.9).order() == [0, 1, 2]
    assert Ring(3, "random", lambda: 0.9).order() == [2, 0, 1]


def test_ring_leaves_out_what_fails_longer_and_longer() -> None:
    ring = Ring(2, "first", lambda: 0.0)
    first = []
    for _ in range(12):
        order = ring.order()
        first.append(order[0])
        if order[0] == 0:
            ring.failed(0)
    assert first == [0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1]
    ring.answered(0)
    assert ring.order() == [0, 1]


def test_pool_finds_wrong_arguments_at_once() -> None:
    for urls in ([], "unix:a", ["http://a"]):
        with pytest.raises(ArgumentError):
            Pool(urls)
    with pytest.raises(ArgumentError):
        Pool(["unix:a"], strategy="best")  # type: ignore[arg-type]


# --- What a user imports ----------------------------------------------------------------------------------------------


def test_a_server_does_not_import_the_client() -> None:
    code = "import sys, beanpole.cli.serve; sys.exit(any(name.startswith('beanpole.client') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_client_that_sets_no_schedules_does_not_import_them() -> None:
    code = "import sys, beanpole.worker; sys.exit(any(name.startswith('beanpole.schedules') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_are_found_and_others_are_not() -> None:
    assert beanpole.Client.__name__ == "Client"
    assert beanpole.Error is beanpole.BeanpoleError
    assert issubclass(beanpole.TimedOutError, beanpole.BeanstalkdError)
    for wrong in ("Nothing", "NothingError", "client_"):
        with pytest.raises(AttributeError):
            getattr(beanpole, wrong)


# --- Signatures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [beanpole.Client, beanpole.AsyncClient])
def test_a_client_shows_its_arguments(kind: type) -> None:
    """As editors and help() see them: those of the base class, with the same defaults."""

    def shown(function: type) -> list[tuple[str, object, object]]:
        return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]

    assert shown(kind) == shown(BaseClient)


def test_all_that_is_known_of_a_job() -> None:
    reader = wire.ReplyReader()
    line = b"JOBS 1\r\nJOB 7 1 tube=a from=b died=1.5 pri=3 key=k=v attempt=2 unknown=5 odd"
    line += b" schedule=s scheduled=1000.5 fire=3\r\nx\r\n"
    reader.receive(line)
    reply = reader.next_reply()
    assert reply is not None
    [frame] = reply.frames
    job = JobInfo.parse(frame)
    assert (job.tube, job.origin, job.died, job.pri, job.key, job.attempt) == ("a", "b", 1.5, 3, "k=v", 2)
    assert (job.schedule, job.scheduled_at, job.fire) == ("s", datetime.fromtimestamp(1000.5, UTC), 3)
    assert job.as_dict() == asdict(job)
