"""The console's process: started when the server answers, watched, and started again when it ends.

It is a client that comes with the server. It is handed the socket that listens for HTTP, and connected sockets of which
the server keeps the other ends and serves them as it serves its clients, so the console needs no address, no password
and no place among the connections. When the server's ends are closed it ends: whatever happens to the server, no
console is left over.

A start costs a turn 0.3 ms; on a busy machine, one in ten costs 8 ms.
"""

import contextlib
import os
import socket
import sys
from typing import Protocol

from beanpole.process.child import FIRST_FD, spawn
from beanpole.process.keeper import Keeper, Pace
from beanpole.server import limits
from beanpole.server.connection import Connection
from beanpole.server.listener import address_text
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings

PAIRS = ("sampling", "pages", "actions", "search")
"""What the console has a connection for: a session answers in order, and nobody waits for a long search."""


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
        *([f"--access={settings.access}", f"--key={FIRST_FD + 1 + len(PAIRS)}"] if settings.access else []),
        *([f"--tokens={settings.tokens}"] if settings.tokens else []),
        *(["--http-hide-bodies"] if settings.http_hide_bodies else []),
        *(f"--metrics-tubes={each}" for each in settings.metrics_tubes),
        *(["--legacy-metrics"] if settings.legacy_metrics else []),
    ]


class Supervisor(Keeper):
    """Keeps one console running. Its lifeline are the connections that it was handed."""

    def __init__(
        self,
        listener: socket.socket,
        command: list[str],
        logger: Logger,
        pace: Pace | None = None,
        key: bytes = b"",
    ) -> None:
        super().__init__("console", logger.log, pace)
        self.listener = listener  # where the console takes HTTP
        self.address = "http:" + address_text(listener).removeprefix("tcp:")
        self.command = command
        self.transport: Transport | None = None
        self.connections: list[Connection] = []
        self.key = key  # the one with which cookies of users are signed: it outlives a console; empty: no users

    def serve_by(self, transport: Transport) -> None:
        """Let this serve the pairs. A console that another served is started again, and that is not counted."""
        if transport is not self.transport:
            self.release()
            self.transport = transport
            self.change()

    def start(self) -> None:
        """Listen, and start the console; until it serves connections wait."""
        if self.running is None and not self.is_stopping:
            self.listener.listen(limits.BACKLOG)
        super().start()

    def release(self) -> None:
        """Close the server's ends of the pairs."""
        for each in self.connections:
            assert self.transport is not None
            self.transport.release(each)
        self.connections = []

    def give_up(self, reason: str, effect: str, error: Exception | None = None) -> None:
        """Stop serving HTTP: connections are refused instead of kept waiting."""
        super().give_up(reason, effect, error)
        self.listener.close()

    def spawn(self) -> int:
        """Connect the console with whoever serves it now, and start it with its ends."""
        transport = self.transport
        assert transport is not None
        handed_over = [self.listener.fileno()]
        with contextlib.ExitStack() as theirs:
            for _ in PAIRS:
                ours, their = socket.socketpair()
                handed_over.append(theirs.enter_context(their).fileno())
                ours.setblocking(False)
                self.connections.append(transport.adopt(ours.detach()))
            if self.key:
                handed_over.append(os.memfd_create("key"))
                theirs.callback(os.close, handed_over[-1])
                os.pwrite(handed_over[-1], self.key, 0)
            return spawn(self.command, handed_over)
