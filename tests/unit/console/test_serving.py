"""Clients that are slow, rude or many cost no more than their connection, and not for long."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from beanpole.console.answers import idling, keep_open
from beanpole.console.serving import Connection, Server, make_server
from tests.servers import REPLY_TIMEOUT_S
from tests.unit.console.instant import in_loop

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


class Patient(Connection):
    """Waits for as long as any does."""

    connections_max = 3


async def short(_: Request) -> Response:
    return PlainTextResponse("ok")


async def reading(request: Request) -> Response:
    return PlainTextResponse(f"{len(await request.body())}")


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


async def ticking(request: Request) -> Response:
    keep_open(request)

    async def content() -> AsyncIterator[bytes]:
        while True:
            yield b"tick\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(content())


async def flooding(request: Request) -> Response:
    keep_open(request)
    return await endless(request)


WAITING: list[Request] = []
"""The requests that wait."""


async def waiting(request: Request) -> Response:
    WAITING.append(request)
    with idling(request):
        await asyncio.Event().wait()
    return PlainTextResponse("never")


async def broken(_: Request) -> Response:
    raise ZeroDivisionError


ANSWERS = (short, reading, late, endless, ticking, flooding, waiting, broken)
APP = Starlette(routes=[Route(f"/{each.__name__}", each, methods=["GET", "POST"]) for each in ANSWERS])


@asynccontextmanager
async def serving(log: Log, protocol: type[Connection] = Impatient) -> AsyncIterator[tuple[Server, int]]:
    """A server of impatient connections, and its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = make_server(APP, log, protocol)
    running = asyncio.create_task(server.serve([listening]))
    try:
        yield server, listening.getsockname()[1]
    finally:
        server.stop()
        await running


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - uvicorn tells nobody
        await asyncio.sleep(0.01)


async def begun(port: int, path: bytes, *, limit: int = 65_536) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which an answer has begun; another one, if a busy machine took so long that it was cut off."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit)
        writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        with suppress(ConnectionResetError):
            if await reader.read(1):
                return reader, writer
        writer.close()


async def answered(port: int, data: bytes) -> bytes:
    """What a server answers; it is asked again if a busy machine took so long that it cut the connection off."""
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        while not (answer := await ask(port, data)):
            pass
    return answer


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


GET = b"GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n"


POST = b"POST /reading HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n"


@in_loop
async def test_who_sends_nothing_or_half_a_request_is_cut_off() -> None:
    async with serving(Log()) as (_, port):
        assert await ask(port, b"") == b""
        assert await ask(port, GET[:-2]) == b""
        assert await ask(port, POST + b"half") == b""
        assert (await answered(port, POST + b"a whole one")).startswith(b"HTTP/1.1 200 ")
        assert (await answered(port, GET)).startswith(b"HTTP/1.1 200 ")
        assert (await answered(port, GET + GET[:20])).count(b"HTTP/1.1 200 ") == 1


@pytest.mark.parametrize("path", [b"/endless", b"/flooding"])
@in_loop
async def test_who_does_not_read_is_cut_off(path: bytes) -> None:
    async with serving(Log()) as (server, port):
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            reader, writer = await begun(port, path, limit=1)
            await until(lambda: not server.server_state.connections and not server.server_state.tasks)
        writer.close()
        assert reader.at_eof() is False


@in_loop
async def test_a_stream_goes_on_while_it_is_read() -> None:
    async with serving(Log()) as (_, port):
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            reader, writer = await begun(port, b"/ticking")
            until_s = loop.time() + 5 * Impatient.request_s
            while loop.time() < until_s:
                assert await reader.readline()
        writer.close()


@in_loop
async def test_one_connection_too_many_is_closed_at_once() -> None:
    async with serving(Log(), Patient) as (_, port):
        busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            for reader, writer in busy:
                writer.write(GET.replace(b"/short", b"/ticking"))
                await reader.readuntil(b"tick\n")
            assert await ask(port, GET) == b""
            for reader, writer in busy:
                await reader.readuntil(b"tick\n")
                writer.close()
            answer = b""
            while not answer:
                answer = await ask(port, GET, until_end=False)
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"GET /short HTTP/1.1\r\n", GET.replace(b"/short", b"/waiting")])
@in_loop
async def test_what_is_idle_makes_room(sent: bytes) -> None:
    WAITING.clear()
    async with serving(Log(), Patient) as (server, port):
        idle = []
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            for count in (1, 2, 3):
                idle.append(await asyncio.open_connection("127.0.0.1", port))
                idle[-1][1].write(sent)
                await until(lambda count=count: len(server.server_state.connections) == count)  # type: ignore[misc]
            if b"waiting" in sent:
                await until(lambda: len(WAITING) == 3)
            assert (await ask(port, GET, until_end=False)).startswith(b"HTTP/1.1 200 ")
            assert await ended(idle[0][0])
            assert not idle[2][0].at_eof()
        for _, writer in idle:
            writer.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Whether a connection was closed without an answer."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@in_loop
async def test_what_is_no_request_is_refused_and_not_logged() -> None:
    log = Log()
    async with serving(log, Patient) as (_, port):
        for data in (
            b"\x16\x03\x01\x02\x00\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        ):
            assert (await ask(port, data)).startswith(b"HTTP/1.1 400 "), data
        assert (await ask(port, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"))[:13] in {b"", b"HTTP/1.1 400 "}
    assert log.lines == []


@in_loop
async def test_a_fault_of_ours_is_logged() -> None:
    log = Log()
    async with serving(log, Patient) as (_, port):
        answer = await ask(port, GET.replace(b"/short", b"/broken", 1), until_end=False)
        assert answer.startswith(b"HTTP/1.1 500 ")
    assert log.lines == [("error", "request failed")]


@pytest.mark.parametrize("path", [b"/endless", b"/ticking"])
@in_loop
async def test_a_stop_waits_for_nobody(path: bytes) -> None:
    log = Log()
    listening = socket.create_server(("127.0.0.1", 0))
    server = make_server(APP, log)
    running = asyncio.create_task(server.serve([listening]))
    _, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        await until(lambda: bool(server.server_state.tasks))
        server.stop()
        await running
    writer.close()
    assert log.lines == []


@in_loop
async def test_client_that_says_no_more_has_its_answers_and_the_end() -> None:
    async with serving(Log(), Patient) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /late HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        writer.write_eof()
        assert (await asyncio.wait_for(reader.read(), REPLY_TIMEOUT_S)).count(b"200 OK") == 2
        writer.close()
