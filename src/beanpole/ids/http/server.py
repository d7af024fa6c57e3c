"""HTTP/1.1 on asyncio, in the event loop that also serves the datagrams: a thin layer over h11.

A connection has one request under way, and one is served in a turn of the loop; the rest stays with the kernel. The
cost of a client is bounded: a head or body that is too large, a request that does not end, an answer that is not
read, and a connection too many are all cut off.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from importlib.metadata import version

import h11

from beanpole.ids import limits
from beanpole.ids.http.health import Health
from beanpole.ids.http.metrics import Metrics
from beanpole.ids.http.routes import Response, Routes, problem
from beanpole.ids.rules.sequence import Clock
from beanpole.ids.service import Service
from beanpole.ids.storage.measured import Measured

REFUSALS = {431: "long-head", 501: "not-http"}
"""The problem for what h11 suggests as a status; everything else is a bad request."""


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.HTTP_HEAD_BYTES_MAX)
        self._request: h11.Request | None = None
        self._body_bytes = 0
        self._number = 0
        """The number of the request, by which a late answer to an earlier one is recognized."""

        self._owes = False
        """Whether an answer is owed."""

        self._busy = False
        """Whether `_advance` is at work: it goes on after an answer by itself."""

        self._queued = False
        """Whether more has come than is served in this turn of the loop; other connections are served first."""

        self._full = False
        """Whether the client does not read its answers."""

        self._closing = False
        self._ended = False
        """Whether the client sends nothing more."""

        self._timer: asyncio.TimerHandle | None = None

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection, or answer that there are too many."""
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write"), "a stream"
        self._transport: asyncio.Transport = transport  # type: ignore[assignment] # uvloop's has no common base
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.connections_max:
            self._respond(problem("busy", "there are too many connections"), close=True)
        else:
            self._arm(self.server.timeout_ms)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever the reason
        """Forget a connection; an answer that is owed to it goes nowhere."""
        self._closing, self._owes = True, False
        self.server.forget(self)
        if self._timer:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; those after the last answer are ignored."""
        # In pieces, for h11 measures what is incomplete: a head that is too large must not come whole.
        for start in range(0, len(data), limits.HTTP_HEAD_BYTES_MAX):
            if not self._closing:
                self._parser.receive_data(data[start : start + limits.HTTP_HEAD_BYTES_MAX])
                self._advance()

    def eof_received(self) -> bool:
        """The client sends no more; an answer that is owed to it is still sent."""
        self._ended = True
        if not self._closing:
            self._parser.receive_data(b"")
            self._advance()
        return self._owes or self._queued

    def pause_writing(self) -> None:
        """Serve and read no more while answers are not read."""
        self._full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        if not self._owes:
            self._transport.resume_reading()
        self._advance()

    # --- Requests -----------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Serve one request of what has come; leave the next to the next turn."""
        if self._busy or self._queued:
            return
        self._busy = True
        number = self._number
        try:
            while not self._must_wait() and self._number == number and self._step():
                pass
        except h11.RemoteProtocolError as error:
            name = REFUSALS.get(error.error_status_hint, "bad-request")
            self._respond(problem(name, str(error)), close=True)
        finally:
            self._busy = False
        if self._number != number and not self._must_wait() and self._parser.trailing_data[0]:
            self._queued = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._go_on)

    def _must_wait(self) -> bool:
        """Return whether no request can be served now."""
        return self._owes or self._full or self._closing

    def _go_on(self) -> None:
        """Serve what was left over."""
        self._queued = False
        if not self._must_wait():
            self._transport.resume_reading()
            self._advance()

    def _step(self) -> bool:
        """Handle the next event of h11; return whether there may be more."""
        event = self._parser.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            if self._parser.they_are_waiting_for_100_continue:
                self._write(self._parser.send(h11.InformationalResponse(status_code=100, headers=[])))
            return False
        if isinstance(event, h11.Request):
            self._request, self._body_bytes = event, 0
        elif isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            if self._body_bytes > limits.HTTP_HEAD_BYTES_MAX:
                self._respond(problem("too-large", "the body is too large; none is needed"), close=True)
        elif isinstance(event, h11.EndOfMessage):
            self._serve()
        elif isinstance(event, h11.ConnectionClosed):
            self._close()
        return True

    def _serve(self) -> None:
        """Let the request be answered, now or later."""
        assert self._request is not None, "a message begins with its request"
        self._owes = True
        self._number += 1
        number = self._number
        self._arm(self.server.timeout_ms)
        method, target = self._request.method.decode("latin-1"), self._request.target.decode("latin-1")
        self.server.routes.handle(method, target, lambda response: self._answer(number, response))
        if self._owes:
            self._transport.pause_reading()

    def _answer(self, number: int, response: Response) -> None:
        """Answer the request of a number, unless it has been answered or the client is gone."""
        if self._owes and number == self._number:
            self._respond(response)
            self._advance()

    def _respond(self, response: Response, *, close: bool = False) -> None:
        """Send a response; `close`: no request can follow."""
        if self._parser.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self._abort()
            return
        close = close or self.server.stopping
        fields = [
            ("Content-Type", response.kind),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *response.fields,
            *([("Connection", "close")] if close else []),
        ]
        parser = self._parser
        reason = HTTPStatus(response.status).phrase
        head = parser.send(h11.Response(status_code=response.status, headers=fields, reason=reason))
        is_head = self._request is not None and self._request.method == b"HEAD"
        body = b"" if is_head else parser.send(h11.Data(data=response.body))
        was_paused, self._owes = self._owes, False
        self._write((head or b"") + (body or b"") + (parser.send(h11.EndOfMessage()) or b""))
        self._request = None
        if parser.our_state is h11.DONE and parser.their_state is h11.DONE:
            parser.start_next_cycle()
            self._arm(self.server.timeout_ms)
            if was_paused and not self._full:
                self._transport.resume_reading()
        else:
            self._close()

    def _write(self, data: bytes | None) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    # --- Ends ---------------------------------------------------------------------------------------------------------

    def _arm(self, milliseconds: int) -> None:
        """Set the time in which something must happen."""
        if self._timer:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(milliseconds / 1000, self._expire)

    def _expire(self) -> None:
        """Nothing has happened in time."""
        if self._closing:
            self._abort()
        elif self._owes:
            self._respond(problem("storage", "no answer in time; a number may be spent"), close=True)
        elif self._request is not None or self._parser.trailing_data[0]:
            self._respond(problem("late", "the request did not come whole in time"), close=True)
        else:
            self._close()

    def _close(self) -> None:
        """Send what is written, then an end, and wait for the client's: closed at once, it could lose the answer."""
        if self._closing:
            return
        self._closing = True
        self._arm(limits.HTTP_STOP_MS)
        if self._ended:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.resume_reading()
            self._transport.write_eof()

    def _abort(self) -> None:
        self._closing = True
        self._transport.abort()

    def stop(self) -> None:
        """End the connection, after the answer if one is owed."""
        if not self._owes:
            self._close()

    def give_up(self) -> None:
        """End the connection now; a request that still waits gets an error."""
        if self._owes:
            self._respond(problem("storage", "stopping"), close=True)
        self._close()


