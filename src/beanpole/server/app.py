"""The server: sockets, signals, the loop, and the order in which they start and stop.

Start: bind, become the user, listen, tell that we are ready. Stop (SIGTERM, SIGINT): stop accepting, finish the turn,
make it durable, send what that sets free, close.
"""

import asyncio
import contextlib
import gc
import os
import pwd
import resource
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import uvloop

import beanpole
from beanpole.engine.engine import Engine
from beanpole.errors import ExitCode, StartError
from beanpole.log.log import Log
from beanpole.server import limits, listener
from beanpole.server.epoll import EpollTransport
from beanpole.server.keeping import Kept, keep_in, keep_nothing
from beanpole.server.logs import Logger, open_logger
from beanpole.server.settings import Settings
from beanpole.server.turn import Turn

GC_THRESHOLDS = (50_000, 20, 100)
"""The engine makes no cycles, so a collection finds nothing; a rare one is for what the libraries leave."""


class ProcessFacts:
    """The part of ``stats`` that only the process knows."""

    def __init__(self) -> None:
        system = os.uname()
        self.constant = {
            "pid": str(os.getpid()),
            "id": secrets.token_hex(8),
            "hostname": system.nodename,
            "os": system.version,
            "platform": system.machine,
            "beanpole-version": beanpole.__version__,
        }

    def __call__(self) -> Mapping[str, str]:
        """Return the values by key of ``stats``."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "rusage-utime": f"{usage.ru_utime:.6f}",
            "rusage-stime": f"{usage.ru_stime:.6f}",
            **self.constant,
        }


class Observer:
    """Reports to an operator what happens to connections."""

    def __init__(self, logger: Logger) -> None:
        self.logger = logger

    def connection_opened(self, fd: int) -> None:
        """A client connected."""
        self.logger.info("connection opened", fd=fd, peer=peer_text(fd))

    def connection_closed(self, fd: int) -> None:
        """A client is gone."""
        self.logger.info("connection closed", fd=fd)

    def accept_paused(self, reason: str) -> None:
        """No descriptor is left for a new client."""
        self.logger.error(
            "accepting paused", reason=reason, advice="raise the limit of open files (ulimit -n, LimitNOFILE=)"
        )


def peer_text(fd: int) -> str:
    """Return the address of the other end of a socket, as far as there still is one."""
    peer = socket.socket(fileno=fd)
    try:
        name = peer.getpeername()
    except OSError:
        return "gone"
    finally:
        peer.detach()
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "unix"


def become_user(name: str) -> None:
    """Give up root's rights for a user's.

    Raises:
        StartError: there is no such user, or we may not become it.
    """
    try:
        user = pwd.getpwnam(name)
        if os.geteuid() != user.pw_uid:
            os.initgroups(name, user.pw_gid)
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
    except KeyError as error:
        raise StartError(f"unknown user: {name}", ExitCode.UNKNOWN_USER) from error
    except PermissionError as error:
        raise StartError(f"cannot become user {name}: only root can", ExitCode.UNKNOWN_USER) from error


def raise_descriptor_limit() -> int:
    """Allow as many open files as the system lets us; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def open_descriptor_count() -> int:
    """Return how many descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def notify_systemd(state: str) -> None:
    """Tell systemd a state (sd_notify(3)); nothing happens when it did not start us."""
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
            notifier.connect("\0" + path[1:] if path.startswith("@") else path)
            notifier.send(state.encode())


def write_ready_file(path: Path, addresses: list[str]) -> None:
    """Write the addresses, a line each, in one step: who sees the file sees all of it.

    Raises:
        StartError: it can't be written.
    """
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.write_text("".join(f"{address}\n" for address in addresses))
        unfinished.replace(path)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}", ExitCode.FAILED) from error


def remove_ready_file(path: Path, addresses: list[str] | None = None) -> None:
    """Remove the file, so that nobody takes it for that of a running server; with addresses, only if it has them.

    Another server may have written it meanwhile. That it can't be removed is no reason to fail.
    """
    with contextlib.suppress(OSError):
        if addresses is None or path.read_text() == "".join(f"{address}\n" for address in addresses):
            path.unlink()


class Server:
    """One server: an engine, a log, its clients and its listeners, on one loop."""

    def __init__(
        self, settings: Settings, listeners: list[socket.socket], logger: Logger, descriptors_max: int
    ) -> None:
        self.settings = settings
        self.connections_max = max(1, descriptors_max - open_descriptor_count() - limits.DESCRIPTORS_RESERVED)
        self.listeners = listeners
        self.addresses = [listener.address_text(each) for each in listeners]
        self.logger = logger
        self.observer = Observer(logger)
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
        kept = self.open_log(loop)
        turn = Turn(kept.engine, kept.log, self.settings.one_reply_per_send)
        clients = EpollTransport(turn, loop, self.observer, self.connections_max)
        clients.clock_offset_ns = kept.clock_offset_ns
        clients.observe_connections = self.settings.verbose_count > 0
        self.stop_turns = turn.stop
        loop.set_exception_handler(self.fail)
        kept.start(clients.send_held, self.fail_log)
        for each in self.listeners:
            each.setblocking(False)
            each.listen(limits.BACKLOG)
            clients.listen(each.fileno(), each.family == socket.AF_UNIX)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop, number)
        loop.add_signal_handler(signal.SIGUSR1, self.drain, kept.engine)
        loop.add_reader(clients.fileno(), clients.run)
        self.tell_ready()
        await self.stopping.wait()
        notify_systemd("STOPPING=1")
        if self.settings.ready_file is not None:
            remove_ready_file(self.settings.ready_file, self.addresses)
        clients.stop_accepting()
        loop.remove_reader(clients.fileno())
        if self.exit_code == ExitCode.OK:
            self.close_log(kept.log, clients)
        clients.close_all()
        kept.close()
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

    def open_log(self, loop: asyncio.AbstractEventLoop) -> Kept:
        """Open the log that the settings ask for, and bring its jobs back."""
        settings = self.settings
        if settings.data_dir is None:
            return keep_nothing(settings.body_bytes_max, self.facts)
        return keep_in(settings.data_dir, settings, self.facts, self.logger, loop)

    def tell_ready(self) -> None:
        """Tell everybody who asked that clients are answered from now on."""
        if self.settings.ready_file is not None:
            write_ready_file(self.settings.ready_file, self.addresses)
        self.logger.info("listening", addresses=self.addresses, pid=os.getpid(), version=beanpole.__version__)
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


def serve(settings: Settings) -> ExitCode:
    """Run a server until a signal stops it; return the exit code of the process.

    Raises:
        StartError: it can't start.
    """
    logger = open_logger(settings.log_format)
    descriptors_max = raise_descriptor_limit()
    listeners = listener.inherited(os.environ)
    if listeners and settings.listen:
        logger.warning("listen ignored", reason="systemd handed over the sockets")
    listeners = listeners or listener.open_all(settings.listen, settings.port)
    if settings.ready_file is not None:
        remove_ready_file(settings.ready_file)
    if settings.user is not None:
        become_user(settings.user)

    async def main() -> ExitCode:
        return await Server(settings, listeners, logger, descriptors_max).run()

    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())
