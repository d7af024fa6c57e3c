"""Who serves the clients of a server: a role source.

A server alone always leads. A node of a cluster leads, or passes its clients on: :mod:`beanpole.server.cluster`.
:class:`beanpole.server.app.Server` runs the process and doesn't know which of the two it is.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode
from beanpole.log.log import Log
from beanpole.server import limits
from beanpole.server.epoll import EpollTransport
from beanpole.server.logs import Logger
from beanpole.server.observer import Observer
from beanpole.server.process import ProcessFacts
from beanpole.server.settings import Settings
from beanpole.server.storage import Storage, open_memory
from beanpole.server.turn import Turn

if TYPE_CHECKING:
    from beanpole.server.supervisor import Supervisor


class Host(Protocol):
    """What a role source needs of the process around it."""

    settings: Settings
    listeners: list[socket.socket]
    connections_max: int
    descriptors_free: int
    logger: Logger
    observer: Observer
    facts: ProcessFacts
    console: "Supervisor | None"
    stopping: asyncio.Event
    """Set when the server is to stop."""

    exit_code: ExitCode

    def ready(self) -> None:
        """Note that clients are answered; the first time that is reported."""

    def stop_at_once(self, event: str, **about: object) -> None:
        """Stop without a reply more: what is durable is all that can be promised."""


class RoleSource(Protocol):
    """What serves the clients of a server, and in which role. Made before the first signal is handled."""

    def start(self) -> None:
        """Begin, and call the host's `ready` when clients are answered."""

    def drain(self) -> None:
        """Take no more jobs, or log why not."""

    def stop_turns(self) -> None:
        """Run no more commands and send nothing more: something failed."""

    async def stop(self) -> None:
        """Close every client, in good order if nothing failed."""


class AlwaysLeads:
    """A server alone: its clients are served here, from the start to the end."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.loop = asyncio.get_running_loop()
        self.storage = open_log(host, self.loop)
        self.storage.engine.tubes_max = host.settings.tubes_max
        self.clients = open_clients(host, self.storage.engine, self.storage.log, self.storage.clock_offset_ns)

    def start(self) -> None:
        """Begin to sync, to listen and to serve."""
        self.storage.start(self.clients.send_held, self.fail_log)
        for each in self.host.listeners:
            each.listen(limits.BACKLOG)
            self.clients.listen(each.fileno(), each.family == socket.AF_UNIX)
        self.loop.add_reader(self.clients.fileno(), self.clients.run)
        if self.host.console is not None:
            self.host.console.serve_by(self.clients)
        self.host.ready()

    def drain(self) -> None:
        """Take no more jobs; those that are there can still be worked off."""
        self.storage.engine.draining = True
        effect = "put is answered with DRAINING until the next start"
        self.host.logger.info("draining", reason="SIGUSR1", effect=effect)

    def stop_turns(self) -> None:
        """Run no more commands and send nothing more."""
        self.clients.turn.stop()

    async def stop(self) -> None:
        """Finish the turn, make it durable, send what that sets free, and close; after a failure only close."""
        self.clients.stop_accepting()
        self.loop.remove_reader(self.clients.fileno())
        if self.host.exit_code == ExitCode.OK:
            self.storage.engine.give_back()
            try:
                self.storage.log.close()
            except OSError as error:
                self.fail_log(error)
            else:
                self.clients.send_held()
        self.clients.close_all()
        self.storage.close()

    def fail_log(self, error: OSError) -> None:
        """Stop at once: what is on disk is all that can be promised."""
        self.host.stop_at_once("log failed", reason=str(error), directory=str(self.host.settings.data_dir))


def open_log(host: Host, loop: asyncio.AbstractEventLoop) -> Storage:
    """Open the log that the settings ask for, and bring its jobs back. Raises StartError."""
    settings = host.settings
    if settings.data_dir is None:
        return open_memory(settings, host.facts)
    from beanpole.server.directory import open_directory  # noqa: PLC0415 - see there

    return open_directory(settings.data_dir, settings, host.facts, host.logger, loop)


def open_clients(host: Host, engine: Engine, log: Log, clock_offset_ns: int) -> EpollTransport:
    """Return what serves clients with an engine, as soon as it listens."""
    turn = Turn(engine, log, host.settings.one_reply_per_send)
    clients = EpollTransport(turn, asyncio.get_running_loop(), host.observer, host.connections_max)
    clients.clock_offset_ns = clock_offset_ns
    clients.observe_connections = host.settings.verbose_count > 0
    return clients
