"""The loop of a server alone: what asyncio has to do is done although it waits in the clients' epoll."""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.epoll import EpollTransport
from beanpole.server.loop import ServerLoop
from beanpole.server.turn import Turn


class Observer:
    """Hears of nothing."""

    def turn_slow(self, slow: object) -> None:
        """A turn took long."""


class CallingLog(Log):
    """A log that calls what it is told at the end of a turn."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self.call = call

    def append(self) -> None:
        self.call()


@contextmanager
def serving(call: Callable[[], object] = lambda: None) -> Iterator[tuple[ServerLoop, socket.socket]]:
    """A loop that serves one client, whose socket this is; `call` is called in each turn that writes."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ServerLoop)
    log = CallingLog(call)
    clients = EpollTransport(Turn(Engine(now_ns=1, records=log.records), log), loop, Observer())  # type: ignore[arg-type]
    ours, theirs = socket.socketpair()
    clients.take(theirs.detach(), True)
    loop.serve(clients)
    try:
        yield loop, ours
    finally:
        loop.stop_serving()
        clients.close_all()
        ours.close()


def run(test: Callable[[], Any]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await test()

    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(bounded())


@pytest.mark.parametrize(
    "ask",
    [
        lambda loop, done: loop.call_soon(done.set),
        lambda loop, done: loop.call_later(0.001, done.set),
        lambda loop, done: loop.call_soon_threadsafe(done.set),
    ],
    ids=["call_soon", "call_later", "call_soon_threadsafe"],
)
def test_what_a_turn_asks_for_is_called_though_no_client_does_anything(ask: Callable[[Any, Any], object]) -> None:
    async def test() -> None:
        done = asyncio.Event()
        with serving(lambda: ask(loop, done)) as (loop, client):
            client.sendall(b"put 0 0 60 1\r\nx\r\n")
            await done.wait()

    run(test)


def test_a_timer_is_not_starved_by_turns_without_end() -> None:
    async def test() -> None:
        with serving() as (loop, _):
            reads, writes = os.pipe()
            os.write(writes, b"x")
            loop.add_reader(reads, lambda: None)  # it stays readable
            await asyncio.sleep(0.001)
            loop.remove_reader(reads)
            os.close(reads)
            os.close(writes)

    run(test)


def test_what_fails_in_a_turn_goes_to_the_handler_of_the_loop() -> None:
    async def test() -> None:
        error = OSError("the disk is gone")
        told: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

        def fail() -> None:
            raise error

        with serving(fail) as (loop, client):
            loop.set_exception_handler(lambda _, context: told.set_result(context))
            client.sendall(b"put 0 0 60 1\r\nx\r\n")
            assert (await told)["exception"] is error

    run(test)


def test_a_descriptor_is_watched_before_while_and_after_a_server_is_served() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        reads, writes = os.pipe()
        read: asyncio.Queue[bytes] = asyncio.Queue()
        loop.add_reader(reads, lambda: read.put_nowait(os.read(reads, 10)))
        os.write(writes, b"before")
        assert await read.get() == b"before"
        with serving():
            os.write(writes, b"while")
            assert await read.get() == b"while"
        os.write(writes, b"after")
        assert await read.get() == b"after"
        assert loop.remove_reader(reads)
        assert not loop.remove_reader(reads)
        os.close(reads)
        os.close(writes)

    run(test)


def test_asyncio_forgets_the_descriptors_of_its_own_sockets() -> None:
    """The next one has the same number, and can be waited for."""

    async def test() -> None:
        with serving() as (loop, _):
            for _ in range(2):
                ours, theirs = socket.socketpair()
                ours.setblocking(False)
                with ours, theirs:
                    loop.call_soon(theirs.sendall, b"x")
                    assert await loop.sock_recv(ours, 1) == b"x"

    run(test)
