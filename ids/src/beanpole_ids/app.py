"""The process: configuration, store, socket, signals, and the order in which they start and stop.

Start: read the rules, take the node, bind, report readiness; a database that is away is waited for. Stop (SIGTERM,
SIGINT, SIGUSR2): accept no connection and let no request wait, answer those that wait, give the unused ranges back,
close. SIGHUP and SIGUSR1 reload the rules, all or none, and accept the clock.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from beanpole_ids import limits
from beanpole_ids.audit import Audit
from beanpole_ids.config import load
from beanpole_ids.datagrams import Datagrams
from beanpole_ids.errors import (
    ClockAheadError,
    DatabaseAwayError,
    DatabaseLostError,
    ExitCode,
    LeaseLostError,
    RuleError,
    StartError,
    StorageError,
)
from beanpole_ids.rules.config import NO_RULES, Config, Http
from beanpole_ids.rules.lua import PROCESS
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Clock
from beanpole_ids.service import Service
from beanpole_ids.storage.store import Store
from beanpole_ids.storage.threaded import Measured, ThreadedStore

STORE_START_RETRY_S = 2  # between two attempts of a start whose database is away
DESCRIPTORS = 4_096  # open files: connections over HTTP, those that wait to be let in, and some more
SWITCH_US = 200  # after which the thread of the store yields to the one that answers requests
FAILURE_LOG_S = 60  # after the message that a request has failed in which further failures are only counted

if TYPE_CHECKING:
    from beanpole_ids.http.serving import Web


M_ARENA_MAX = -8
"""How many threads may have memory of their own: a parameter of glibc, from malloc.h."""


def since_boot_s() -> float:
    """Return the seconds of a clock that nobody sets. Where the system has such a one, it counts sleep too."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True)
class Clocks:
    """The clocks of the machine, whose readings `Clock` compares."""

    wall_s: Callable[[], float] = time.time
    """The one that numbers show, in Unix seconds."""

    steady_s: Callable[[], float] = since_boot_s
    """The one by which the other is checked, in seconds since any moment."""


