"""A front's way to its server: finds the one that takes the link, and begins again when that ends.

Each address is asked in turn, beginning with the one that took the last link. A server that does not lead says who
does, and is believed once. To ``beanstalks://HOST:PORT`` a link has TLS, and the name of the server is verified. A
token is sent there or to a Unix socket, and nowhere else.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from beanpole import limits as shared_limits
from beanpole.address import TLS_SCHEME, tls_reason_of
from beanpole.errors import WHO_IS_UNKNOWN
from beanpole.front.limits import LINK_OPEN_S, LINK_RETRY_S, LINK_RETRY_S_MAX
from beanpole.protocol.limits import LINK_LINE_BYTES_MAX, LINK_UNSENT_MS
from beanpole.protocol.link import FrameReader, first_line, read_leader_line, read_link_line
from beanpole.server.listener import UNIX, split_address

if TYPE_CHECKING:
    import ssl

    from beanpole.server.tlsfilter import Filter


class LinkRefusedError(ConnectionError):
    """What listens there knows no links, or none of this version."""


class Linked(Protocol):
    """What is linked: a front, or what carries channels to a shard."""

    observer: Any
    on_link_end: Callable[[str, int], None] | None

    def attach(self, link_fd: int, reader: FrameReader, asks: bool, tls: "Filter | None" = None) -> None: ...
    def close_link(self) -> None: ...


class Login(Protocol):
    """What is shown to a server, and who is believed: a :class:`beanpole.client.login.Login`."""

    def auth(self) -> bytes:
        """Return the line with the token; empty: there is none. Raises ValueError."""

    def context(self) -> "ssl.SSLContext":
        """Return what TLS is set to. Raises ValueError."""


class Wire:
    """A connection to a server, without TLS, until the first lines of a link are through."""

    tls: "Filter | None" = None
    """What goes on to encrypt the connection; None: it is not encrypted."""

    def __init__(self, loop: asyncio.AbstractEventLoop, link: socket.socket) -> None:
        self.loop = loop
        self.link = link

    async def send(self, data: bytes) -> None:
        await self.loop.sock_sendall(self.link, data)

    async def receive(self) -> bytes:
        """Return what has come; empty: that was all."""
        return await self.loop.sock_recv(self.link, LINK_LINE_BYTES_MAX)


def tls_sentence_of(error: Exception) -> str:
    """Say what went wrong with TLS; empty: it was something else."""
    by_ssl = type(error).__module__ == "ssl"  # by its name: it may not be loaded
    return tls_reason_of(error) if by_ssl and isinstance(error, OSError) else ""


def nothing(*_: object) -> None:
    """Do nothing."""


class Uplink:
    """Keeps a front linked, from `start` to `close`."""

    def __init__(  # noqa: PLR0913 - where to, and who is told
        self,
        front: Linked,
        addresses: Sequence[str],
        cluster: str = "-",
        epoch: int = 0,
        *,
        map_epoch: int = 0,
        shard: int | None = None,
        login: Login | None = None,
        on_open: Callable[[str], object] = nothing,
        on_failure: Callable[[str, str, bool], object] = nothing,
    ) -> None:
        """Ask at these addresses: ``HOST:PORT``, ``[IPv6]:PORT``, ``unix:PATH``, or ``beanstalks://HOST:PORT``.

        `cluster`, `epoch` and `map_epoch` are what the first line says (docs/link.md). A server that is another shard
        than `shard` is none to be linked to. For TLS there must be a `login`. `on_open` is called with an address when
        its server has taken the link, `on_failure` when it has not, or the link has ended: with the address, a reason,
        and whether it is a server that knows no links.
        """
        self.front = front
        self.addresses = list(addresses)  # the one that is asked next comes first
        self.first_line = first_line(cluster, epoch, map_epoch)
        self.shard = shard
        self.login = login
        self.body_bytes_max = 0  # of the server that took the last link; 0: none has
        self.on_open = on_open
        self.on_failure = on_failure
        self.address = ""  # of the server that has taken the link; empty: there is none
        # Whether the server asked last is there, though it takes no link for now: it took the connection, and is silent
        # for want of a place, or has taken a link before.
        self.is_there = False
        self.has_opened = False
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self.loop.create_future()
        self.running: asyncio.Task[None] | None = None
        front.on_link_end = self.note_end

    def start(self) -> None:
        """Begin to look for a server."""
        self.running = self.loop.create_task(self.run())
        self.running.add_done_callback(self.note_defect)

    def go_to(self, addresses: Sequence[str], map_epoch: int) -> None:
        """Ask elsewhere, and by another map, from the next time on."""
        if {*addresses} != {*self.addresses}:
            self.addresses = list(addresses)
        self.first_line = first_line(map_epoch=map_epoch)

    def close(self) -> None:
        """End the link, and look for no other."""
        if self.running is not None:
            self.running.cancel()
        self.address = ""
        self.front.close_link()

    async def run(self) -> None:
        """Keep a link until this is closed. Servers that end links at once are asked less and less often."""
        pause_s = LINK_RETRY_S
        while True:
            began_s = self.loop.time()
            if await self.carry() and self.loop.time() - began_s >= LINK_RETRY_S_MAX:
                pause_s = LINK_RETRY_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LINK_RETRY_S_MAX)

    async def carry(self) -> bool:
        """Ask each address once; return when the link has ended that one took. False: none did."""
        for _ in range(len(self.addresses)):
            address = self.addresses[0]
            try:
                async with asyncio.timeout(LINK_OPEN_S):
                    self.address, wire, reader = await self.ask(address)
                self.ended = self.loop.create_future()
                self.front.attach(wire.link.detach(), reader, asks=True, tls=wire.tls)
            except (OSError, ValueError) as error:
                self.address = ""
                reason = tls_sentence_of(error) or str(error) or f"no answer within {LINK_OPEN_S:g} s"
                self.on_failure(address, reason, isinstance(error, LinkRefusedError))
                self.addresses.append(self.addresses.pop(0))
                continue
            self.has_opened = True
            self.on_open(self.address)
            reason = await self.ended
            address, self.address = self.address, ""
            self.on_failure(address, reason, False)
            return True
        return False

    def note_defect(self, task: asyncio.Task[None]) -> None:
        """Report to the loop what should not have happened."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.call_exception_handler({"message": "Exception in an uplink", "exception": error})

    def note_end(self, reason: str, channels: int) -> None:
        """Take note that the link has ended by itself."""
        self.front.observer.link_closed(self.address, reason, channels, None)
        self.ended.set_result(reason)

    async def ask(self, address: str, *, follows: bool = True) -> tuple[str, Wire, FrameReader]:
        """Connect and exchange the first lines; return the address that took the link, the link, and its reader.

        Raises OSError and ValueError: there is no link to be had there. Raises LinkRefusedError: nor will there be.
        """
        reader = FrameReader(of_front=False)
        self.is_there = False
        has_tls = address.startswith(TLS_SCHEME)
        auth = self.login.auth() if self.login and (has_tls or address.startswith(UNIX)) else b""
        with contextlib.ExitStack() as opened:
            wire = await self.connect(address, opened)
            self.is_there = True
            await wire.send(auth + self.first_line)
            line = await self.line_of(wire, reader)
            if auth and line.startswith(b"AUTHENTICATED "):
                line = await self.line_of(wire, reader)
            elif auth and line == b"UNKNOWN_COMMAND\r\n":
                raise ConnectionError("the server has no users, or takes no token here: connect without one")
            if (said := read_link_line(line)) is not None:
                number, self.body_bytes_max = said
                if self.shard is not None and number != self.shard:
                    raise ConnectionError(f"it is shard {number}, and should be {self.shard}")
                opened.pop_all()
                return address, wire, reader
        leader = read_leader_line(line)
        if line == b"NOT_AUTHENTICATED\r\n":
            raise ConnectionError(WHO_IS_UNKNOWN)
        if leader is None:
            raise LinkRefusedError(
                "it takes no links: it is too old, no beanpole, a router, or accepts clients by --fronts"
            )
        if not follows:
            raise ConnectionError(f"it does not lead, although another says so; it says that {leader} does")
        if has_tls and not leader.startswith(TLS_SCHEME):
            raise ConnectionError(f"it says that {leader} leads, but a link there is without TLS")
        return await self.ask(leader, follows=False)

    async def line_of(self, wire: Wire, reader: FrameReader) -> bytes:
        """Return the next line of a server; empty: that is too long. Raises OSError: there is none."""
        while (line := reader.take_line()) is None and reader.mistake is None:
            data = await wire.receive()
            self.is_there = self.has_opened
            if not data:
                raise ConnectionError(
                    "it closes the connection: it does not lead the cluster that is meant, or takes TLS alone "
                    "(beanstalks://)"
                )
            reader.receive(data)
        return line or b""

    async def connect(self, address: str, opened: contextlib.ExitStack) -> Wire:
        """Return a connection, which is closed with `opened`.

        Raises OSError: there is none to be had. Raises ValueError: it is no address, or the login can't be used.
        """
        if address.startswith(UNIX):
            link = await self.connect_to(socket.AF_UNIX, address.removeprefix(UNIX))
            opened.callback(link.close)
            return Wire(self.loop, link)
        host, port = split_address(address.removeprefix(TLS_SCHEME), shared_limits.PORT_DEFAULT)
        # A str would load the codec for names that are not ASCII, which a user that this has become may not read.
        name = host.encode() if host.isascii() else host
        found = await self.loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        link = await self.connect_to_any([(family, target) for family, _, _, _, target in found])
        opened.callback(link.close)
        if not address.startswith(TLS_SCHEME):
            return Wire(self.loop, link)
        from beanpole.front.tlswire import TlsWire  # noqa: PLC0415 - a front without TLS does not load it

        assert self.login is not None, "it says who is believed"
        wire = TlsWire(self.loop, link, self.login.context(), name)
        await wire.shake_hands()
        return wire

    async def connect_to_any(self, found: Sequence[tuple[int, object]]) -> socket.socket:
        """Return a connection to the first that takes it. Raises OSError."""
        for family, target in found[:-1]:
            with contextlib.suppress(OSError):
                return await self.connect_to(family, target)
        return await self.connect_to(*found[-1])

    async def connect_to(self, family: int, target: object) -> socket.socket:
        link = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            if family != socket.AF_UNIX:
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LINK_UNSENT_MS)
            await self.loop.sock_connect(link, target)  # type: ignore[arg-type]  # whatever getaddrinfo says
        except BaseException:
            link.close()
            raise
        return link
