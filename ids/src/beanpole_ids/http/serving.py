"""HTTP in a thread and an event loop of its own, by uvicorn: sockets, connections, time, and nothing of the service.

A request is read here and answered in the loop of the service, which serves datagrams in between: everything that the
service knows is read and changed in its thread. uvicorn waits for as long as it takes for the first request of a
connection, takes heads of any size, and as many connections as come: all three are bounded here.
"""

import asyncio
import errno
import json
import logging
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version

import uvicorn
import uvloop
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as StarletteResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from beanpole_ids import limits
from beanpole_ids.http.asked import read
from beanpole_ids.http.guard import Guard
from beanpole_ids.http.metrics import Metrics
from beanpole_ids.http.response import CLOSE, ProblemError, Response, problem
from beanpole_ids.http.routes import ALWAYS, Routes
from beanpole_ids.rules.config import Http
from beanpole_ids.rules.sequence import Clock
from beanpole_ids.service import Service
from beanpole_ids.storage.threaded import Measured
from beanpole_ids.waiting import network_of

HTTP_STOP_MS = 2_000  # that clients have at a stop to take their last answer
HTTP_EXTRA_MAX = 20  # connections above the limits that get an answer only from /health and /metrics
HTTP_HANDOVER_MAX = 1_000  # requests that wait for the loop of the service: more than there are connections
HTTP_BACKLOG = 1024  # connections that the kernel queues before they are accepted

PLAIN = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Fields of every response."""


class Connection(HttpToolsProtocol):
    """One client. What uvicorn's protocol does is extended at what asyncio and the parser call, and nowhere else."""

    places: "Places"

    is_extra = False
    """Whether there were too many connections when it came: it gets one answer, and only from some paths."""

    is_used = False
    """Whether it has brought a head that was whole."""

    owed_count = 0
    """Answers that are owed; more than one if the client does not wait for them."""

    since_s = 0.0
    """Since when it waits for its client, in the loop's seconds."""

    _deadline: asyncio.TimerHandle | None = None
    _in_head = False
    _in_request = False
    """Whether a request has begun that is not whole."""

    _has_ended_head = False
    """Whether a head has ended in the bytes that are being read."""

    _head_bytes = 0
    """Bytes of a head that has not ended."""

    _has_ended = False
    """Whether the client sends nothing more."""

    # --- What asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Accept a connection."""
        super().connection_made(transport)
        address = transport.get_extra_info("peername") or ("", 0)
        self.address = (str(address[0]), int(address[1]))
        self.since_s = self.loop.time()
        self._await_client()
        self.places.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._cancel()
        self.places.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read bytes. A head that has begun must end in time, and be of some length at most."""
        if self._deadline is None and not self.owed_count:
            self._await_client()
        self._has_ended_head = False
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._in_head and not self._has_ended_head else 0
        if self._head_bytes > limits.HTTP_HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse("long-head", "the first line and the fields are too large")

    def eof_received(self) -> bool:  # type: ignore[override] # uvicorn's ends at once
        """The client sends no more; what it has asked for is still answered."""
        self._has_ended = True
        return self.owed_count > 0 and not self._in_request

    # --- What the parser calls ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._in_head = self._in_request = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin to answer; how long that takes is bounded by what answers."""
        self._in_head, self._has_ended_head = False, True
        self.is_used = True
        self.owed_count += 1
        self._cancel()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that a request is whole."""
        self._in_request = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - ours is a problem document
        """Answer bytes that are no request."""
        self._refuse("bad-request", "this is no HTTP request")

    # --- Ends ---------------------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """Wait for the client again: the answer to its last request is sent."""
        self.owed_count -= 1
        self.since_s = self.loop.time()
        if self.owed_count:
            return
        if self._has_ended:
            self.transport.close()
        elif self._in_head:  # which came before the answer was sent
            self._await_client()

    def _await_client(self) -> None:
        self._deadline = self.loop.call_later(self.places.head_s, self._expire)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self) -> None:
        if self._in_head and not self.transport.is_closing():
            self._refuse("late", "the request did not come whole in time")
        else:
            self.transport.close()

    def _refuse(self, name: str, detail: str) -> None:
        """Answer with a problem, and end."""
        found = problem(name, detail)
        title = json.loads(found.body)["title"]
        head = f"HTTP/1.1 {found.status} {title}\r\ncontent-type: {found.kind}\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(found.body)}\r\n\r\n".encode() + found.body)
        self.transport.close()


class Places:
    """Who may be connected.

    One that comes when there are too many takes the place of the one that has waited longest for its client, first of
    those that have never sent a whole head. If all are owed an answer, or its address has too many, it is an extra one,
    which gets one answer and only from /health or /metrics.
    """

    def __init__(self, connections_max: int, connections_per_source: int, head_s: float) -> None:
        self.connections_max = connections_max
        self.connections_per_source = connections_per_source
        self.head_s = head_s
        self.connections: dict[tuple[str, int], Connection] = {}
        """By the client's address and port."""

        self.refused_count = 0
        """Connections that were cut off for others, or were extra ones."""

        self._groups: Counter[str] = Counter()
        self._extra_count = 0

    def add(self, connection: Connection) -> None:
        """Give a connection its place."""
        if (old := self.connections.get(connection.address)) is not None:
            self.forget(old)  # it has ended, which asyncio has not said yet: the client uses its port again
        group = network_of(connection.address[0])
        ordinary_count = len(self.connections) - self._extra_count
        self.connections[connection.address] = connection
        self._groups[group] += 1
        if self._groups[group] > self.connections_per_source or (
            ordinary_count >= self.connections_max
            and not self._cut_off(each for each in self._others(connection) if not each.is_extra)
        ):
            connection.is_extra = True
            self._extra_count += 1
            self.refused_count += 1
            if self._extra_count > HTTP_EXTRA_MAX:
                self._cut_off(each for each in self._others(connection) if each.is_extra)

    def _others(self, connection: Connection) -> list[Connection]:
        return [each for each in self.connections.values() if each is not connection]

    def forget(self, connection: Connection) -> None:
        if self.connections.get(connection.address) is connection:
            del self.connections[connection.address]
            self._extra_count -= connection.is_extra
            group = network_of(connection.address[0])
            self._groups[group] -= 1
            if not self._groups[group]:
                del self._groups[group]

    def _cut_off(self, connections: Iterable[Connection]) -> bool:
        """End the connection that has waited longest for its client; return whether there is one."""
        waiting = [each for each in connections if not each.owed_count]
        if not waiting:
            return False
        last = min(waiting, key=lambda each: (each.is_used, each.since_s))
        self.refused_count += not last.is_extra
        self.forget(last)
        last.transport.abort()
        return True