class App:
    """One ID service."""

    def __init__(
        self,
        path: Path,
        config: Config,
        logger: Any,  # noqa: ANN401 - structlog's
        ready: Callable[[list[str]], None],
        clocks: Clocks = Clocks(),
    ) -> None:
        self.path = path
        self.config = config
        self.logger = logger
        self.ready = ready
        self.clocks = clocks
        self.web: Web | None = None
        self.stopping = asyncio.Event()
        self.exit_code = ExitCode.OK
        self.reloading = asyncio.Lock()
        self.reloads: set[asyncio.Task[None]] = set()
        """Reloads that are under way."""

        self._silent_until_s = 0.0
        """Until when failed requests are counted and not logged."""

    async def run(self) -> ExitCode:
        """Serve until a signal comes.

        Raises StartError: the store or the socket can't be opened.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            loop.add_signal_handler(number, self.stopping.set)
        store = ThreadedStore(
            Store(self.config.database, None if self.config.is_leased else self.config.offset, self.config.step)
        )
        if not await self.open_store(store):
            await store.close()
            return ExitCode.OK
        config = self.config
        wall_s, steady_s = self.clocks.wall_s, self.clocks.steady_s
        self.clock = Clock(wall_s(), steady_s(), config.ahead_s_max)
        measured = Measured(store, time.monotonic)
        self.service = Service(
            config, measured, lambda: self.clock.read(wall_s(), steady_s()), loop.time, self.log_failure
        )
        audit = self.open_audit(store.store.epoch)
        try:
            datagrams = Datagrams(self.service)
            port, is_shared = config.port or config.shared_port, config.processes > 1
            addresses = [udp_address(*datagrams.open(config.host, port, is_shared=is_shared)[:2])]
            if config.http:
                addresses += self.open_web(config.http, measured, store.store.epoch, datagrams)
        except OSError as error:
            await store.close()
            raise StartError(f"cannot listen: {error.strerror or error}", ExitCode.CANNOT_LISTEN) from error
        self.service.begin_lua()
        keeper = asyncio.create_task(self.service.counters.run())
        beat = asyncio.create_task(store.beat())
        for task in (keeper, beat):
            task.add_done_callback(self.ended)
        for number in (signal.SIGHUP, signal.SIGUSR1):
            loop.add_signal_handler(number, self.begin_reload)
        gc.freeze()  # rules stay; a collection need not look at them
        give_memory_back()
        self.ready(addresses)
        self.logger.info("listening", addresses=addresses, pid=os.getpid(), node=config.offset, epoch=store.store.epoch)
        await self.stopping.wait()
        await self.stop(keeper, beat)
        self.service.texts.close()
        if self.web:
            await self.web.finish()
        datagrams.close()
        await store.close()
        if audit:
            audit.close()
        self.logger.info(
            "stopped", exit_code=int(self.exit_code), **self.service.counts.by_name(), dropped=self.service.dropped
        )
        return self.exit_code

    async def open_store(self, store: ThreadedStore) -> bool:
        """Open the store, and wait for a database that is away; return whether it is open, and no signal came before.

        Raises StartError: it can't be opened, or the database stays away.
        """
        until_s = time.monotonic() + limits.STORE_START_WAIT_S
        while not self.stopping.is_set():
            try:
                await store.open()
            except DatabaseAwayError as error:
                left_s = int(until_s - time.monotonic())
                if left_s <= 0:
                    raise
                self.logger.warning("waiting for the database", reason=str(error), seconds_left=left_s)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.stopping.wait(), STORE_START_RETRY_S)
            else:
                await self.take_number(store)
                return True
        self.logger.info("stopped before the database was there")
        return False

    async def take_number(self, store: ThreadedStore) -> None:
        """Take over the number of the node, if it is leased.

        Raises StartError: the rules can't be made for it.
        """
        if self.config.is_leased:
            try:
                self.config = leased(self.path, self.config, store.store.node)
            except StartError:
                await store.close()
                raise

    def open_audit(self, epoch: int) -> Audit | None:
        """Begin the audit log, if it is configured."""
        config = self.config
        if not config.audit_log:
            return None
        audit = Audit(config.audit_log, config.offset, epoch, self.logger, self.clocks.wall_s)
        self.service.counters.audit = audit.write
        return audit

    def open_web(self, http: Http, store: Measured, epoch: int, datagrams: Datagrams) -> list[str]:
        """Serve HTTP; return its addresses.

        Raises OSError: it can't be listened on the address; StartError: a package is missing.
        """
        try:
            from beanpole_ids.http.serving import make_web  # noqa: PLC0415 - needed only for HTTP
        except ImportError as error:
            raise StartError(f"{error.name} is not installed: pip install beanpole-ids", ExitCode.FAILED) from error
        unsent_count = lambda: datagrams.failed_count  # noqa: E731
        self.web = make_web(http, self.service, store, self.clock, epoch, unsent_count, self.reload)
        self.web.on_failure = self.fail
        return self.web.open(http.host, http.port)

    def fail(self) -> None:
        """Stop, as HTTP has ended by itself."""
        self.exit_code = ExitCode.FAILED
        self.stopping.set()

    def ended(self, task: "asyncio.Task[None]") -> None:
        """Stop, as a task has ended that only a stop or an error ends."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, DatabaseLostError):
            self.service.counters.abandon(error)
        self.stopping.set()

    async def stop(self, keeper: "asyncio.Task[None]", beat: "asyncio.Task[None]") -> None:
        """Accept nothing more over HTTP, answer the requests that wait, and give back unused ranges."""
        if self.web:
            self.web.begin_stop()
        self.service.counters.begin_stop()
        beat.cancel()
        try:
            await keeper
            with contextlib.suppress(asyncio.CancelledError):
                await beat
            self.logger.info("ranges given back", counters=await self.service.counters.stop())
        except DatabaseLostError as error:
            self.exit_code = ExitCode.DATABASE_LOST
            self.logger.critical("database lost", reason=str(error))
        except LeaseLostError as error:
            self.exit_code = ExitCode.NODE_TAKEN
            self.logger.critical("node lost", reason=str(error))
        except StorageError as error:
            self.logger.warning("ranges not given back", reason=str(error), effect="a gap")
        except Exception:
            self.exit_code = ExitCode.FAILED
            self.logger.critical("failed", exc_info=True)

    def log_failure(self, error: Exception) -> None:
        """Log a request that failed by an error of ours, once in a while: a client may send it again and again."""
        if (now_s := time.monotonic()) >= self._silent_until_s:
            self._silent_until_s = now_s + FAILURE_LOG_S
            self.logger.error("request failed", requests=self.service.counts.failed, exc_info=error)

    def begin_reload(self) -> None:
        """Begin a reload; the log says what comes of it."""

        async def run() -> None:
            with contextlib.suppress(RuleError):
                await self.reload()

        task = asyncio.create_task(run())
        self.reloads.add(task)
        task.add_done_callback(self.reloads.discard)

    async def reload(self) -> dict[str, list[str]]:
        """Read the rules again, and accept the clock; return what has changed, as `differences` does.

        They are read in a thread, and clients are served.

        Raises RuleError: the rules are refused. Nothing changes then.
        """
        async with self.reloading:
            old = self.service.config
            # A full collection while a hundred thousand objects are made would hold up clients for 0.2 s.
            gc.disable()
            try:
                config = await asyncio.to_thread(
                    load_all, self.path, old.offset, old.offset % old.processes, self.service.config.rules
                )
                changes = await asyncio.to_thread(differences, old, config)
                await self.service.reload(config)
                gc.freeze()
            except RuleError as error:
                self.logger.warning("reload refused", reason=str(error), effect="the old rules stay, and the old clock")
                raise
            finally:
                gc.enable()
            counts = {name: len(each) for name, each in changes.items()}
            self.logger.info("reloaded", rules=len(config.rules), **counts | {"settings": changes["settings"]})
            self.accept_clock(config)
            unused = list(old.rules.values())
            del old
            while unused:  # to free them all at once would take long
                del unused[-limits.RELOAD_TURN :]
                await asyncio.sleep(0)
            give_memory_back()
        return changes

    def accept_clock(self, config: Config) -> None:
        """Accept the clock, because an operator says that it is right."""
        self.clock.ahead_s_max = config.ahead_s_max
        now_s, steady_s = self.clocks.wall_s(), self.clocks.steady_s()
        try:
            self.clock.read(now_s, steady_s)
        except ClockAheadError as error:
            self.clock.accept(now_s, steady_s)
            self.logger.warning("clock accepted", ahead_s=error.ahead_s)


