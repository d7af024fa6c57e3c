"""A worker's /metrics and /health over HTTP: one request a connection, within a few seconds.

It serves a scraper, not the web, and needs no library for that: of a request only its first line is looked at. Whoever
is slow, says too much or does not read is cut off, and never holds up the slots, which share the loop.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus

from beanpole.worker.metrics import CONTENT_TYPE

HTTP_HEAD_BYTES_MAX = 16_384
"""Bytes of the head of a request for the metrics."""

HTTP_CONNECTIONS_MAX = 32
"""Connections for the metrics at a time; a further one is closed at once."""

HTTP_REQUEST_S = 5
"""Seconds from the connection for the metrics to its end: a scraper is a machine nearby."""

PLAIN = "text/plain; charset=utf-8"


class MetricsServer:
    """Answers with what two functions return: the metrics, and a sentence on what is wrong or an empty one."""

    def __init__(self, sockets: Sequence[socket.socket], metrics: Callable[[], str], health: Callable[[], str]) -> None:
        self._sockets = sockets
        self._metrics = metrics
        self._health = health
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begins to serve on the sockets, which listen already."""
        for each in self._sockets:
            made = await asyncio.start_server(self._accept, sock=each, limit=HTTP_HEAD_BYTES_MAX)
            self._servers.append(made)

    async def stop(self) -> None:
        """Closes the sockets, and the connections at once."""
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
