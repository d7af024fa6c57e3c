"""Connections that come faster than they are let in."""

import asyncio
import errno
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest
import uvloop

from beanpole_ids import limits
from beanpole_ids.http.listener import Listener

Story = Callable[["World"], Awaitable[None]]


class World:
    """A listener, the clients, and who was let in."""

    def __init__(self, waiting_max: int) -> None:
        self.let_in: list[str] = []
        self.listener = Listener(self._protocol, time.monotonic_ns, waiting_max)
        (address,) = self.listener.open("127.0.0.1", 0)
        self.port = int(address.rpartition(":")[2])
        self.clients: list[socket.socket] = []

    def _protocol(self, source: str) -> asyncio.Protocol:
        self.let_in.append(source)
        return asyncio.Protocol()

    def connect(self, source: str, count: int = 1) -> list[socket.socket]:
        """Connect clients; the event loop does not turn."""
        found = [socket.create_connection(("127.0.0.1", self.port), source_address=(source, 0)) for _ in range(count)]
        self.clients += found
        return found

    async def until(self, condition: Callable[[], object], pause_s: float = 0) -> None:
        async with asyncio.timeout(60):  # not turns: the kernel may take thousands of them to deliver something
            while not condition():  # noqa: ASYNC110 - it is the loop that is waited for
                await asyncio.sleep(pause_s)


def play(story: Story, waiting_max: int = 1_000) -> None:
    """Play a test with a listener of its own."""

    async def main() -> None:
        world = World(waiting_max)
        try:
            await story(world)
        finally:
            world.listener.close()
            for each in world.clients:
                each.close()
            await world.until(lambda: len(asyncio.all_tasks()) == 1)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_client_does_not_wait_behind_the_crowd_of_another() -> None:
    """The kernel has one line for all: who came after a thousand connections of another waited for as many turns."""

    async def story(world: World) -> None:
        world.connect("127.0.0.2", 100)
        world.connect("127.0.0.3")
        await world.until(lambda: "127.0.0.3" in world.let_in)
        assert len(world.let_in) <= 2 * limits.TURN_US // limits.HTTP_ARRIVAL_US
        await world.until(lambda: len(world.let_in) == 101)
        assert world.listener.refused_count == 0

    play(story)


def test_no_more_wait_than_a_source_has_room_for() -> None:
    async def story(world: World) -> None:
        crowd = world.connect("127.0.0.2", 100)
        world.connect("127.0.0.3", 2)
        await world.until(lambda: world.let_in.count("127.0.0.3") == 2)
        await world.until(lambda: len(world.let_in) + world.listener.refused_count == 102)
        assert world.listener.refused_count == 90
        assert Counter(world.let_in) == {"127.0.0.2": 10, "127.0.0.3": 2}
        assert crowd[-1].recv(1) == b"", "it is closed at once"

    play(story, waiting_max=10)


def test_listener_that_had_no_descriptors_accepts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Iterator[OSError | None]:
        yield OSError(errno.EMFILE, "Too many open files")
        yield OSError(errno.ECONNABORTED, "Software caused connection abort")
        while True:
            yield None

    results, accept, calls = failing(), socket.socket.accept, 0

    def accept_or_fail(listening: socket.socket) -> object:
        nonlocal calls
        calls += 1
        if error := next(results):
            raise error
        return accept(listening)

    async def story(world: World) -> None:
        monkeypatch.setattr(socket.socket, "accept", accept_or_fail)
        world.connect("127.0.0.1", 2)
        await world.until(lambda: len(world.let_in) == 2, 0.001)
        assert calls <= 8, "it does not try all the time"

    play(story)


def test_listener_that_is_closed_lets_nobody_in() -> None:
    async def story(world: World) -> None:
        (client,) = world.connect("127.0.0.1")
        while not world.listener._fair.count:
            world.listener._accept(world.listener._sockets[0])
        world.listener.close()
        assert client.recv(1) == b""
        await asyncio.sleep(0)
        assert world.let_in == []

    play(story)


def test_address_that_is_in_use_is_named() -> None:
    async def story(world: World) -> None:
        other = Listener(lambda _: asyncio.Protocol(), time.monotonic_ns)
        with pytest.raises(OSError, match=f"HTTP on 127.0.0.1:{world.port}: Address already in use"):
            other.open("127.0.0.1", world.port)

    play(story)


def test_name_that_has_an_address_twice_or_one_that_the_system_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """/etc/hosts may name an address twice, and `localhost` is in it with one of IPv6 also where there is no IPv6."""
    family, stream, tcp = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    unknown, here = (1_000, stream, tcp, "", ("::1", 0)), (family, stream, tcp, "", ("127.0.0.1", 0))
    found = [unknown, here, here]

    async def open_listener() -> int:
        listener = Listener(lambda _: asyncio.Protocol(), time.monotonic_ns)
        try:
            return len(listener.open("localhost", 0))
        finally:
            listener.close()

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert asyncio.run(open_listener()) == 1
    found[:] = [unknown]
    with pytest.raises(OSError, match="not supported"):
        asyncio.run(open_listener())
