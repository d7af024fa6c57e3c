"""The server's side of its fronts: when they are there, and what becomes of one that can't be started."""

import asyncio
import socket
import sys
from contextlib import suppress

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.epoll import EpollTransport
from beanpole.server.eventqueue import now_ns
from beanpole.server.fronts import Fronts, command_of
from beanpole.server.logs import Event, Logger
from beanpole.server.observer import Observer
from beanpole.server.settings import Settings
from beanpole.server.turn import Turn
from tests.servers import HOST, REPLY_TIMEOUT_S


def shares(count: int, connections_max: int) -> list[str]:
    settings = Settings(connections_max=connections_max)
    commands = [command_of(settings, number, count, 1) for number in range(count)]
    return [next(word for word in words if word.startswith("--connections-max")) for words in commands]


def test_shares_of_connections_make_the_whole() -> None:
    assert shares(3, 8) == ["--connections-max=3", "--connections-max=3", "--connections-max=2"]


def test_fronts_that_can_not_start_are_said_once_and_not_tried_again() -> None:
    lines: list[Event] = []
    failed: list[tuple[object, ...]] = []

    def note(event: Event) -> str:
        lines.append(dict(event))
        return ""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        log, logger = Log(), Logger(note)
        engine = Engine(now_ns=now_ns(), records=log.records)
        clients = EpollTransport(Turn(engine, log), loop, Observer(logger))
        loop.add_reader(clients.fileno(), clients.run)
        with socket.create_server((HOST, 0)) as listener:
            fronts = Fronts(Settings(fronts=2), [listener], logger)
            for each in fronts.all:
                each.command = [sys.executable, "-I", "-S", "-c", "raise SystemExit(7)"]
            fronts.start(clients, lambda: failed.append(("ready",)), lambda *about, **_: failed.append(about))
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                await fronts.stopped()
        loop.remove_reader(clients.fileno())
        clients.close_all()

    with suppress(asyncio.CancelledError):
        asyncio.run(test())
    assert failed == [("front can't start",)]
    assert not [line for line in lines if line["event"] == "front 1 ended"]
