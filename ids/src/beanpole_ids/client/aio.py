"""The client for asyncio. Requests of many tasks are under way at a time, on one socket for each node."""

import asyncio
from typing import Any, Self, cast

from beanpole_ids import limits
from beanpole_ids.client import calls
from beanpole_ids.client.calls import BaseClient, Call, Node
from beanpole_ids.client.ranges import AsyncRange


class Link(asyncio.DatagramProtocol):
    """A socket to a node."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        """Requests without a reply, by name; a reply to any other is dropped."""

        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - the socket is connected
        """Pass a reply to the request that waits for it."""
        reply = calls.read_reply(data)
        future = self.waiting.get(reply["seq"]) if reply else None
        if future is not None and reply is not None and not future.done():
            future.set_result(reply)

    def error_received(self, exc: Exception) -> None:
        self.fail(exc if isinstance(exc, OSError) else OSError(str(exc)))

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone: let all requests fail."""
        self.is_lost = True
        self.fail(OSError(str(exc or "the socket is closed")))

    def fail(self, error: OSError) -> None:
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(error)


class AsyncIdClient(BaseClient[Link]):
    """A client of the ID service, with the methods and arguments of :class:`~beanpole_ids.client.sync.IdClient`.

    Tasks may share a client. It belongs to the event loop in which it is first used.
    """

    def _begin(self) -> None:
        self._lock = asyncio.Lock()

    async def get(self, rule: str, app: str, *, salt: str | None = None) -> str:
        """Return a number; see `IdClient.get`."""
        return calls.number_of(await self._call(calls.get(rule, app, salt)))

    async def get_many(self, rule: str, app: str, count: int, *, salt: str | None = None) -> list[str]:
        """Return many numbers; see `IdClient.get_many`."""
        numbers: list[str] = []
        for piece in calls.pieces(count):
            numbers += calls.numbers_of(await self._call(calls.get(rule, app, salt, piece)))
        return numbers

    def range(self, rule: str, app: str, size: int = limits.RANGE_SIZE, *, salt: str | None = None) -> AsyncRange:
        """Return numbers that are fetched `size` at a time and handed out here."""
        return AsyncRange(lambda count: self.get_many(rule, app, count, salt=salt), size)

    async def monitor(self, rule: str, app: str) -> dict[str, Any]:
        """Return the state of a counter; see `IdClient.monitor`."""
        data: dict[str, Any] = (await self._call(calls.monitor(rule, app)))["data"]
        return data

    async def _call(self, call: Call) -> dict[str, Any]:
        for node in self._attempts(call):
            if node is None:
                await asyncio.sleep(self._timeout_s)
                continue
            try:
                async with asyncio.timeout(self._timeout_s):
                    reply = await self._ask(node, call)
                    if self._take_cookie(node, reply):
                        reply = await self._ask(node, call)
            except OSError as error:
                call.failed(node, error)
                continue
            if call.take(reply):
                self._nodes.answered(node)
                return reply
        raise call.no_node()

    async def _ask(self, node: Node, call: Call) -> dict[str, Any]:
        """Send a request to a node and return its reply.

        Raises OSError: it does not answer.
        """
        link = await self._open(node)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        link.waiting[call.name] = future
        try:
            link.transport.sendto(call.data_with(self._cookies.get(node)))
            reply = await future
        except BaseException:
            # Its name is looked up again next time. Others that wait have their own time.
            if self._connections.get(node) is link:
                del self._connections[node]
            raise
        else:
            return reply
        finally:
            del link.waiting[call.name]
            if not link.waiting and self._connections.get(node) is not link:
                link.transport.close()

    async def _open(self, node: Node) -> Link:
        async with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            link = self._connections.get(node)
            if link is None or link.is_lost:
                make = asyncio.get_running_loop().create_datagram_endpoint
                _, link = await make(Link, remote_addr=(node.host, node.port))
                self._connections[node] = link
            return link

    async def close(self) -> None:
        """Close the sockets; requests that wait for a reply fail."""
        self._closed = True
        for link in self._connections.values():
            link.transport.close()
        self._connections.clear()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
