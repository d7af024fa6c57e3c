"""HTTP connections, over real sockets, with routes and time-outs of the test's, and how they end."""

import asyncio
import itertools
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
import uvloop

from beanpole_ids import limits
from beanpole_ids.http.asked import Asked
from beanpole_ids.http.response import Response, problem
from beanpole_ids.http.serving import HTTP_EXTRA_MAX, HTTP_HANDOVER_MAX, Connection, Handover, Places, Web, listen
from beanpole_ids.waiting import network_of

Answer = Callable[[Response], None]
Story = Callable[["World"], Awaitable[None]]


class Stub:
    """Routes that keep what is asked, and answer with the target, at once or when a test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[bytes] = []
        self.held: list[Answer] = []

    def handle(self, asked: Asked, answer: Answer) -> None:
        target = asked.path
        self.asked.append((asked.method, target))
        self.bodies.append(asked.body)
        if target == "/held":
            self.held.append(answer)
        elif target == "/big":
            answer(Response(200, b"x" * 1_000_000))
        else:
            answer(Response(200, target.encode()))


class World:
    """HTTP, and clients as streams."""

    def __init__(self, web: Web, stub: Stub, port: int) -> None:
        self.web = web
        self.stub = stub
        self.port = port

    async def connect(self, data: bytes = b"") -> "Peer":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return Peer(reader, writer)

    @property
    def connections(self) -> list[Connection]:
        """Those that are open."""
        return list(self.web.places.connections.values())

    async def until(self, condition: Callable[[], object], pause_s: float = 0.005) -> None:
        async with asyncio.timeout(50):  # less than `play` waits for all
            while not condition():  # noqa: ASYNC110 - it is the loop that is waited for
                await asyncio.sleep(pause_s)


class Peer:
    """A client that looks at bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def response(self) -> tuple[int, bytes, bytes]:
        """The status, the head and the body of the next response."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        length = int(head.lower().partition(b"content-length: ")[2].split()[0]) if status != 100 else 0
        return status, head, await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Everything up to the end; closes."""
        data = b""
        with suppress(ConnectionResetError):
            while piece := await self.reader.read(65536):
                data += piece
        self.writer.close()
        return data


def play(
    story: Story,
    connections_max: int = 10,
    per_source: int = 100,
    timeout_ms: int = 50_000,
) -> None:
    """Plays a test on a server of its own, which must end well."""

    async def main() -> None:
        stub = Stub()
        web = Web(stub, time.monotonic_ns, per_source, timeout_ms, connections_max)  # type: ignore[arg-type] # stands for the routes
        (address,) = web.open("127.0.0.1", 0)
        try:
            async with asyncio.timeout(60):
                await story(World(web, stub, int(address.rpartition(":")[2])))
        finally:
            await web.finish()
        assert not web.places.connections

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def get(target: str, more: str = "") -> bytes:
    """A request."""
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


@pytest.mark.parametrize("size", [1, 7])
def test_request_in_pieces(size: int) -> None:
    async def story(world: World) -> None:
        peer = await world.connect()
        whole = get("/a") + b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
        for start in range(0, len(whole), size):
            peer.writer.write(whole[start : start + size])
            await asyncio.sleep(0)
        assert [(await peer.response())[2] for _ in range(2)] == [b"/a", b"/b"]
        assert world.stub.asked == [("GET", "/a"), ("POST", "/b")]
        await peer_end(peer)

    play(story)


async def peer_end(peer: Peer) -> None:
    """Ends a connection as clients do."""
    peer.writer.close()
    await peer.writer.wait_closed()


