"""The process of a server on one loop: signals, the console, and the order in which everything starts and stops.

Who serves the clients is a role source: a server alone always leads, a node has the role that its cluster says. A host
doesn't know which of the two it has.
"""

import asyncio
import signal
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from beanpole.errors import ExitCode
from beanpole.server import listener
from beanpole.server.logs import Logger
from beanpole.server.observer import Observer
from beanpole.server.process import (
    ProcessFacts,
    notify_systemd,
    open_descriptor_count,
    remove_ready_file,
    report_ready,
)
from beanpole.server.settings import Settings

if TYPE_CHECKING:
    from beanpole.engine.engine import Engine
    from beanpole.server.door import Door
    from beanpole.server.fronts import Fronts
    from beanpole.server.supervisor import Supervisor

DESCRIPTORS_RESERVED = 16
"""File descriptors kept free for log segments, the console and the like when connections take all others."""

DESCRIPTORS_CONSOLE = 16
"""File descriptors kept free with ``--http``: for the console's connections, twice while it is started."""


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


class Host:
    """One server on one loop."""

    def __init__(
        self,
        settings: Settings,
        listeners: list[socket.socket],
        logger: Logger,
        descriptors_max: int,
        console: "Supervisor | None" = None,
    ) -> None:
        self.settings = settings
        self.console = console
        self.door: Door | None = None  # who comes in; None: anybody, and nobody asks
        self.fronts: Fronts | None = None  # who accepts the clients; None: the server does so itself
        reserved = DESCRIPTORS_RESERVED + (DESCRIPTORS_CONSOLE if console is not None else 0)
        self.descriptors_free = max(1, descriptors_max - open_descriptor_count() - reserved)
        self.connections_max = min(self.descriptors_free, settings.connections_max)
        self.listeners = listeners
        self.addresses = [listener.address_text(each) for each in listeners]
        if console is not None:
            self.addresses.append(console.address)
        self.logger = logger
        self.observer = Observer(logger, limited=self.connections_max == settings.connections_max)
        self.stopping = asyncio.Event()  # set when the server is to stop
        self.exit_code = ExitCode.OK
        self.facts = ProcessFacts()
        self.is_ready = False

    def guard(self, door: "Door | None") -> None:
        """Let clients in by a door, if there is one."""
        self.door = door
        if door is not None:
            self.addresses[: len(self.listeners)] = door.entrance.addresses(self.listeners)

    async def run(self, open_roles: "Callable[[Host], RoleSource]") -> ExitCode:
        """Serve until a signal comes, or until the role source ends that; return the exit code of the process.

        Raises StartError: the log can't be opened, or a setting is missing.
        """
        loop = asyncio.get_running_loop()
        for each in self.listeners:
            each.setblocking(False)
        self.roles = open_roles(self)
        loop.set_exception_handler(self.fail)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGUSR1, self.roles.drain)
        if self.door is not None:
            loop.add_signal_handler(signal.SIGHUP, self.door.reread)
        self.roles.start()
        await self.stopping.wait()
        notify_systemd("STOPPING=1")
        if self.console is not None:
            self.console.close()
        if self.settings.ready_file is not None:
            remove_ready_file(self.settings.ready_file, self.addresses)
        await self.roles.stop()
        if self.fronts is not None:
            self.fronts.close()  # only now: what the last turn has set free went over their links
            await self.fronts.stopped()
        if self.console is not None:
            await self.console.stopped()
        self.logger.info("stopped", exit_code=int(self.exit_code))
        return self.exit_code

    def equip(self, engine: "Engine") -> None:
        """Give an engine what the settings say, and a place for what belongs into the server's log."""
        engine.tubes_max = self.settings.tubes_max
        engine.schedules_max = self.settings.schedules_max
        engine.once_max = self.settings.once_max
        engine.notice = self.logger.warning

    def ready(self) -> None:
        """Start the console and report, the first time, that clients are answered."""
        if not self.is_ready:
            self.is_ready = True
            if self.console is not None:
                self.console.start()
            report_ready(
                self.settings.ready_file,
                self.addresses,
                self.listeners,
                self.logger,
                has_users=bool(self.settings.access),
            )

    def stop(self, number: signal.Signals) -> None:
        self.stopping.set()
        self.logger.info("stopping", reason=signal.Signals(number).name)

    def fail(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """Stop at once when a turn failed: what the engine holds can't be trusted any more."""
        self.stop_at_once("failed", reason=str(context.get("message")), exc_info=context.get("exception"))

    def stop_at_once(self, event: str, **about: object) -> None:
        """Stop without a reply more, and say why; what fails after that is not said."""
        if self.exit_code == ExitCode.OK:
            self.exit_code = ExitCode.FAILED
            self.roles.stop_turns()
            self.stopping.set()
            self.logger.critical(event, **about)
