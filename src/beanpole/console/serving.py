"""The HTTP server: uvicorn on sockets that are open already, with limits for slow and rude clients.

uvicorn waits for as long as it takes for the first request of a connection, and for a client to read. Here both are
bounded, and a stop takes half a second at most. An answer that is a stream may go on for as long as its client reads.
What uvicorn would say of clients' mistakes is not logged: nothing that a client does can write a line.
"""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from beanpole.console.sampler import Logger

HTTP_HEAD_BYTES_MAX = 16_384  # bytes of a request's head

HTTP_CONNECTIONS_MAX = 200
"""Connections for HTTP at a time; for a further one that is closed which has been idle for longest, if any is."""

HTTP_REQUEST_S = 30  # seconds in which a connection must have brought its next request and taken the answer

HTTP_UNREAD_BYTES_MAX = 16_384
"""Bytes that wait for a client to read before more is made for it: it finds the newest state, not those before it."""

HTTP_KEEP_ALIVE_S = 75
"""Seconds without a request after which a connection is closed: longer than most scrape intervals."""

HTTP_STOP_MS = 500  # milliseconds for answers that are under way when the console stops
HTTP_BACKLOG = 128  # connections that may wait to be accepted
TCP_NOTSENT_LOWAT = 25  # of Linux: Python 3.11 has no name for it


class Connection(H11Protocol):
    """One client."""

    request_s: float = HTTP_REQUEST_S
    keep_alive_s: float = HTTP_KEEP_ALIVE_S
    connections_max = HTTP_CONNECTIONS_MAX
    _deadline: asyncio.TimerHandle | None = None
    _is_last: bool = False
    idle_since_s: float = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection. If there are too many, the one that has been idle for longest makes room."""
        super().connection_made(transport)
        open_ones = [each for each in self.connections if not each.transport.is_closing()]
        if len(open_ones) > self.connections_max:
            idle = [each for each in open_ones if isinstance(each, Connection) and each is not self and each.is_idle()]
            if not idle:
                transport.abort()
                return
            min(idle, key=lambda each: each.idle_since_s).transport.abort()
        self.idle_since_s = self.loop.time()
        # What a client has yet to read waits here, where it is known, and not by the megabyte in the kernel.
        transport.set_write_buffer_limits(HTTP_UNREAD_BYTES_MAX)
        connected = transport.get_extra_info("socket")
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, HTTP_UNREAD_BYTES_MAX)
        self._set_deadline(self.request_s)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer was sent: the next request may come, within the time that an idle connection has."""
        self._set_deadline(self.keep_alive_s + self.request_s)
        self.idle_since_s = self.loop.time()
        super().on_response_complete()
        if self._is_last and not self._is_answering():
            self.transport.close()

    def pause_writing(self) -> None:
        """The client does not read: from now on it has the time that a request has."""
        super().pause_writing()
        if self.is_stream():
            self._set_deadline(self.request_s)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client says no more, and may wait for its answers all the same, as `nc -N` does."""
        self._is_last = True
        return self._is_answering()

    def _is_answering(self) -> bool:
        # Before the first request there is none, whatever uvicorn's type says.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def is_idle(self) -> bool:
        """Whether nothing is done for it: no request has come yet, or one that cannot go on now."""
        return not self._is_answering() or self.cycle.scope["state"].get("is_idle", False)

    def is_stream(self) -> bool:
        """Whether it is sent something that has no end."""
        return self._is_answering() and self.cycle.scope["state"].get("is_stream", False)

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        if self.is_stream() and not self.flow.write_paused and not self.transport.is_closing():
            self._set_deadline(self.request_s)
        else:
            self.transport.abort()


class Server(uvicorn.Server):
    """The HTTP server. `stop` ends it; signals are its owner's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends streams, and lets other answers that are under way be sent, for a moment."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection) and connection.is_stream():
                connection.transport.close()
        asyncio.get_running_loop().call_later(HTTP_STOP_MS / 1000, self._abort)
        await super().shutdown(sockets)

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()


class Faults(logging.Handler):
    """Passes on what uvicorn reports of our own faults; a request that is given up at a stop is none."""

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.ERROR)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, asyncio.CancelledError):
            self._logger.log("error", "request failed", reason=record.getMessage().strip(), exc_info=error)


def make_server(app: ASGIApp, logger: Logger, protocol: type[Connection] = Connection) -> Server:
    """Returns a server for an application; `protocol` has the limits of each client."""
    reports = logging.getLogger("uvicorn.error")
    reports.handlers, reports.propagate = [Faults(logger)], False
    return Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=HTTP_BACKLOG,
            timeout_keep_alive=HTTP_KEEP_ALIVE_S,
            h11_max_incomplete_event_size=HTTP_HEAD_BYTES_MAX,
        )
    )