def test_head_has_no_body_and_the_connection_goes_on() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(b"HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await peer.reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 2\r\n" in head
        peer.writer.write(get("/b"))
        assert (await peer.response())[2] == b"/b"
        await peer_end(peer)

    play(story)


def test_answer_may_come_later_and_holds_back_what_is_behind_it() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(get("/held") + get("/b"))
        await world.until(lambda: world.stub.held)
        assert world.stub.asked == [("GET", "/held")]
        world.stub.held[0](Response(200, b"late"))
        assert (await peer.response())[2] == b"late"
        assert (await peer.response())[2] == b"/b"
        world.stub.held[0](Response(200, b"twice"))
        peer.writer.write(get("/c"))
        assert (await peer.response())[2] == b"/c"
        await peer_end(peer)

    play(story)


def test_client_that_sends_all_and_ends_gets_all() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(get("/a") * 50)
        peer.writer.write_eof()
        assert (await peer.rest()).count(b"200 OK") == 50

    play(story)


def test_client_that_ends_its_side_gets_its_answer() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(get("/held"))
        await world.until(lambda: world.stub.held)
        peer.writer.write_eof()
        world.stub.held[0](Response(200, b"late"))
        assert (await peer.rest()).endswith(b"late")
        await world.until(lambda: not world.connections)

    play(story)


def test_client_that_is_gone_takes_nothing_with_it() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(get("/held"))
        await world.until(lambda: world.stub.held)
        peer.writer.transport.abort()
        await peer.writer.wait_closed()
        world.stub.held[0](Response(200, b"late"))
        other = await world.connect(get("/a", "Connection: close\r\n"))
        assert (await other.rest()).endswith(b"/a")

    play(story)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\nContent-Length: 3\r\n\r\nabc", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
        (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 4_000 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 20_000, 413),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n" + b"x" * 4096 + b"\r\n" * 9,
            400,
        ),
    ],
)
def test_bad_request_is_told_and_ends_the_connection(data: bytes, status: int) -> None:
    async def story(world: World) -> None:
        peer = await world.connect(data)
        found, head, body = await peer.response()
        assert found == status, body
        assert b"application/problem+json" in head
        assert b"connection: close" in head.lower()
        assert not await peer.rest()
        await world.until(lambda: not world.connections)
        assert not world.stub.asked

    play(story)


def test_body_on_request() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert (await peer.response())[0] == 100
        peer.writer.write(b"{}")
        assert (await peer.response())[2] == b"/a"
        await peer_end(peer)

    play(story)


def test_body_in_chunks() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"2\r\n{}\r", b"\n1;a=b\r\n \r\n0\r\nT: 1\r\n", b"\r\n", get("/b")):
            peer.writer.write(piece)
            await asyncio.sleep(0)
        assert [(await peer.response())[2] for _ in range(2)] == [b"/a", b"/b"]
        assert world.stub.bodies == [b"{} ", b""]
        await peer_end(peer)

    play(story)


