"""A router: a front in a process of its own, for a server or cluster elsewhere. ``beanpole route`` starts it.

It follows the server that leads. Clients that come while there is none wait. At a stop it takes no more clients, asks
the server to close those that need nothing, and ends when all are gone: its successor listens at the same addresses by
then.
"""

import asyncio
import contextlib
import mmap
import signal
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from beanpole.errors import ExitCode, StartError
from beanpole.front import limits
from beanpole.front.front import Front
from beanpole.front.linksocket import LinkSocket
from beanpole.front.uplink import Login, Uplink
from beanpole.server import limits as server_limits
from beanpole.server.listener import take_paths
from beanpole.server.logs import Logger
from beanpole.server.loop import ServerLoop
from beanpole.server.observer import Observer

if TYPE_CHECKING:
    from beanpole.server.entrance import Entrance

FAILURE_REPORT_NS = 60_000_000_000  # how long a line about an address that has no link keeps others like it away
Metric = tuple[str, str, str, float | Mapping[str, float]]
"""A name, its type, what it says, and its value, or values by labels."""

SLOT = struct.Struct("=qqq")  # what a front counts in the memory that fronts share: clients, frames, nanoseconds


class Service(Protocol):
    """What is served beside clients."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One router's settings, checked."""

    to: tuple[str, ...]  # where servers are, as an Uplink is told; of a map all that it names
    wait_s: float = limits.WAIT_S  # that a client waits for a server
    drain_s: float = limits.DRAIN_S  # that clients may take to finish when the router stops
    connections_max: int = server_limits.CONNECTIONS_MAX  # clients of all its processes together
    processes: int = 1
    map: Path | None = None  # of shards
    login: Login | None = None  # which is shown to servers; None: there is none with TLS
    keeps_listening: bool = False  # whether the sockets that listen are somebody else's, and go on without it