class Server:
    """All HTTP connections."""

    def __init__(
        self,
        routes: Routes,
        timeout_ms: int = limits.HTTP_TIMEOUT_MS,
        connections_max: int = limits.HTTP_CONNECTIONS_MAX,
    ) -> None:
        self.routes = routes
        self.timeout_ms = timeout_ms
        self.connections_max = connections_max
        self.connections: set[Connection] = set()
        self.stopping = False
        self._empty = asyncio.Event()

    async def open(self, host: str, port: int) -> list[str]:
        """Listen; return the addresses.

        Raises OSError: it can't be listened on the address.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), host, port, backlog=limits.HTTP_BACKLOG)
        names = [each.getsockname()[:2] for each in self._server.sockets]
        return [f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}" for name, port in names]

    def begin_stop(self) -> None:
        """Accept no connection; requests that have come are answered, then their connections end."""
        self.stopping = True
        self._server.close()
        for each in list(self.connections):
            each.stop()

    async def finish(self) -> None:
        """End all connections. Clients have a moment to read their last answer."""
        for each in list(self.connections):
            each.give_up()
        if self.connections:
            # Each ends by its own timer at the latest.
            await self._empty.wait()

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        if self.stopping and not self.connections:
            self._empty.set()


def make_server(
    service: Service,
    store: Measured,
    clock: Clock,
    epoch: int,
    unsent_count: Callable[[], int],
) -> Server:
    """Return a server, not yet open. `unsent_count`: see `Metrics`."""
    about: dict[str, object] = {"version": version("beanpole"), "node": service.config.offset, "epoch": epoch}
    metrics = Metrics(service, store, clock, epoch, version("beanpole"), unsent_count)
    routes = Routes(service, Health(service, store, store.monotonic_s), metrics.page, about)
    server = Server(routes)
    metrics.http = routes.counts
    metrics.connection_count = lambda: len(server.connections)
    return server
