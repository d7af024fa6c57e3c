"""The HTTP server: uvicorn on sockets that are open already, with limits for slow and rude clients.

uvicorn waits for as long as it takes for the first request of a connection, and for a client to read. Here both are
bounded, and a stop takes half a second at most.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from beanpole.console import limits


class Connection(H11Protocol):
    """One client."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > limits.HTTP_CONNECTIONS_MAX:
            transport.abort()
        else:
            self._set_deadline(limits.HTTP_REQUEST_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """An answer was sent: the next request may come, within the time that an idle connection has."""
        self._set_deadline(limits.HTTP_KEEP_ALIVE_S + limits.HTTP_REQUEST_S)
        super().on_response_complete()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)


class Server(uvicorn.Server):
    """The HTTP server. `stop` ends it; signals are its owner's business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the owner."""
        yield

    def stop(self) -> None:
        """Ends within half a second."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets answers that are under way be sent, for a moment."""
        asyncio.get_running_loop().call_later(limits.HTTP_STOP_MS / 1000, self._abort)
        await super().shutdown(sockets)

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()


def make_server(app: ASGIApp) -> Server:
    """Returns a server for an application."""
    return Server(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=limits.HTTP_BACKLOG,
            timeout_keep_alive=limits.HTTP_KEEP_ALIVE_S,
            h11_max_incomplete_event_size=limits.HTTP_HEAD_BYTES_MAX,
        )
    )
