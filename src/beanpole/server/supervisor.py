"""The console's process: started when the server answers, watched, and started again when it ends.

It is a client that comes with the server. It is handed the socket that listens for HTTP, and connected sockets of which
the server keeps the other ends and serves them as it serves its clients, so the console needs no address, no password
and no place among the connections. When the server's ends are closed it ends: whatever happens to the server, no
console is left over.

Nothing here may stop the server: what fails is logged, and a console that doesn't stay is given up. A start costs a
turn 0.3 ms; on a busy machine, one in ten costs 8 ms.
"""

import asyncio
import fcntl
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from beanpole.process.child import FIRST_FD, Child, pause_after, spawn
from beanpole.server import limits
from beanpole.server.connection import Connection
from beanpole.server.listener import address_text
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings

CONSOLE_PAUSE_S = 0.5
"""Seconds until a console that has ended is started again, the first time; each end in a minute doubles them."""

CONSOLE_PAUSE_MAX_S = 10.0
"""Seconds that this grows to at most."""

CONSOLE_ENDS_MAX = 5
"""Ends of the console within `CONSOLE_ENDS_S` at which it is given up."""

CONSOLE_ENDS_S = 60.0
"""Seconds in which the ends of the console are counted: one that lives longer is worth another start."""

CONSOLE_STOP_S = 1.0
"""Seconds that the console may take to end when its connections are closed, before it is killed."""

PAIRS = ("sampling", "pages", "actions", "search")
"""What the console has a connection for: a session answers in order, and nobody waits for a long search."""

NOT_PASSED_ON = ("BEANPOLE_", "LISTEN_", "NOTIFY_SOCKET", "PG")
"""How variables begin that are the server's own: settings of it and of PostgreSQL, with passwords, and systemd's."""


class Pace:
    """How soon a console that has ended is started again, when it is not, and how long it may take to stop.

    A dataclass would take a millisecond of the start.
    """

    def __init__(
        self,
        *,
        pause_s: float = CONSOLE_PAUSE_S,
        pause_max_s: float = CONSOLE_PAUSE_MAX_S,
        ends_max: int = CONSOLE_ENDS_MAX,
        ends_s: float = CONSOLE_ENDS_S,
        stop_s: float = CONSOLE_STOP_S,
    ) -> None:
        self.pause_s = pause_s
        self.pause_max_s = pause_max_s
        self.ends_max = ends_max
        self.ends_s = ends_s
        self.stop_s = stop_s

    def pause_after(self, ends: int) -> float:
        """Return how long to wait after so many ends in `ends_s`."""
        return pause_after(ends, self.pause_s, self.pause_max_s)


class Transport(Protocol):
    """Who serves the server's ends of the pairs."""

    def adopt(self, fd: int) -> Connection:
        """Serve a connected socket, and close it in the end."""

    def release(self, connection: Connection) -> None:
        """Close what was adopted."""


def command_of(settings: Settings, name: str) -> list[str]:
    """Return how the console is started; `name` is what it calls this server."""
    fds = ",".join(str(FIRST_FD + at) for at in range(1 + len(PAIRS)))
    return [
        # Without the folder that the server was started in: whatever modules lie there are none of ours.
        *(sys.executable, "-P", "-m", "beanpole", "console"),
        *(f"--handed-over={fds}", f"--name={name}", f"--log-format={settings.log_format}"),
        *(f"--http-host={each}" for each in settings.http_host),
        *([f"--http-token-file={settings.http_token_file}"] if settings.http_token_file else []),
        *(["--http-hide-bodies"] if settings.http_hide_bodies else []),
        *(f"--metrics-tubes={each}" for each in settings.metrics_tubes),
        *(["--legacy-metrics"] if settings.legacy_metrics else []),
    ]