def test_offer_of_another_protocol_is_not_taken() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(get("/a", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"))
        assert (await peer.rest()).endswith(b"/a")

    play(story)


def test_end_in_the_middle_of_a_request() -> None:
    async def story(world: World) -> None:
        for data in (b"GET /a HT", b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nab"):
            peer = await world.connect(get("/first"))
            await peer.response()
            peer.writer.write(data)
            peer.writer.write_eof()
            assert b"200 OK" not in await peer.rest()
        assert len(world.stub.asked) == 2

    play(story, timeout_ms=300)


def test_slow_clients_are_cut_off() -> None:
    async def story(world: World) -> None:
        idle = await world.connect()
        slow_head = await world.connect(b"GET / HTTP/1.1\r\nHo")
        second = await world.connect(get("/first"))
        await second.response()
        second.writer.write(b"GET / HTTP/1.1\r\nHo")
        slow_body = await world.connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
        unanswered = await world.connect(get("/held"))
        assert await idle.rest() == b""
        for each in (slow_head, slow_body, second):
            assert (await each.rest()).startswith(b"HTTP/1.1 408 ")
        assert (await unanswered.rest()).startswith(b"HTTP/1.1 503 ")
        await world.until(lambda: not world.connections)
        world.stub.held[0](Response(200, b"too late"))

    play(story, timeout_ms=300)


def test_client_that_takes_no_answers_is_cut_off() -> None:
    async def story(world: World) -> None:
        peer = await world.connect(get("/big") * 100)
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined] # a stream's transport can
        await world.until(lambda: world.stub.asked)
        await world.until(lambda: not world.connections)
        assert len(world.stub.asked) < 100
        peer.writer.close()

    play(story, timeout_ms=300)


def test_unfinished_heads_leave_their_place_to_others() -> None:
    """The one that has waited longest goes, and before it none that has been served."""

    async def story(world: World) -> None:
        served = await world.connect(get("/a"))
        await served.response()
        slow = [await world.connect(b"GET / HTTP/1.1\r\nHo")]
        await world.until(lambda: len(world.connections) == 2)
        slow.append(await world.connect(b"GET / HTTP/1.1\r\nHo"))
        await world.until(lambda: len(world.connections) == 3)
        other = await world.connect(get("/b"))
        assert (await other.response())[2] == b"/b"
        assert await slow[0].rest() == b""
        for each in (served, slow[1]):
            each.writer.write(get("/c") if each is served else b"st: x\r\n\r\n")
            assert (await each.response())[0] == 200
            await peer_end(each)
        assert world.web.places.refused_count == 1
        await peer_end(other)

    play(story, connections_max=3)


@pytest.mark.parametrize("limit", ["all", "source"])
def test_too_many_connections_are_told_so_and_health_is_served(limit: str) -> None:
    async def story(world: World) -> None:
        peers = [await world.connect(get("/held")) for _ in range(3)]
        await world.until(lambda: len(world.stub.held) == 3)
        extra = await world.connect(get("/a") * 2)
        assert (await extra.rest()).startswith(b"HTTP/1.1 503 Service Unavailable")
        for path in ("/health", "/metrics"):
            extra = await world.connect(get(path) * 2)
            assert (await extra.rest()).endswith(b"\r\n\r\n" + path.encode()), "one answer"
        idle = [await world.connect() for _ in range(HTTP_EXTRA_MAX + 1)]
        assert await idle[0].rest() == b"", "those that ask nothing do not take the place of one that asks"
        extra = await world.connect(get("/health"))
        assert (await extra.rest()).endswith(b"/health")
        assert len(world.connections) <= 3 + HTTP_EXTRA_MAX
        for held, peer in zip(world.stub.held, peers, strict=True):
            held(Response(200, b"late"))
            assert (await peer.response())[2] == b"late"
            await peer_end(peer)
        await world.until(lambda: len(world.connections) <= HTTP_EXTRA_MAX)
        peer = await world.connect(get("/a"))
        assert (await peer.response())[0] == (200 if limit == "all" else 503)
        for each in (peer, *idle):
            each.writer.close()

    play(story, connections_max=3 if limit == "all" else 10, per_source=3 if limit == "source" else 100)


def test_port_that_is_used_again_at_once_takes_one_place() -> None:
    """The new connection may be there before the end of the old one is known."""

    class Peer:
        address = ("192.0.2.1", 50_000)
        is_extra = False

    places = Places(10, 2, 1)
    for _ in range(5):
        old, new = Peer(), Peer()
        for each in (old, new):
            places.add(each)  # type: ignore[arg-type] # stands for a connection
        places.forget(old)  # type: ignore[arg-type]
        assert [*map(id, places.connections.values())] == [id(new)]
        assert not new.is_extra
        places.forget(new)  # type: ignore[arg-type]
    assert not places.connections


def test_networks_of_ipv6_are_one_client() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:0:0:1") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:192.0.2.1") != network_of("::ffff:192.0.2.2")
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")


def test_problems_carry_what_clients_need() -> None:
    response = problem("storage", "why", code=-3)
    assert (response.status, response.kind) == (503, "application/problem+json")
    assert ("Retry-After", "1") in response.fields
    assert limits.HTTP_CONNECTIONS_MAX < 1024, "the usual limit of descriptors"


# --- The end ----------------------------------------------------------------------------------------------------------


def test_stop_ends_idle_connections_and_answers_what_is_asked() -> None:
    async def story(world: World) -> None:
        idle, half = await world.connect(get("/a")), await world.connect(b"GET /a HT")
        await idle.response()
        asked, lost = await world.connect(get("/held")), await world.connect(get("/held"))
        await world.until(lambda: len(world.stub.held) == 2)
        at_once = await world.connect(get("/held"))
        await world.until(lambda: len(world.stub.held) == 3)
        world.web.begin_stop()
        world.stub.held[2](Response(200, b"at once"))
        assert b"connection: close" in await at_once.rest()
        assert await idle.rest() == await half.rest() == b""
        with pytest.raises(OSError, match=r"refused|reset|Connect"):
            await world.connect()
        world.stub.held[0](Response(200, b"last"))
        answer = await asked.rest()
        assert answer.endswith(b"last")
        finishing = asyncio.create_task(world.web.finish())
        assert b"503 Service" in await lost.rest()
        await finishing

    play(story)


def test_what_waits_has_an_end() -> None:
    """Requests that the service does not take are refused; the loop serves datagrams between those that it takes."""

    async def main() -> None:
        done: list[int] = []
        readings = itertools.count(0, limits.TURN_US * 1_000)
        handover = Handover(asyncio.get_running_loop(), lambda: next(readings))
        assert all(handover.add(partial(done.append, each)) for each in range(HTTP_HANDOVER_MAX))
        assert not handover.add(lambda: None)
        for count in range(1, 4):
            await asyncio.sleep(0)
            assert len(done) == count, "one a turn, as by this clock each takes the time of a turn"
        for _ in range(HTTP_HANDOVER_MAX):
            await asyncio.sleep(0)
        assert done == sorted(done)
        assert handover.add(partial(done.append, -1))
        await asyncio.sleep(0)
        assert done[-1] == -1

    asyncio.run(main())


def test_address_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="HTTP on 127"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_name_that_has_an_address_twice_or_one_that_the_system_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    one = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    lacking = (socket.AF_APPLETALK, socket.SOCK_STREAM, 6, "", ("::1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [one, one, lacking])
    (found,) = listen("twice", 0)
    found.close()
