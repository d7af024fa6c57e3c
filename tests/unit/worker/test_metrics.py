"""A worker's metrics: what is counted, and HTTP for scrapers that are slow, rude, or many."""

import asyncio
import contextlib
import http.client
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from beanpole.worker.handler import Counters, Outcome
from beanpole.worker.metrics import ATTEMPTS, HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX, SECONDS, Metrics, MetricsServer

WAIT_S = 20


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The samples of a page by name and values of labels, as Prometheus's own library reads them."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in {"counter", "gauge", "histogram"}
        for each in family.samples:
            key = (each.name, *each.labels.values())
            assert key not in found, "a sample stands there twice"
            found[key] = each.value
    return found


def test_what_is_counted_is_what_happened() -> None:
    metrics = Metrics()
    metrics.expect("quiet")
    for attempt, outcome, seconds in [
        (1, Outcome.DONE, 0.001),
        (1, Outcome.DONE, 0.0011),
        (2, Outcome.DONE, 20_000.0),
        (7, Outcome.RETRIED, 3.0),
        (99, Outcome.BURIED, None),
    ]:
        metrics.begin("mail", attempt)
        metrics.end("mail", outcome, seconds)
    found = samples(metrics.text(Counters(reserved=6, failed=2, running=3, connections=4), 10))
    assert found["beanpole_worker_job_seconds_bucket", "mail", "done", "0.001"] == 1
    assert found["beanpole_worker_job_seconds_bucket", "mail", "done", "0.0025"] == 2
    assert found["beanpole_worker_job_seconds_bucket", "mail", "done", "10000"] == 2
    assert found["beanpole_worker_job_seconds_bucket", "mail", "done", "+Inf"] == 3
    assert found["beanpole_worker_job_seconds_count", "mail", "done"] == 3
    assert found["beanpole_worker_job_seconds_sum", "mail", "done"] == pytest.approx(20_000.0021)
    assert found["beanpole_worker_job_seconds_count", "mail", "retried"] == 1
    assert ("beanpole_worker_job_seconds_count", "mail", "buried") not in found
    assert found["beanpole_worker_job_ends_total", "mail", "buried"] == 1
    assert found["beanpole_worker_job_ends_total", "mail", "lost"] == 0
    assert found["beanpole_worker_job_ends_total", "quiet", "done"] == 0
    assert found["beanpole_worker_job_attempts_bucket", "mail", "1"] == 2
    assert found["beanpole_worker_job_attempts_bucket", "mail", "7"] == 4
    assert found["beanpole_worker_job_attempts_sum", "mail"] == 110
    assert found["beanpole_worker_jobs_reserved_total",] == 6
    assert found["beanpole_worker_jobs_failed_total",] == 2
    assert found["beanpole_worker_slots",] == 10
    assert found["beanpole_worker_slots_in_use",] == 3
    assert found["beanpole_worker_connections",] == 4
    assert sorted(SECONDS) == list(SECONDS)
    assert sorted(ATTEMPTS) == list(ATTEMPTS)


def serving(scene: Callable[[tuple[str, int]], Awaitable[None]], health: str = "") -> None:
    """Runs a scene beside a server, which ends in time whatever clients do."""

    async def run() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        address = listener.getsockname()
        server = MetricsServer([listener], lambda: "a 1\n", lambda: health)
        await server.start()
        try:
            await scene(address)
        finally:
            await asyncio.wait_for(server.stop(), WAIT_S)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    asyncio.run(asyncio.wait_for(run(), 2 * WAIT_S))


def ask(address: tuple[str, int], method: str, path: str) -> Coroutine[Any, Any, tuple[int, str, bytes]]:
    """The status, type and body of an answer, as Python's own client reads it."""

    def exchange() -> tuple[int, str, bytes]:
        with contextlib.closing(http.client.HTTPConnection(*address, timeout=WAIT_S)) as connection:
            connection.request(method, path)
            with connection.getresponse() as answer:
                return answer.status, answer.headers["Content-Type"], answer.read()

    return asyncio.to_thread(exchange)


async def close(writers: Iterable[asyncio.StreamWriter]) -> None:
    """Closes connections, some of which the server has closed."""
    for each in writers:
        each.close()
        with contextlib.suppress(ConnectionError):
            await each.wait_closed()


async def say(address: tuple[str, int], data: bytes) -> bytes:
    """Everything that is answered to some bytes, until the server closes."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(data)
        writer.write_eof()
        return await reader.read()
    except OSError:
        return b""
    finally:
        await close([writer])


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/metrics", 200, b"a 1\n"),
        ("GET", "/metrics?x=y", 200, b"a 1\n"),
        ("HEAD", "/metrics", 200, b""),
        ("GET", "/health", 200, b"ok\n"),
        ("POST", "/metrics", 405, b"this can only be read\n"),
        ("GET", "/", 404, b"there are /metrics and /health\n"),
    ],
)
def test_answers(method: str, path: str, status: int, body: bytes) -> None:
    async def scene(address: tuple[str, int]) -> None:
        found = await ask(address, method, path)
        assert (found[0], found[2]) == (status, body)
        metrics = path.startswith("/metrics") and status == 200
        assert found[1] == "text/plain; " + "version=0.0.4; " * metrics + "charset=utf-8"

    serving(scene)


def test_an_unhealthy_worker_says_why() -> None:
    async def scene(address: tuple[str, int]) -> None:
        assert (await ask(address, "GET", "/health"))[::2] == (503, b"no connection\n")

    serving(scene, "no connection")


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n", b"GET /metrics\r\n\r\n", b"nonsense\r\n\r\n", b"\xff\x00 \r\n\r\n"])
def test_what_is_no_request_is_refused(data: bytes) -> None:
    async def scene(address: tuple[str, int]) -> None:
        assert (await say(address, data)).partition(b"\r\n")[0] in {b"", b"HTTP/1.1 400 Bad Request"}
        assert (await ask(address, "GET", "/metrics"))[0] == 200

    serving(scene)


def test_rude_scrapers_hold_nothing_up() -> None:
    async def scene(address: tuple[str, int]) -> None:
        endless = b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 10 * HTTP_HEAD_BYTES_MAX
        assert await say(address, endless) == b""
        silent = [await asyncio.open_connection(*address) for _ in range(HTTP_CONNECTIONS_MAX - 1)]
        for _, writer in silent:
            writer.write(b"GET /met")
        assert (await ask(address, "GET", "/metrics"))[0] == 200
        await close(writer for _, writer in silent)

    serving(scene)


def test_further_connections_are_closed_at_once() -> None:
    async def scene(address: tuple[str, int]) -> None:
        silent = [await asyncio.open_connection(*address) for _ in range(HTTP_CONNECTIONS_MAX)]
        assert await say(address, b"GET /metrics HTTP/1.1\r\n\r\n") == b""
        await close(writer for _, writer in silent)

    serving(scene)