SETTINGS = {
    "limit": attrgetter("limits"),
    "trusted_networks": attrgetter("trusted_networks"),
    "new_names_per_s": attrgetter("new_names_per_s"),
    "clock_ahead_s_max": attrgetter("ahead_s_max"),
}
"""What a reload takes over besides rules, by its name in the configuration."""


def differences(before: Config, after: Config) -> dict[str, list[str]]:
    """Return the names of rules that were added, changed and removed, and of settings that have changed."""
    old, new = before.rules, after.rules
    return {
        "added": sorted(new.keys() - old.keys()),
        "changed": sorted(name for name in old.keys() & new.keys() if old[name] is not new[name]),
        "removed": sorted(old.keys() - new.keys()),
        "settings": [name for name, value in SETTINGS.items() if value(before) != value(after)],
    }


def load_all(path: Path, leased: int = 0, process: int = 0, known: Mapping[str, Rule] = NO_RULES) -> Config:
    """Read a configuration, as `load` does, and end the process that has tried the rules in Lua."""
    try:
        return load(path, leased, process, known)
    finally:
        PROCESS.close()


def leased(path: Path, config: Config, node: int) -> Config:
    """Return a configuration with the rules of a node whose number is known only now.

    Raises StartError: they can't be made, or the file has changed since it was read first.
    """
    try:
        found = load_all(path, node)
    except RuleError as error:
        raise StartError(str(error), ExitCode.USAGE) from error
    if (found.database, found.step, found.is_leased) != (config.database, config.step, True):
        raise StartError(f"{path} has changed while it was read; start again", ExitCode.USAGE)
    return found


def give_memory_back() -> None:
    """Return to the system what a start or a reload has freed, 4 MB. Let threads share the rest: glibc does neither."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.mallopt(M_ARENA_MAX, 1)  # else the thread of the store has memory of its own
        libc.malloc_trim(0)


def raise_descriptor_limit() -> None:
    """Allow as many open files as connections may need, if the system lets us; else some will have to wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def udp_address(host: str, port: int) -> str:
    return f"udp:[{host}]:{port}" if ":" in host else f"udp:{host}:{port}"


def read(path: Path, process: int = 0) -> Config:
    """Read a configuration, for which of its processes.

    Raises StartError: it is refused.
    """
    try:
        return load_all(path, process=process)
    except RuleError as error:
        raise StartError(str(error), ExitCode.USAGE) from error


def check_unused(config: Config) -> None:
    """Check that nobody uses the UDP port that several processes are going to share, for they would share it with them.

    Raises StartError: somebody does.
    """
    if config.port:
        try:
            family, kind, _, _, address = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind) as probe:
                probe.bind(address)
        except OSError as error:
            raise StartError(f"cannot listen: {error.strerror or error}", ExitCode.CANNOT_LISTEN) from error


def adopt(configs: Iterable[Config]) -> None:
    """Take databases for those that count, though they are copies or backups: an operator says that they may be.

    Raises StartError: one can't be opened.
    """
    for config in configs:
        store = Store(config.database, None if config.is_leased else config.offset, config.step)
        store.is_adopting = True
        store.open()
        store.close()


def serve(
    path: Path,
    logger: Any,  # noqa: ANN401 - structlog's
    ready: Callable[[list[str]], None],
    clocks: Clocks = Clocks(),
    config: Config | None = None,
) -> ExitCode:
    """Run an ID service until a signal stops it.

    `config`: what `read` has returned, if the caller has called it.

    Raises StartError: it can't start.
    """
    found = config or read(path)
    raise_descriptor_limit()

    async def main() -> ExitCode:
        return await App(path, found, logger, ready, clocks).run()

    # A reservation computes for a millisecond in the thread of the store. With Python's default of 5 ms requests would
    # wait for its end.
    sys.setswitchinterval(SWITCH_US / 1e6)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())
