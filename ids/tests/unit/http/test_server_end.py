"""The end of HTTP connections: at a stop, and when their time is over."""

import asyncio
import errno
import socket

import pytest

from beanpole_ids.http.connection import Connection
from beanpole_ids.http.response import Response
from tests.unit.http.test_server import World, get, peer_end, play


def test_stop_ends_idle_connections_and_answers_what_is_asked() -> None:
    async def story(world: World) -> None:
        idle = await world.connect(get("/a"))
        await idle.response()
        asked, lost = await world.connect(get("/held")), await world.connect(get("/held"))
        await world.until(lambda: len(world.stub.held) == 2)
        world.server.begin_stop()
        assert await idle.rest() == b""
        with pytest.raises(OSError, match=r"refused|reset|Connect"):
            await world.connect()
        world.stub.held[0](Response(200, b"last"))
        answer = await asked.rest()
        assert answer.endswith(b"last")
        assert b"Connection: close" in answer
        finishing = asyncio.create_task(world.server.finish())
        assert b"503 Service" in await lost.rest()
        await finishing

    play(story)


def test_stop_does_not_wait_for_clients_that_keep_idle_connections() -> None:
    async def story(world: World) -> None:
        served = await world.connect(get("/a"))
        await served.response()
        idle, half = await world.connect(), await world.connect(b"GET /a HT")
        await world.until(lambda: len(world.server.connections) == 3)
        await world.until(lambda: all(each.has_sent_all() for each in world.server.connections))
        world.server.time = lambda: 0.0  # nobody's time is over
        world.server.begin_stop()
        await world.until(lambda: not world.server.connections)
        for each in (served, idle, half):
            assert await each.rest() == b""

    play(story)


def test_stop_lets_clients_take_what_was_sent() -> None:
    async def story(world: World) -> None:
        peer = await world.connect()
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined] # a stream's transport can
        peer.writer.write(get("/big") * 100)
        await world.until(lambda: any(each._full for each in world.server.connections))
        world.server.begin_stop()
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined] # see above
        answer = await peer.rest()
        assert len(answer) > 1_000_000 * answer.count(b"200 OK") > 0

    play(story)


def test_request_that_waits_for_its_turn_is_answered_at_a_stop() -> None:
    async def story(world: World) -> None:
        turns = hold_turns(world)
        early = await world.connect(get("/a"))
        await world.until(lambda: len(turns) == 1)
        half = await world.connect(b"GET /")
        await world.until(lambda: len(turns) == 2)
        late = await world.connect(get("/b"))
        await world.until(lambda: len(turns) == 3)
        world.server.begin_stop()
        turns[0].take_turn()
        assert (await early.rest()).endswith(b"/a")
        turns[1].take_turn()
        assert await half.rest() == b""
        finishing = asyncio.create_task(world.server.finish())
        assert b"503 Service" in await late.rest()
        await finishing

    play(story)


def test_request_that_waits_for_its_turn_did_not_come_late() -> None:
    async def story(world: World) -> None:
        turns = hold_turns(world)
        peer = await world.connect(get("/a"))
        await world.until(lambda: turns)
        turns[0].expire()
        turns[0].take_turn()
        assert (await peer.response())[2] == b"/a"
        await peer_end(peer)

    play(story)


def test_connection_whose_request_waits_for_its_turn_does_not_give_its_place_up() -> None:
    async def story(world: World) -> None:
        turns = hold_turns(world)
        first = await world.connect(get("/a"))
        await world.until(lambda: turns)
        second = await world.connect(get("/b"))
        await world.until(lambda: len(turns) == 2)
        assert [each.is_extra for each in turns] == [False, True]
        for each in turns:
            each.take_turn()
        assert (await first.response())[2] == b"/a"
        assert b"there are too many connections" in await second.rest()
        await peer_end(first)

    play(story, connections_max=1)


def test_connection_without_a_descriptor_takes_the_place_of_an_idle_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited until idle ones had had their time, which a client that opens others makes for ever."""
    accept = socket.socket.accept

    async def story(world: World) -> None:
        def accept_or_fail(listening: socket.socket) -> object:
            if len(world.server.connections) >= 2:
                raise OSError(errno.EMFILE, "Too many open files")
            return accept(listening)

        world.server.time = lambda: 0.0  # nobody's time is over
        idle = [await world.connect()]
        await world.until(lambda: len(world.server.connections) == 1)
        idle.append(await world.connect())
        await world.until(lambda: len(world.server.connections) == 2)
        monkeypatch.setattr(socket.socket, "accept", accept_or_fail)
        peer = await world.connect(get("/a"))
        await world.until(lambda: world.stub.asked)
        assert (await peer.response())[2] == b"/a"
        assert await idle[0].rest() == b""
        assert len(world.server.connections) == 2
        for each in (peer, idle[1]):
            await peer_end(each)

    play(story)


def hold_turns(world: World) -> list[Connection]:
    """Connections whose turn has come only when the test says so."""
    found: list[Connection] = []
    world.server.requests.add = lambda _, __, connection: not found.append(connection)  # type: ignore[method-assign, assignment, func-returns-value, misc]
    return found