class Supervisor:
    """Keeps one console running."""

    def __init__(self, listener: socket.socket, command: list[str], logger: Logger, pace: Pace | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.listener = listener
        """Where the console takes HTTP."""

        self.address = "http:" + address_text(listener).removeprefix("tcp:")
        self.command = command
        self.logger = logger
        self.pace = pace or Pace()
        self.transport: Transport | None = None
        self.connections: list[Connection] = []
        self.changed: asyncio.Future[None] = self.loop.create_future()
        """Done when the console that runs has to end: the server stops, or another engine is to serve it."""

        self.is_stopping = False
        self.running: asyncio.Task[None] | None = None

    def serve_by(self, transport: Transport) -> None:
        """Let this serve the pairs. A console that another served is started again, and that is not counted."""
        if transport is not self.transport:
            self.release()
            self.transport = transport
            self.change()

    def start(self) -> None:
        """Start the console with the loop's next turn, and again when it ends; until then connections wait."""
        if self.running is None and not self.is_stopping:
            self.listener.listen(limits.BACKLOG)
            self.running = self.loop.create_task(self.run())

    def close(self) -> None:
        """Begin to stop: close the pairs, at which the console ends."""
        self.is_stopping = True
        self.release()
        self.change()

    async def stopped(self) -> None:
        """Return when the console has ended; kill it if it takes too long."""
        if self.running is not None:
            await asyncio.wait([self.running])

    def change(self) -> None:
        """Let the console that runs, or the pause before the next one, be the last of its kind."""
        if not self.changed.done():
            self.changed.set_result(None)

    def release(self) -> None:
        """Close the server's ends of the pairs."""
        for each in self.connections:
            assert self.transport is not None
            self.transport.release(each)
        self.connections = []

    async def run(self) -> None:
        """Keep a console running until the server stops, or until that proves hopeless."""
        ends: deque[float] = deque()
        try:
            while not self.is_stopping:
                self.changed = self.loop.create_future()
                reason = await self.live()
                if self.changed.done():
                    continue
                now_s = time.monotonic()
                ends.append(now_s)
                while now_s - ends[0] > self.pace.ends_s:
                    ends.popleft()
                if len(ends) >= self.pace.ends_max:
                    self.give_up(reason, f"ended {len(ends)} times within {self.pace.ends_s:.0f} s")
                    return
                pause_s = self.pace.pause_after(len(ends))
                self.logger.warning("console ended", reason=reason, effect=f"started again in {pause_s:g} s")
                await asyncio.wait([self.changed], timeout=pause_s)
        except Exception as error:  # noqa: BLE001 - the server goes on, whatever it is
            self.release()
            self.give_up(str(error), "watching it failed", error)

    def give_up(self, reason: str, effect: str, error: Exception | None = None) -> None:
        """Stop serving HTTP: connections are refused instead of kept waiting."""
        self.logger.error(
            "console given up", reason=reason, effect=effect, advice="the next start tries again", exc_info=error
        )
        self.listener.close()

    async def live(self) -> str:
        """Start a console and return how it ended, when it has ended."""
        try:
            with self.pairs() as theirs:
                child = Child(self.spawn(theirs), self.loop)
        except OSError as error:
            self.release()
            return str(error)
        self.logger.info("console started", pid=child.pid)
        either: list[asyncio.Future[Any]] = [child.ended, self.changed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        self.release()
        return await child.end(self.pace.stop_s)

    @contextmanager
    def pairs(self) -> Iterator[list[int]]:
        """Connect the console with whoever serves it now; give its ends, which are closed at the exit."""
        transport = self.transport
        assert transport is not None
        theirs: list[int] = []
        try:
            theirs.append(copy_of(self.listener.fileno()))
            for _ in PAIRS:
                ours, their = socket.socketpair()
                with their:
                    ours.setblocking(False)
                    theirs.append(copy_of(their.fileno()))
                self.connections.append(transport.adopt(ours.detach()))
            yield theirs
        finally:
            for fd in theirs:
                os.close(fd)

    def spawn(self, descriptors: list[int]) -> int:
        """Start the process."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith(NOT_PASSED_ON)}
        return spawn(self.command, environment, descriptors)


def copy_of(fd: int) -> int:
    """Return a copy of a descriptor behind those numbers that a new process knows its own by."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD + 1 + len(PAIRS))
