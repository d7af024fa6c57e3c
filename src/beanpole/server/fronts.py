"""The fronts of a server: processes that accept its clients, each with a link over which it passes them on.

They are started when the server would accept clients itself, and started again when they end, whatever the reason: the
clients of one that ends have lost their connections, and its listening sockets are those of the others. When the
server's end of its link is closed, a front ends; so whatever happens to the server, none is left over.

Fronts know of each other by a page of memory, in which each has a line: how many clients it has, and what its frames
have waited. A front that has more clients than the others leaves new ones to them.
"""

import mmap
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from beanpole.process.child import spawn
from beanpole.process.keeper import Keeper, Pace
from beanpole.server import limits
from beanpole.server.epoll import EpollTransport
from beanpole.server.link import Link
from beanpole.server.logs import Logger
from beanpole.server.settings import Settings

if TYPE_CHECKING:
    from beanpole.server.entrance import Entrance

PACE = Pace(pause_s=0.1, pause_max_s=5.0, ends_max=2**31)
"""How soon a front is started again; it is never given up, for nobody else takes its part of the clients."""

SLOT = limits.FRONT_SLOT


class Fronts:
    """All fronts of a server, from the moment at which it serves to its end."""

    def __init__(
        self, settings: Settings, listeners: list[socket.socket], logger: Logger, entrance: "Entrance | None" = None
    ) -> None:
        """`entrance` is where clients come in; None: at plain addresses. Raises StartError: its files can't be read."""
        self.listeners = listeners
        self.logger = logger
        self.has_tls = entrance is not None and bool(entrance.contexts)
        if entrance is not None:
            entrance.check_files()
            entrance.on_reread = self.note_reread
        count = min(settings.fronts, settings.connections_max)
        fd = os.memfd_create("beanpole-fronts")
        os.truncate(fd, limits.FRONT_MEMORY_BYTES)
        self.memory_fd = fd
        self.numbers = memoryview(mmap.mmap(fd, limits.FRONT_MEMORY_BYTES)).cast("q")
        self.clients: EpollTransport | None = None  # who serves the server's ends of the links
        places = () if entrance is None else settings.listen
        commands = [command_of(settings, number, count, len(listeners), places) for number in range(count)]
        self.all = [Front(self, number, command) for number, command in enumerate(commands)]
        self.waited_for = set(range(count))  # those that have never been there

    def start(self, clients: EpollTransport, ready: Callable[[], None], fail: Callable[..., None]) -> None:
        """Start them; call `ready` when all accept clients, and `fail` if one can't be started to begin with."""
        self.clients, self.ready, self.fail = clients, ready, fail
        for each in self.all:
            each.start()

    def opened(self, number: int) -> None:
        """Note that one accepts clients."""
        if number in self.waited_for:
            self.waited_for.remove(number)
            if not self.waited_for:
                self.ready()

    def ended(self, number: int, reason: str) -> None:
        """Note that one has ended: if that is how it began, so would the others, and that is said once."""
        if number in self.waited_for:
            self.close()
            self.fail("front can't start", reason=reason)

    def note_reread(self) -> None:
        """Let all read the certificates again, within a second."""
        self.numbers[limits.FRONT_REREADS] += 1

    def close(self) -> None:
        for each in self.all:
            each.close()

    async def stopped(self) -> None:
        """Return when all have ended."""
        for each in self.all:
            await each.stopped()

    def facts(self) -> Mapping[str, str]:
        """Return what `stats` shows of them and their links."""
        assert self.clients is not None
        slots = [self.numbers[SLOT * each : SLOT * each + SLOT] for each in range(len(self.all))]
        return {
            **(self.handshakes() if self.has_tls else {}),
            **self.clients.link_facts(),
            "front-frames": str(sum(each[1] for each in slots)),
            "front-wait": f"{sum(each[2] for each in slots) / 1e9:.6f}",
        }

    def handshakes(self) -> Mapping[str, str]:
        """Return how many handshakes have ended how."""
        from beanpole.server.handshakes import OUTCOMES  # noqa: PLC0415 - without TLS nothing of it is needed

        step = len(OUTCOMES)
        first = range(limits.FRONT_HANDSHAKES, limits.FRONT_HANDSHAKES + len(self.all) * step, step)
        return {
            f"handshakes-{outcome}": str(sum(self.numbers[at + number] for at in first))
            for number, outcome in enumerate(OUTCOMES)
        }


class Front(Keeper):
    """Keeps one front running. Its lifeline is its link."""

    def __init__(self, fronts: Fronts, number: int, command: list[str]) -> None:
        super().__init__(f"front {number + 1}", fronts.logger.log, PACE)
        self.fronts = fronts
        self.number = number
        self.command = command
        self.link: Link | None = None
        self.clear()

    def clear(self) -> None:
        self.fronts.numbers[SLOT * self.number] = -1

    def spawn(self) -> int:
        """Start a front with its end of a link."""
        clients = self.fronts.clients
        assert clients is not None
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            entry = None if clients.guard is None else clients.guard.front(self.name)
            self.link = Link(clients, ours.detach(), self.name, self.opened, self.link_ended, entry=entry)
            listeners = [each.fileno() for each in self.fronts.listeners]
            return spawn(self.command, [theirs.fileno(), self.fronts.memory_fd, *listeners])

    def release(self) -> None:
        """Close the link."""
        if self.link is not None:
            self.link.close()
            self.link = None
        self.clear()

    def give_up(self, reason: str, effect: str, error: Exception | None = None) -> None:
        super().give_up(reason, effect, error)
        self.fronts.ended(self.number, reason)

    def opened(self) -> None:
        self.fronts.opened(self.number)

    def link_ended(self) -> None:
        """End the front: it may hang, and has no clients any more."""
        self.has_lost_link = True
        self.change()

    async def live(self) -> str:
        """Start a front and return how it ended, when it has ended."""
        self.has_lost_link = False
        reason = await super().live()
        if self.has_lost_link and not self.is_stopping:
            self.changed = (
                self.loop.create_future()
            )  # an end like any other, after which it is started again in a while
        if not self.is_stopping:
            self.fronts.ended(self.number, reason)
        return reason


def command_of(
    settings: Settings, number: int, count: int, listener_count: int, places: Sequence[str] = ()
) -> list[str]:
    """Return how a front is started; those that may have a connection more come first."""
    share = settings.connections_max // count + (number < settings.connections_max % count)
    return [
        *(sys.executable, "-P", "-m", "beanpole.front"),  # see beanpole.server.supervisor
        *(f"--number={number + 1}", f"--of={count}", f"--listeners={listener_count}"),
        *(f"--connections-max={share}", f"--log-format={settings.log_format}"),
        f"--one-reply-per-send={settings.one_reply_per_send}",
        *(f"--tls-cert={settings.tls_cert}", f"--tls-key={settings.tls_key}", f"--users={bool(settings.access)}"),
        *(f"--listen={each}" for each in places),
    ]
