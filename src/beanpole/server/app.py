"""The process of a server: sockets, signals, the loop, and the order in which they start and stop.

Who serves its clients is a role source: a server alone always leads, a node has the role that its cluster says.

Start: bind, become the user, listen, report that we are ready. Stop (SIGTERM, SIGINT): stop accepting, finish the turn,
make it durable, send what that sets free, close.
"""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import uvloop

import beanpole
from beanpole import limits as shared_limits
from beanpole.errors import ExitCode
from beanpole.server import early, listener
from beanpole.server.logs import Logger, open_logger
from beanpole.server.observer import Observer
from beanpole.server.process import (
    ProcessFacts,
    become_user,
    notify_systemd,
    open_descriptor_count,
    raise_descriptor_limit,
    remove_ready_file,
    write_ready_file,
)
from beanpole.server.roles import AlwaysLeads, Host, RoleSource
from beanpole.server.settings import Settings

if TYPE_CHECKING:
    from beanpole.server.supervisor import Supervisor

    MakeConsole = Callable[[Settings, socket.socket, list[socket.socket], Logger], Supervisor]

DESCRIPTORS_RESERVED = 16
"""File descriptors kept free for log segments, the console and the like when connections take all others."""

DESCRIPTORS_CONSOLE = 16
"""File descriptors kept free with ``--http``: for the console's connections, twice while it is started."""

GC_THRESHOLDS = (50_000, 20, 100)
"""The engine makes no cycles, so a collection finds nothing; a rare one is for what the libraries leave."""


class Server:
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
        reserved = DESCRIPTORS_RESERVED + (DESCRIPTORS_CONSOLE if console is not None else 0)
        self.descriptors_free = max(1, descriptors_max - open_descriptor_count() - reserved)
        self.connections_max = min(self.descriptors_free, settings.connections_max)
        self.listeners = listeners
        self.addresses = [listener.address_text(each) for each in listeners]
        if console is not None:
            self.addresses.append(console.address)
        self.logger = logger
        self.observer = Observer(logger, self.connections_max == settings.connections_max)
        self.stopping = asyncio.Event()
        self.exit_code = ExitCode.OK
        self.facts = ProcessFacts()
        self.is_ready = False

    async def run(self, open_roles: Callable[[Host], RoleSource]) -> ExitCode:
        """Serve until a signal comes, or until the role source ends that; return the exit code of the process.

        Raises:
            StartError: the log can't be opened, or a setting is missing.
        """
        loop = asyncio.get_running_loop()
        for each in self.listeners:
            each.setblocking(False)
        self.roles = open_roles(self)
        loop.set_exception_handler(self.fail)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGUSR1, self.roles.drain)
        self.roles.start()
        await self.stopping.wait()
        notify_systemd("STOPPING=1")
        if self.console is not None:
            self.console.close()
        if self.settings.ready_file is not None:
            remove_ready_file(self.settings.ready_file, self.addresses)
        await self.roles.stop()
        if self.console is not None:
            await self.console.stopped()
        self.logger.info("stopped", exit_code=int(self.exit_code))
        return self.exit_code

    def ready(self) -> None:
        """Start the console and report, the first time, that clients are answered."""
        if not self.is_ready:
            self.is_ready = True
            if self.console is not None:
                self.console.start()
            self.report_ready()

    def report_ready(self) -> None:
        """Report that clients are answered: to the ready file, the log and systemd."""
        if self.settings.ready_file is not None:
            write_ready_file(self.settings.ready_file, self.addresses)
        self.logger.info("listening", addresses=self.addresses, pid=os.getpid(), version=beanpole.__version__)
        if any(map(listener.is_on_all_addresses, self.listeners)):
            effect = "whoever reaches this machine can take and delete jobs: there is no password"
            advice = (
                "name an address of a private network, with -l 127.0.0.1 for example, or keep others out by a firewall"
            )
            self.logger.warning("listening on all addresses", effect=effect, advice=advice)
        notify_systemd("READY=1")

    def stop(self, number: signal.Signals) -> None:
        """Stop in good order."""
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


def roles_for(settings: Settings) -> Callable[[Host], RoleSource]:
    """Return what makes the role source that the settings ask for."""
    if settings.cluster is None:
        return AlwaysLeads
    from beanpole.server.cluster import ClusterNode  # noqa: PLC0415 - most servers are none

    return ClusterNode


def open_console(
    settings: Settings, http: socket.socket, listeners: list[socket.socket], logger: Logger
) -> "Supervisor":
    """Return what starts the server's console when clients are answered."""
    from beanpole.process.child import keep_to_ourselves  # noqa: PLC0415 - most servers have none
    from beanpole.server import supervisor  # noqa: PLC0415 - see above

    keep_to_ourselves()
    name = settings.node or listener.name_of(listeners[0])
    return supervisor.Supervisor(http, supervisor.command_of(settings, name), logger)


def serve(settings: Settings, make_console: "MakeConsole" = open_console) -> ExitCode:
    """Run a server until a signal stops it; return the exit code of the process.

    `make_console` is called in the loop if HTTP is to be served.

    Raises:
        StartError: it can't start.
    """
    logger = open_logger(settings.log_format)
    descriptors_max = raise_descriptor_limit()
    listeners = listener.inherited(os.environ)
    if listeners and settings.listen:
        logger.warning("listen ignored", reason="systemd handed over the sockets")
    files: dict[str, tuple[int, int]] = {}
    http = listener.bind_http(settings.http, shared_limits.HTTP_PORT_DEFAULT) if settings.http else None
    if not listeners:
        listeners = early.opened or listener.open_all(settings.listen, settings.port)
        files = listener.socket_files(listeners)
    if settings.ready_file is not None:
        remove_ready_file(settings.ready_file)
    if settings.user is not None:
        if settings.data_dir is not None:
            import beanpole.server.directory  # noqa: F401, PLC0415 - the user may not be allowed to read the program
        roles_for(settings)  # for the same reason
        become_user(settings.user)

    async def main() -> ExitCode:
        console = None if http is None else make_console(settings, http, listeners, logger)
        return await Server(settings, listeners, logger, descriptors_max, console).run(roles_for(settings))

    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    finally:
        listener.remove_socket_files(files)
