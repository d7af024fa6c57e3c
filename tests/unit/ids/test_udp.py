"""The socket: whatever arrives and whatever the system says, the next datagram is served."""

import asyncio
import socket
from typing import TYPE_CHECKING, Any, cast

from beanpole.ids import limits
from beanpole.ids.udp import Datagrams

if TYPE_CHECKING:
    from beanpole.ids.request import Answer
    from beanpole.ids.service import Service

    Address = tuple[Any, ...]


class Echo:
    """Answers a datagram with itself; `x` is an error, and `n` nothing."""

    def receive(self, data: bytes, answer: "Answer") -> None:
        if data == b"x":
            raise ValueError("no request")
        if data != b"n":
            answer(data)


class FullSocket:
    """A socket whose buffer is full for a while, and which fails at once for one address."""

    def __init__(self, whole: socket.socket) -> None:
        self.whole = whole
        self.is_full = True

    def sendto(self, data: bytes, address: "Address") -> int:
        if data == b"unreachable":
            raise OSError
        if self.is_full:
            raise BlockingIOError
        return self.whole.sendto(data, address)

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self.whole, name)
        return found


async def receive(client: socket.socket, count: int) -> list[bytes]:
    loop = asyncio.get_running_loop()
    return [await asyncio.wait_for(loop.sock_recv(client, 70_000), 10) for _ in range(count)]


def connected(address: "Address") -> socket.socket:
    client = socket.socket(socket.AF_INET6 if len(address) == 4 else socket.AF_INET, socket.SOCK_DGRAM)
    client.setblocking(False)
    client.connect(address)
    return client


def opened(host: str = "127.0.0.1") -> tuple[Datagrams, socket.socket]:
    datagrams = Datagrams(cast("Service", Echo()))
    return datagrams, connected(datagrams.open(host, 0))


def test_more_than_a_turn_holds() -> None:
    async def story() -> None:
        for host in ("127.0.0.1", "::1"):
            datagrams, client = opened(host)
            sent = [str(each).encode() for each in range(2 * limits.TURN_DATAGRAMS_MAX + 1)]
            for each in sent:
                client.send(each)
            assert await receive(client, len(sent)) == sent
            datagrams.close()
            client.close()

    asyncio.run(story())


def test_errors_and_receivers_that_are_gone_are_counted() -> None:
    async def story() -> None:
        datagrams, client = opened()
        gone = connected(client.getpeername())
        gone.send(b"hello")
        gone.close()
        for each in (b"", b"x", b"x", b"n", b"last"):
            client.send(each)
        assert await receive(client, 2) == [b"", b"last"]
        assert datagrams.failed_count == 2
        datagrams.send(client.getsockname(), b"x" * (limits.REPLY_BYTES_MAX + 1))
        assert datagrams.failed_count == 3
        datagrams.close()
        client.close()

    asyncio.run(story())


def test_replies_that_the_system_does_not_take_are_sent_later() -> None:
    async def story() -> None:
        datagrams, client = opened()
        full = FullSocket(datagrams._socket)
        datagrams._socket = cast("socket.socket", full)
        for each in (b"1", b"2", b"unreachable", b"3"):
            datagrams.send(client.getsockname(), each)
        assert datagrams.failed_count == 0
        full.is_full = False
        assert await receive(client, 3) == [b"1", b"2", b"3"]
        assert datagrams.failed_count == 1
        datagrams.send(client.getsockname(), b"4")
        assert await receive(client, 1) == [b"4"]
        full.is_full = True
        datagrams.send(client.getsockname(), b"lost")
        datagrams.close()
        assert datagrams.failed_count == 2
        client.close()

    asyncio.run(story())


def test_replies_that_wait_are_bounded() -> None:
    async def story() -> None:
        datagrams, client = opened()
        datagrams._socket = cast("socket.socket", FullSocket(datagrams._socket))
        reply = b"x" * limits.REPLY_BYTES_MAX
        count = limits.SOCKET_BYTES // len(reply) + 3
        for _ in range(count):
            datagrams.send(client.getsockname(), reply)
        assert datagrams.failed_count == 2
        datagrams.close()
        assert datagrams.failed_count == count
        client.close()

    asyncio.run(story())