class Handover:
    """Work that one thread hands over to the event loop of another, which does it for a millisecond at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ns: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ns = now_ns
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_awake = False
        """Whether the loop is going to look at what waits."""

    def add(self, work: Callable[[], None]) -> bool:
        """Have the loop do some work; return whether there was room for it. For another thread."""
        if len(self._waiting) >= HTTP_HANDOVER_MAX:
            return False
        # First the work, then the question: the loop asks for work after it has said that it sleeps.
        self._waiting.append(work)
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._run)
        return True

    def _run(self) -> None:
        self._is_awake = False
        end_ns = self._now_ns() + limits.TURN_US * 1_000
        while self._waiting:
            self._waiting.popleft()()
            if self._now_ns() >= end_ns:
                self._is_awake = True
                self._loop.call_soon(self._run)
                return


class Web:
    """The thread, and the ASGI application in it. It is made in the loop of the service."""

    def __init__(
        self,
        routes: Routes,
        now_ns: Callable[[], int] = time.monotonic_ns,
        connections_per_source: int = limits.HTTP_CONNECTIONS_PER_SOURCE_DEFAULT,
        timeout_ms: int = limits.HTTP_TIMEOUT_MS,
        connections_max: int = limits.HTTP_CONNECTIONS_MAX,
    ) -> None:
        self.routes = routes
        self.timeout_s = timeout_ms / 1000
        head_s = min(timeout_ms, limits.HTTP_HEAD_MS) / 1000
        self.places = Places(connections_max, connections_per_source, head_s)
        self._now_ns = now_ns
        self.on_failure: Callable[[], None] = lambda: None
        """Called in the loop of the service if the thread ends by itself."""

        self._ended = asyncio.Event()
        self._service_loop = asyncio.get_running_loop()
        self._to_service = Handover(self._service_loop, now_ns)
        self._owed: set[asyncio.Future[Response]] = set()
        """Answers that the service owes."""

        self._listening: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, name="beanpole-ids-http", daemon=True)
        self._loop = uvloop.new_event_loop()
        self._back = Handover(self._loop, now_ns)
        protocol = type("Connection", (Connection,), {"places": self.places})
        self._server = uvicorn.Server(
            uvicorn.Config(
                self,
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=logging.CRITICAL,  # nothing that a client does can write a line
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                backlog=HTTP_BACKLOG,
                timeout_keep_alive=int(self.timeout_s) or 1,
            )
        )

    def open(self, host: str, port: int) -> list[str]:
        """Listen, and start the thread; return the addresses.

        Raises OSError: it can't be listened on one.
        """
        self._listening = listen(host, port)
        bound = [each.getsockname()[:2] for each in self._listening]
        self._thread.start()
        return [f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}" for name, port in bound]

    def begin_stop(self) -> None:
        """Accept no connection; requests that have come are answered, then their connections end."""
        self._server.should_exit = True

    async def finish(self) -> None:
        """End all connections, after the service has answered all. Clients have a moment to read their last answer."""
        self._server.should_exit = True
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._give_up)
        try:
            await asyncio.wait_for(self._ended.wait(), HTTP_STOP_MS / 1000)
        except TimeoutError:
            self._loop.call_soon_threadsafe(self._abort)
            await self._ended.wait()
        self._thread.join()
        self._loop.close()

    # --- In the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._server.serve(self._listening))
        finally:
            self._service_loop.call_soon_threadsafe(self._note_end)

    def _note_end(self) -> None:
        self._ended.set()
        if not self._server.should_exit:
            self.on_failure()

    def _give_up(self) -> None:
        for each in list(self._owed):
            if not each.done():
                each.set_result(problem("storage", "stopping"))

    def _abort(self) -> None:
        for each in list(self.places.connections.values()):
            each.transport.abort()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        connection = self.places.connections.get(tuple(scope["client"] or ()))
        try:
            response = await self._answer(Request(scope, receive), connection)
            async with asyncio.timeout(self.timeout_s):
                await as_starlette(response)(scope, receive, send)
        except ClientDisconnect:
            return
        except RuntimeError:  # uvloop does not write to what was closed a moment ago
            if connection is None or not connection.transport.is_closing():
                raise
        except TimeoutError:  # the client does not read
            if connection is not None:
                connection.transport.abort()
        except Exception as error:
            self._to_service.add(partial(self.routes.service.record_failure, error))
            raise
        finally:
            if connection is not None:
                connection.answered()

    async def _answer(self, request: Request, connection: Connection | None) -> Response:
        if connection is not None and connection.is_extra and request.url.path not in ALWAYS:
            return problem("busy", "there are too many connections", CLOSE)
        try:
            async with asyncio.timeout(self.timeout_s):
                asked = await read(request)
        except ProblemError as error:
            return error.response
        except TimeoutError:
            return problem("late", "the request did not come whole in time", CLOSE)
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._owed.add(answer)
        try:
            if not self._to_service.add(partial(self.routes.handle, asked, partial(self._give_back, answer))):
                return problem("busy", "too many requests wait")
            async with asyncio.timeout(self.timeout_s):
                response = await answer
        except TimeoutError:
            return problem("storage", "no answer in time; a number may be spent", CLOSE)
        finally:
            self._owed.discard(answer)
        # Behind an offer of another protocol, which is not taken, the parser reads no further. uvicorn looks only now
        # and then whether it should exit: an answer before that must say as well that it is the last.
        is_extra = connection is not None and connection.is_extra
        if is_extra or self._server.should_exit or "upgrade" in request.headers:
            response = Response(response.status, response.body, response.kind, (*response.fields, CLOSE))
        return response

    def _give_back(self, answer: "asyncio.Future[Response]", response: Response) -> None:
        """Take a response to this thread. Called in that of the service."""

        def settle() -> None:
            if not answer.done():
                answer.set_result(response)

        self._back.add(settle)


def make_web(  # noqa: PLR0913, PLR0917 - all that HTTP tells of and works on
    http: Http,
    service: Service,
    store: Measured,
    clock: Clock,
    epoch: int,
    unsent_count: Callable[[], int],
    reload: Callable[[], Awaitable[Mapping[str, object]]],
) -> Web:
    """Return what serves a node, not yet open. `epoch`: the lease's; the rest is as in `Metrics` and `Routes`."""
    metrics = Metrics(service, store, clock, epoch, version("beanpole-ids"), unsent_count)
    routes = Routes(metrics, Guard(http.names, http.reload_from), reload)
    web = Web(routes, connections_per_source=http.connections_per_source)
    metrics.http = routes.counts
    metrics.connection_count = lambda: len(web.places.connections)
    metrics.refused_count = lambda: web.places.refused_count
    return web


def as_starlette(response: Response) -> StarletteResponse:
    """Return a response that can be sent."""
    found = StarletteResponse(response.body, response.status, PLAIN | dict(response.fields))
    found.headers["Content-Type"] = response.kind  # Starlette would add a charset
    return found


def listen(host: str, port: int) -> list[socket.socket]:
    """Return the sockets for a name and a port, one for each of its addresses.

    Raises OSError: it can't be listened on one.
    """
    found: list[socket.socket] = []
    failure: OSError | None = None
    try:
        names = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(names):  # one may be in /etc/hosts twice
            try:
                found.append(socket.create_server(address, family=family, backlog=HTTP_BACKLOG))
            except OSError as error:
                if error.errno != errno.EAFNOSUPPORT:  # else this system has no IPv6
                    raise
                failure = error
        if failure and not found:
            raise failure
    except OSError as error:
        for each in found:
            each.close()
        raise OSError(error.errno, f"HTTP on {host}:{port}: {error.strerror or error}") from error
    return found