class Router:
    """One process of a router, on a loop."""

    front_class: ClassVar[type[Front]] = Front

    def __init__(
        self, settings: Settings, listeners: Sequence[socket.socket], logger: Logger, memory: mmap.mmap, number: int
    ) -> None:
        """Serve the clients of sockets that listen; `number` says which of the processes this is, from 0."""
        self.settings = settings
        self.listeners = listeners
        self.logger = logger
        self.memory = memory
        self.number = number
        share, rest = divmod(settings.connections_max, settings.processes)
        self.observer = Observer(logger, limited=True)
        self.front = self.front_class(
            self.observer,
            share + (number < rest),
            memory,
            number,
            settings.processes,
            wait_ns=int(settings.wait_s * 1e9),
        )
        self.entrance: Entrance | None = None  # where clients come in; None: at plain addresses
        self.links_opened = 0
        self.failures = 0  # of addresses, before clients were taken
        self.refusals = 0  # of these, how many know no links
        self.ready: Callable[[], None] | None = None  # None: clients are taken
        self.signals = 0  # that ask for the end
        self.ended = asyncio.Event()
        self.error: Exception | None = None  # why it has ended; None: it was asked to

    async def run(self, ready: Callable[[], None], services: Sequence[Service] = ()) -> None:
        """Carry clients until `stop`; call `ready` when a server has taken the link, or when none is to be found now.

        Raises StartError: what listens at the addresses knows no links.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ServerLoop), "turns are run by that loop alone"
        self.ready = ready
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.note_signal, number)
        loop.set_exception_handler(self.fail)
        for each in self.listeners:
            each.setblocking(False)
        for service in services:
            await service.start()
        loop.serve(self.front)
        self.start_links()
        await self.ended.wait()
        self.stop_links()
        if self.entrance is not None:
            self.entrance.close()
        self.front.close_clients()
        loop.stop_serving()
        for service in services:
            await service.stop()
        if self.error is not None:
            raise self.error

    # --- links --------------------------------------------------------------------------------------------------------

    def start_links(self) -> None:
        self.uplink = Uplink(
            self.front,
            self.settings.to,
            login=self.settings.login,
            on_open=self.note_link,
            on_failure=self.note_failure,
        )
        self.uplink.start()

    def stop_links(self) -> None:
        self.uplink.close()

    def note_link(self, address: str) -> None:
        self.links_opened += 1
        self.logger.info("link opened", link=address)
        self.begin()

    def note_failure(self, address: str, reason: str, is_refusal: bool) -> None:
        """Report that an address has no link, and begin without one when that is so of all."""
        if self.ready is not None:
            self.failures += 1
            self.refusals += is_refusal
            if self.refusals == len(self.settings.to):
                self.end(StartError(f"can't link to {' and '.join(self.settings.to)}: {reason}", ExitCode.NOT_FOUND))
                return
            if is_refusal and self.failures < len(self.settings.to):
                return  # the others may say the same; if not, it is asked again
        if self.observer.is_due(f"no link {address}", FAILURE_REPORT_NS):
            effect = f"new clients wait, for {self.settings.wait_s:g} s each"
            self.logger.warning("no link", link=address, reason=reason, effect=effect)
        if self.ready is not None and self.failures >= len(self.settings.to):
            self.begin()

    def begin(self) -> None:
        """Take clients, from the first time on."""
        if self.ready is not None:
            ready, self.ready = self.ready, None
            for each in self.listeners:
                each.listen(server_limits.BACKLOG)
                if self.entrance is None:
                    self.front.listen(each.fileno(), each.family == socket.AF_UNIX)
            if self.entrance is not None:
                self.open_entrance(self.entrance)
            try:
                take_paths(self.listeners)
                ready()
            except StartError as error:
                self.end(error)

    def open_entrance(self, entrance: "Entrance") -> None:
        """Take clients that have come in by it."""
        from beanpole.front.entering import enter  # noqa: PLC0415 - most routers have none

        loop = asyncio.get_running_loop()
        entrance.logger = self.logger
        entrance.open(self.front, self.listeners, loop, partial(enter, self.front))
        entrance.look_on(loop)

    def reread(self) -> None:
        """Read again what files say: an operator has asked for that."""
        if self.entrance is not None:
            self.entrance.reread()

    # --- its end ------------------------------------------------------------------------------------------------------

    def note_signal(self, number: int) -> None:
        """Stop; at the second signal at once."""
        self.signals += 1
        if self.signals > 1:
            self.ended.set()
        self.stop(signal.Signals(number).name)

    def stop(self, reason: str) -> None:
        """Take no more clients, and end when all have gone, or when they have had long enough."""
        if self.front.draining:
            return
        self.logger.info("stopping", reason=reason, clients=self.front.client_count)
        for _ in range(server_limits.BACKLOG // server_limits.ACCEPTS_PER_TURN):
            self.front.poll()  # who has connected is a client, and would be reset
        self.front.on_empty = self.ended.set
        self.front.drain()
        if not self.settings.keeps_listening:
            for each in self.listeners:
                with contextlib.suppress(OSError):  # one of the others was first
                    each.shutdown(socket.SHUT_RDWR)  # a close would not do: they all have it
        asyncio.get_running_loop().call_later(self.settings.drain_s, self.ended.set)

    def end(self, error: Exception) -> None:
        """Stop at once, as something is wrong."""
        self.error = self.error or error
        self.ended.set()

    def fail(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        """Stop at once when a turn failed."""
        error = context.get("exception")
        self.logger.critical("failed", reason=str(context.get("message")), exc_info=error)
        self.end(StartError("it has failed; the last line of the log says why", ExitCode.FAILED))

    # --- what it counts -----------------------------------------------------------------------------------------------

    def health(self) -> str:
        """Return what is wrong, in a sentence; empty: nothing."""
        return "" if self.uplink.address else "there is no link to a server"

    def links(self) -> Sequence[LinkSocket]:
        return [self.front.link]

    def link_metrics(self) -> Sequence[Metric]:
        return (
            ("link", "gauge", "Whether there is a link to a server.", int(self.front.link.is_open)),
            ("clients_waiting", "gauge", "Those that wait for a server.", self.front.waiting_count),
        )

    def metrics(self) -> tuple[Metric, ...]:
        """Return what Prometheus reads."""
        front, links = self.front, self.links()
        _, frames, wait_ns = SLOT.unpack_from(self.memory, self.number * server_limits.FRONT_SLOT * 8)
        return (
            *self.link_metrics(),
            ("links_total", "counter", "Links that were opened.", self.links_opened),
            ("clients", "gauge", "Clients that are connected.", front.client_count),
            ("frames_total", "counter", "Frames that were passed on.", frames),
            ("wait_seconds_total", "counter", "How long these have waited here, all together.", wait_ns / 1e9),
            (
                "received_bytes_total",
                "counter",
                "Bytes that came over links.",
                sum(each.bytes_received for each in links),
            ),
            ("sent_bytes_total", "counter", "Bytes that went over links.", sum(each.bytes_sent for each in links)),
        )
