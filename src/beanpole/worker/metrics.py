"""What a worker has done, as Prometheus reads it: how long attempts took, how they ended, and how many slots work.

The slots count here, also for handlers that run in processes of their own: so these are the numbers of the worker as a
whole. The text is written here, for a worker needs no library of Prometheus.

HTTP serves a scraper, not the web: one request a connection, within a few seconds, of which only the first line is
looked at. Whoever is slow, says too much or does not read is cut off, and never holds up the slots, which share the
loop.
"""

import asyncio
import contextlib
import socket
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from beanpole.errors import StartError
from beanpole.version import __version__
from beanpole.worker.handler import Counters, Outcome

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000),
)
"""The bounds of the histograms of durations, in seconds."""

ATTEMPTS = (1, 2, 3, 4, 5, 7, 10, 15, 25)  # the bounds of the histograms of attempts
PREFIX = "beanpole_worker_"  # what the names of a worker's metrics begin with
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"

HTTP_HEAD_BYTES_MAX = 16_384  # bytes of the head of a request for the metrics
HTTP_CONNECTIONS_MAX = 32  # connections for the metrics at a time; a further one is closed at once
OPEN_AGAIN_S = 1.0  # seconds between two tries to listen at an address for the metrics that something else has
HTTP_REQUEST_S = 5  # seconds from the connection for the metrics to its end: a scraper is a machine nearby


