"""Clients that are slow, rude or many cost no more than their connection, and not for long."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from beanpole.console.serving import Connection, Server, make_server
from tests.servers import REPLY_TIMEOUT_S

CHUNK = b"x" * 65_536


class Log:
    """A log that a test reads."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        assert exc_info is None or isinstance(exc_info, Exception), about
        self.lines.append((level, event))


class Impatient(Connection):
    """Waits for a moment only."""

    request_s = 0.1
    keep_alive_s = 0.1
    connections_max = 3


async def short(_: Request) -> Response:
    return PlainTextResponse("ok")


async def late(_: Request) -> Response:
    for _turn in range(20):
        await asyncio.sleep(0)
    return PlainTextResponse("ok")


async def endless(_: Request) -> Response:
    async def content() -> AsyncIterator[bytes]:
        while True:
            yield CHUNK
            await asyncio.sleep(0)

    return StreamingResponse(content())


async def broken(_: Request) -> Response:
    raise ZeroDivisionError


APP = Starlette(routes=[Route("/", short), Route("/late", late), Route("/endless", endless), Route("/broken", broken)])


@asynccontextmanager
async def serving(log: Log) -> AsyncIterator[tuple[Server, int]]:
    """A server of impatient connections, and its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = make_server(APP, log, Impatient)
    running = asyncio.create_task(server.serve([listening]))
    try:
        yield server, listening.getsockname()[1]
    finally:
        server.stop()
        await running


async def until(condition: Callable[[], bool]) -> None:
    """Returns when a condition holds."""
    while not condition():  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.01)


async def ask(port: int, data: bytes, *, until_end: bool = True) -> bytes:
    """What a server answers until it closes the connection, or the first of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(-1 if until_end else 65_536), REPLY_TIMEOUT_S)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_who_sends_nothing_or_half_a_request_is_cut_off() -> None:
    async def main() -> None:
        async with serving(Log()) as (_, port):
            assert await ask(port, b"") == b""
            assert await ask(port, GET[:-2]) == b""
            assert (await ask(port, GET)).startswith(b"HTTP/1.1 200 ")
            assert (await ask(port, GET + GET[:20])).count(b"HTTP/1.1 200 ") == 1

    asyncio.run(main())


def test_who_does_not_read_is_cut_off() -> None:
    async def main() -> None:
        async with serving(Log()) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                await until(lambda: bool(server.server_state.tasks))
                await until(lambda: not server.server_state.connections and not server.server_state.tasks)
            writer.close()
            assert reader.at_eof() is False

    asyncio.run(main())


def test_one_connection_too_many_is_closed_at_once() -> None:
    async def main() -> None:
        async with serving(Log()) as (server, port):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                await until(lambda: len(server.server_state.connections) == 3)
            assert await ask(port, GET) == b""
            for _, writer in idle:
                writer.close()
            answer = b""
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                while not answer:
                    answer = await ask(port, GET)
            assert answer.startswith(b"HTTP/1.1 200 ")

    asyncio.run(main())


def test_what_is_no_request_is_refused_and_not_logged() -> None:
    async def main() -> Log:
        log = Log()
        async with serving(log) as (_, port):
            for data in (
                b"\x16\x03\x01\x02\x00\r\n\r\n",
                b"GET\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            ):
                assert (await ask(port, data)).startswith(b"HTTP/1.1 400 "), data
            assert (await ask(port, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"))[:13] in {b"", b"HTTP/1.1 400 "}
        return log

    assert asyncio.run(main()).lines == []


def test_a_fault_of_ours_is_logged() -> None:
    async def main() -> Log:
        log = Log()
        async with serving(log) as (_, port):
            assert (await ask(port, GET.replace(b"/", b"/broken", 1))).startswith(b"HTTP/1.1 500 ")
        return log

    assert asyncio.run(main()).lines == [("error", "request failed")]


def test_a_stop_waits_for_nobody() -> None:
    async def main() -> None:
        log = Log()
        listening = socket.create_server(("127.0.0.1", 0))
        server = make_server(APP, log)
        running = asyncio.create_task(server.serve([listening]))
        _, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            await until(lambda: bool(server.server_state.tasks))
            server.stop()
            await running
        writer.close()
        assert log.lines == []

    asyncio.run(main())


def test_client_that_says_no_more_has_its_answers_and_the_end() -> None:
    async def ask() -> bytes:
        async with serving(Log()) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
            writer.write_eof()
            try:
                return await asyncio.wait_for(reader.read(), REPLY_TIMEOUT_S)
            finally:
                writer.close()

    assert asyncio.run(ask()).count(b"200 OK") == 2
