"""/health, /ready and /leader of real servers, and who may ask."""

import http.client

import pytest

from beanpole.errors import ExitCode
from tests.e2e.cli.conftest import run
from tests.e2e.console.process import console, url_of
from tests.e2e.process import wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, beanpole_server

CHECKS = ("/health", "/ready", "/leader")


def test_a_server_that_is_well_passes_and_one_that_drains_takes_no_jobs() -> None:
    with (
        beanpole_server() as server,
        beanpole_server() as other,
        console("--url", url_of(server, "one"), "--url", url_of(other, "two")) as served,
    ):
        for path in CHECKS:
            answer = served.get(path)
            assert answer.status == 200, answer
            assert [line.partition(":")[0] for line in answer.text.splitlines()] == ["one", "two"]
        other.drain()
        wait_until(lambda: served.get("/ready").status == 503, "the console sees that a server drains")
        assert "two: draining" in served.get("/ready").text
        assert served.get("/ready?server=one").status == 200
        assert served.get("/ready?server=two").status == 503
        assert served.get("/health").status == 200
        assert served.get("/health?server=three").status == 404


def test_what_is_served_and_to_whom() -> None:
    with beanpole_server() as server, console("--url", url_of(server, "one"), "--http-host", "queue.example") as served:
        for path in ("/nothing", "/metrics/", "/..%2f", "/%ff", "/health?server=%ff"):
            assert served.get(path).status == 404, path
        assert "/health, /leader, /metrics, /ready, and pages" in served.get("/nothing").text
        assert served.get("/metrics", "POST").status == 405
        assert served.get("/health", "DELETE").status == 405
        head = served.get("/metrics", "HEAD")
        assert (head.status, head.body) == (200, b"")
        assert served.get("/health", Host="Queue.Example:11380").status == 200
        refused = served.get("/health", Host="evil.example")
        assert (refused.status, "--http-host" in refused.text) == (421, True)
        connection = http.client.HTTPConnection(HOST, served.port, timeout=REPLY_TIMEOUT_S)
        connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"  # type: ignore[attr-defined]
        connection.putrequest("GET", "/health", skip_host=True)  # of HTTP 1.0, which knew no hosts
        connection.endheaders()
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.parametrize("name", ["http://queue.example", "*.example", "a,b", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    done = run("console", "--http", f"{HOST}:0", "--http-host", name)
    assert (done.code, done.out) == (ExitCode.USAGE, b"")
    assert f"{name!r} is no name of a host" in done.err