@dataclass(slots=True)
class Histogram:
    """Numbers, counted between bounds; one that is equal to a bound is counted below it."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, number: float) -> None:
        self.counts[bisect_left(self.bounds, number)] += 1
        self.sum += number

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """Returns the samples; each bucket has those before it as well."""
        total = 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}\n'
        yield f"{name}_sum{{{labels}}} {self.sum!r}\n"
        yield f"{name}_count{{{labels}}} {total}\n"


class Metrics:
    """What a worker has done since it was made."""

    def __init__(self) -> None:
        self._durations: dict[tuple[str, Outcome], Histogram] = {}
        self._attempts: dict[str, Histogram] = {}
        self._outcomes: dict[tuple[str, Outcome], int] = {}

    def expect(self, tube: str) -> None:
        """Shows a tube from now on, before it has had a job: what grows from 0 is seen to grow."""
        if tube in self._attempts:
            return
        self._attempts[tube] = Histogram(ATTEMPTS)
        for outcome in Outcome:
            self._outcomes[tube, outcome] = 0
        self._durations[tube, Outcome.DONE] = Histogram(SECONDS)

    def begin(self, tube: str, attempt: int) -> None:
        """Counts an attempt: which one at its job it is."""
        self.expect(tube)
        self._attempts[tube].add(attempt)

    def end(self, tube: str, outcome: Outcome, seconds: float | None) -> None:
        """Counts how an attempt ended, and how long its handler took; None: none was called."""
        self.expect(tube)
        self._outcomes[tube, outcome] += 1
        if seconds is not None:
            if (tube, outcome) not in self._durations:
                self._durations[tube, outcome] = Histogram(SECONDS)
            self._durations[tube, outcome].add(seconds)

    def text(self, counters: Counters, slots: int) -> str:
        """Returns everything in the text format of Prometheus."""
        return "".join(self._lines(counters, slots))

    def _lines(self, counters: Counters, slots: int) -> Iterator[str]:
        yield _head("build_info", "gauge", "The version of the worker.")
        yield f'beanpole_worker_build_info{{version="{__version__}"}} 1\n'
        yield _head("job_seconds", "histogram", "How long handlers took, by how the attempt ended.")
        for (tube, outcome), histogram in sorted(self._durations.items()):
            yield from histogram.lines("beanpole_worker_job_seconds", f'tube="{tube}",outcome="{outcome}"')
        yield _head("job_ends_total", "counter", "Attempts that have ended, by how.")
        for (tube, outcome), count in sorted(self._outcomes.items()):
            yield f'beanpole_worker_job_ends_total{{tube="{tube}",outcome="{outcome}"}} {count}\n'
        yield _head("job_attempts", "histogram", "Which attempt at its job each was.")
        for tube, histogram in sorted(self._attempts.items()):
            yield from histogram.lines("beanpole_worker_job_attempts", f'tube="{tube}"')
        yield singles(
            PREFIX,
            (
                ("jobs_reserved_total", "counter", "Jobs reserved.", counters.reserved),
                ("jobs_failed_total", "counter", "Handlers that raised, or took too long.", counters.failed),
                ("slots", "gauge", "Jobs that may be worked on at a time.", slots),
                ("slots_in_use", "gauge", "Jobs that are worked on now.", counters.running),
                ("connections", "gauge", "Open connections to the server.", counters.connections),
            ),
        )


def _head(name: str, kind: str, text: str, prefix: str = PREFIX) -> str:
    return f"# HELP {prefix}{name} {text}\n# TYPE {prefix}{name} {kind}\n"


def singles(prefix: str, rows: Iterable[tuple[str, str, str, float | Mapping[str, float]]]) -> str:
    """Returns metrics in the text format: name, type, what it says, and value, or values by labels."""
    lines = []
    for name, kind, text, value in rows:
        lines.append(_head(name, kind, text, prefix))
        values = value if isinstance(value, Mapping) else {"": value}
        lines += [f"{prefix}{name}{labels} {each}\n" for labels, each in values.items()]
    return "".join(lines)


# --- HTTP -------------------------------------------------------------------------------------------------------------


class MetricsServer:
    """Answers with what two functions return: the metrics, and a sentence on what is wrong or an empty one."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        metrics: Callable[[], str],
        health: Callable[[], str],
        open_later: Callable[[], Sequence[socket.socket]] | None = None,
    ) -> None:
        self._sockets = sockets
        self._open_later = open_later
        self._opening: asyncio.Task[None] | None = None
        self._metrics = metrics
        self._health = health
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begins to serve on the sockets, which listen already."""
        await self._serve_on(self._sockets)
        if self._open_later is not None:
            self._opening = asyncio.create_task(self._open(self._open_later))

    async def _serve_on(self, sockets: Sequence[socket.socket]) -> None:
        for each in sockets:
            made = await asyncio.start_server(self._accept, sock=each, limit=HTTP_HEAD_BYTES_MAX)
            self._servers.append(made)

    async def _open(self, open_later: Callable[[], Sequence[socket.socket]]) -> None:
        """Makes the sockets once it is possible: what has the address now may be a worker that is about to end."""
        while True:
            await asyncio.sleep(OPEN_AGAIN_S)
            with contextlib.suppress(OSError, StartError):
                await self._serve_on(open_later())
                return

    async def stop(self) -> None:
        """Closes the sockets, and the connections at once."""
        if self._opening is not None:
            self._opening.cancel()
        for server in self._servers:
            server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._serving) >= HTTP_CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request; a client that is slow, or that says no HTTP, is cut off."""
        try:
            with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(HTTP_REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head.partition(b"\r\n")[0]))
                    await writer.drain()
                    writer.write_eof()
                    # Until the client closes: a close of ours could overtake the answer.
                    while await reader.read(HTTP_HEAD_BYTES_MAX):
                        pass
        finally:
            writer.transport.abort()

    def _answer(self, line: bytes) -> bytes:
        """The answer to a request by its first line."""
        method, _, rest = line.decode("latin-1").partition(" ")
        target, _, version = rest.partition(" ")
        path = target.partition("?")[0]
        if not version.startswith("HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1\n")
        if path not in {"/metrics", "/health"}:
            return _response(HTTPStatus.NOT_FOUND, "there are /metrics and /health\n")
        if method not in {"GET", "HEAD"}:
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "this can only be read\n")
        if path == "/metrics":
            return _response(HTTPStatus.OK, self._metrics(), CONTENT_TYPE, has_body=method == "GET")
        wrong = self._health()
        status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
        return _response(status, f"{wrong or 'ok'}\n", has_body=method == "GET")


def _response(status: HTTPStatus, text: str, kind: str = PLAIN, *, has_body: bool = True) -> bytes:
    body = text.encode()
    allow = "Allow: GET, HEAD\r\n" * (status is HTTPStatus.METHOD_NOT_ALLOWED)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"{allow}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body * has_body
