"""Actions on running servers, as the console does them, without a console process."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from beanpole.client import Address, Client
from beanpole.console.actions.action import NOTHING, Action, Given, Target
from beanpole.console.actions.dry import DryRun, dry_run
from beanpole.console.actions.runs import Run, Runs, start
from beanpole.console.sampler import make_sampler
from beanpole.console.security.access import Visitor
from beanpole.console.servers import Console, Server
from beanpole.console.settings import Clock, Settings, Source
from tests import servers
from tests.servers import HOST, REPLY_TIMEOUT_S

T = TypeVar("T")

ANNE = Visitor("anne", may_change=True)


@dataclass
class Lines:
    """A log that keeps its lines."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        assert exc_info is None
        self.lines.append({"level": level, "event": event, **about})


@dataclass
class World:
    """A console that looks at one server, which it calls `queue`."""

    console: Console
    lines: Lines

    async def dry(self, verb: str, target: Target, given: Given = NOTHING) -> DryRun:
        return await dry_run(self.console, Action(verb, "queue", target, given))

    async def begin(self, made: DryRun, typed: int | None = None) -> Run:
        return await start(self.console, made.action, highest=made.highest, typed=typed, visitor=ANNE)

    async def run(self, verb: str, target: Target, given: Given = NOTHING, typed: int | None = None) -> Run:
        """A dry run, and what it was made of until it is over."""
        run = await self.begin(await self.dry(verb, target, given), typed)
        await run.wait(REPLY_TIMEOUT_S)
        assert run.ended is not None
        return run


Passes = Callable[[bytes], Awaitable[bool]]
"""Looks at what a server has sent, for as long as it likes; False cuts the connection."""


@asynccontextmanager
async def gate(port: int, passes: Passes) -> AsyncIterator[int]:
    """A way to a server on which a test decides what comes through; gives the port."""
    tasks: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: Passes | None) -> None:
        try:
            while (data := await reader.read(65_536)) and (passes is None or await passes(data)):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection(HOST, port)
        for task in (forward(reader, to, None), forward(there, writer, passes)):
            tasks.add(asyncio.get_running_loop().create_task(task))

    listening = await asyncio.start_server(came, HOST, 0)
    try:
        yield int(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def everything(_: bytes) -> bool:
    return True


def act(server: servers.Server, do: Callable[[World], Awaitable[T]], passes: Passes = everything) -> T:
    """What some actions on a running server bring."""

    async def acted() -> T:
        async with gate(server.port, passes) as port:
            return await with_console(port, do)

    async def with_console(port: int, do: Callable[[World], Awaitable[T]]) -> T:
        source = Source("queue", Address(HOST, server.port if passes is everything else port))
        settings, clock, lines = Settings((source,)), Clock(time.monotonic_ns, time.time), Lines()
        looked_at = Server(source, settings, make_sampler(source, settings, lines, clock))
        console = Console(settings, {"queue": looked_at}, lines, clock)
        try:
            return await do(World(console, lines))
        finally:
            await console.kept(Runs).stop()
            await looked_at.stop()

    return asyncio.run(acted())


Test = Callable[[World, "Client[bytes]", str], Awaitable[None]]
"""A test of actions: it is given a console, a client of its server, and a tube of its own."""


def on_either(test: Test) -> Callable[[servers.Server, str], None]:
    """Lets a test run on a server of ours and on one of beanstalkd."""

    def runs(either: servers.Server, tube: str) -> None:
        with client_of(either) as client:
            act(either, lambda world: test(world, client, tube))

    return runs


def on_ours(test: Test) -> Callable[[servers.Server, str], None]:
    """Lets a test run on a server of ours."""

    def runs(ours: servers.Server, tube: str) -> None:
        with client_of(ours) as client:
            act(ours, lambda world: test(world, client, tube))

    return runs


@contextmanager
def client_of(server: servers.Server) -> Iterator["Client[bytes]"]:
    """A client of the server."""
    with Client(f"{HOST}:{server.port}", None) as client:
        yield client


def ids_in(client: "Client[bytes]", tube: str, state: str) -> list[int]:
    """The jobs of a tube in a state."""
    found: list[int] = []
    after: int | None = 0
    while after is not None:
        page = client.list_jobs(tube, state, after=after)
        found += [job.id for job in page.jobs]
        after = page.next
    return found


def buried(client: "Client[bytes]", tube: str, count: int) -> list[int]:
    """Puts jobs into a tube and buries them."""
    ids = client.put_many([b"job %d" % number for number in range(count)], tube=tube)
    for id in ids:
        client.reserve_job(id)
        client.bury(id)
    return ids
