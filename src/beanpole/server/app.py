"""The server: sockets, signals, the loop, and the order in which they start and stop.

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
from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode
from beanpole.log.log import Log
from beanpole.server import early, limits, listener
from beanpole.server.epoll import EpollTransport
from beanpole.server.logs import Logger, open_logger
from beanpole.server.process import (
    ProcessFacts,
    become_user,
    notify_systemd,
    open_descriptor_count,
    raise_descriptor_limit,
    remove_ready_file,
    write_ready_file,
)
from beanpole.server.settings import Settings
from beanpole.server.slowturn import SlowTurn, SlowTurnReporter
from beanpole.server.storage import Storage, open_memory
from beanpole.server.turn import Turn

if TYPE_CHECKING:
    from beanpole.server.supervisor import Supervisor

    MakeConsole = Callable[[Settings, socket.socket, list[socket.socket], Logger], Supervisor]

GC_THRESHOLDS = (50_000, 20, 100)
"""The engine makes no cycles, so a collection finds nothing; a rare one is for what the libraries leave."""


class Observer:
    """Reports to an operator what happens to connections, and what keeps them waiting."""

    def __init__(self, logger: Logger, limited: bool) -> None:
        self.logger = logger
        self.limited = limited
        """Whether --connections-max allows fewer connections than there are descriptors."""
        self.slow_turns = SlowTurnReporter(logger)

    def connection_opened(self, fd: int) -> None:
        """A client connected."""
        self.logger.info("connection opened", fd=fd, peer=listener.peer_text(fd))

    def connection_closed(self, fd: int) -> None:
        """A client is gone."""
        self.logger.info("connection closed", fd=fd)

    def turn_slow(self, slow: SlowTurn) -> None:
        """A turn has kept every client waiting."""
        self.slow_turns.report(slow)

    def accept_paused(self, reason: str) -> None:
        """There is no place for a new client: no descriptor, or as many connections as there may be."""
        if self.limited and reason == "EMFILE":
            self.logger.warning("accepting paused", reason="--connections-max", effect="new clients wait for a place")
            return
        self.logger.error(
            "accepting paused", reason=reason, advice="raise the limit of open files (ulimit -n, LimitNOFILE=)"
        )


class Server:
    """One server: an engine, a log, its clients and its listeners, on one loop."""

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
        reserved = limits.DESCRIPTORS_RESERVED + (limits.DESCRIPTORS_CONSOLE if console is not None else 0)
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
        self.stop_turns: Callable[[], None] = lambda: None
        self.facts = ProcessFacts()

    async def run(self) -> ExitCode:
        """Serve until a signal comes; return the exit code of the process.

        Raises:
            StartError: the log can't be opened.
        """
        loop = asyncio.get_running_loop()
        storage = self.open_log(loop)
        storage.engine.tubes_max = self.settings.tubes_max
        turn = Turn(storage.engine, storage.log, self.settings.one_reply_per_send)
        clients = EpollTransport(turn, loop, self.observer, self.connections_max)
        clients.clock_offset_ns = storage.clock_offset_ns
        clients.observe_connections = self.settings.verbose_count > 0
        self.stop_turns = turn.stop
        loop.set_exception_handler(self.fail)
        storage.start(clients.send_held, self.fail_log)
        for each in self.listeners:
            each.setblocking(False)
            each.listen(limits.BACKLOG)
            clients.listen(each.fileno(), each.family == socket.AF_UNIX)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGUSR1, self.drain, storage.engine)
        loop.add_reader(clients.fileno(), clients.run)
        if self.console is not None:
            self.console.serve_by(clients)
            self.console.start()
        self.report_ready()
        await self.stopping.wait()
        notify_systemd("STOPPING=1")
        if self.console is not None:
            self.console.close()
        if self.settings.ready_file is not None:
            remove_ready_file(self.settings.ready_file, self.addresses)
        clients.stop_accepting()
        loop.remove_reader(clients.fileno())
        if self.exit_code == ExitCode.OK:
            storage.engine.give_back()
            self.close_log(storage.log, clients)
        clients.close_all()
        storage.close()
        if self.console is not None:
            await self.console.stopped()
        self.logger.info("stopped", exit_code=int(self.exit_code))
        return self.exit_code

    def close_log(self, log: Log, clients: EpollTransport) -> None:
        """Make everything durable and send what that sets free; if that fails, send nothing."""
        try:
            log.close()
        except OSError as error:
            self.fail_log(error)
        else:
            clients.send_held()

    def open_log(self, loop: asyncio.AbstractEventLoop) -> Storage:
        """Open the log that the settings ask for, and bring its jobs back."""
        settings = self.settings
        if settings.data_dir is None:
            return open_memory(settings, self.facts)
        from beanpole.server.directory import open_directory  # noqa: PLC0415 - see there

        return open_directory(settings.data_dir, settings, self.facts, self.logger, loop)

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

    def drain(self, engine: Engine) -> None:
        """Take no more jobs; those that are there can still be worked off."""
        engine.draining = True
        self.logger.info("draining", reason="SIGUSR1", effect="put is answered with DRAINING until the next start")

    def fail_log(self, error: OSError) -> None:
        """Stop at once, without a reply more: what is on disk is all that can be promised."""
        if self.exit_code != ExitCode.OK:
            return
        self.exit_code = ExitCode.FAILED
        self.stop_turns()
        self.stopping.set()
        self.logger.critical("log failed", reason=str(error), directory=str(self.settings.data_dir))

    def fail(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """Stop at once when a turn failed: what the engine holds can't be trusted any more."""
        error = context.get("exception")
        if self.exit_code != ExitCode.OK:
            return
        self.exit_code = ExitCode.FAILED
        self.stop_turns()
        self.stopping.set()
        self.logger.critical("failed", reason=str(context.get("message")), exc_info=error)


def server_class(settings: Settings) -> type[Server]:
    """Return which server the settings ask for."""
    if settings.cluster is None:
        return Server
    from beanpole.server.cluster import ClusterServer  # noqa: PLC0415 - most servers are none

    return ClusterServer


def open_console(
    settings: Settings, http: socket.socket, listeners: list[socket.socket], logger: Logger
) -> "Supervisor":
    """Return what starts the server's console when clients are answered."""
    from beanpole.server import supervisor  # noqa: PLC0415 - most servers have none

    supervisor.keep_to_ourselves()
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
        server_class(settings)  # for the same reason
        become_user(settings.user)

    async def main() -> ExitCode:
        console = None if http is None else make_console(settings, http, listeners, logger)
        return await server_class(settings)(settings, listeners, logger, descriptors_max, console).run()

    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    finally:
        listener.remove_socket_files(files)
