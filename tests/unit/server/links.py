"""A link without a process: a front that a test plays, and a server whose time the test sets."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.protocol.link import FrameReader, first_line, frame
from beanpole.server.connection import Connection
from beanpole.server.epoll import EpollTransport
from beanpole.server.limits import LINK_OUTPUT_BYTES_MAX
from beanpole.server.link import Link, open_link
from beanpole.server.turn import Turn

OPEN, DATA, FIN, CLOSE, ROOM, PING, DRAIN = range(1, 8)
SECOND_NS = 1_000_000_000
PEER = b"peer 10.0.0.7:40112\nway tcp\n"
PUT = b"put 0 0 60 1\r\nx\r\n"


class Loop:
    """What a link asks of a loop: calls after some time."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[..., object], tuple[object, ...]]] = []

    def call_later(self, after_s: float, call: Callable[..., object], *args: object) -> SimpleNamespace:
        entry = (after_s, call, args)
        self.calls.append(entry)
        return SimpleNamespace(cancel=lambda: self.calls.remove(entry) if entry in self.calls else None)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Whoever runs turns looks at the turn."""


class Observer:
    """Remembers how links ended, and channels that come and go."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, str, int]] = []
        self.opened: list[str] = []
        self.pauses: list[str] = []
        self.lines: list[tuple[object, ...]] = []
        self.slow: list[Any] = []

    def link_opened(self, link: str) -> None:
        self.opened.append(link)

    def accept_paused(self, reason: str) -> None:
        self.pauses.append(reason)

    def link_closed(self, link: str, reason: str, channels: int, _error: str | None) -> None:
        self.ended.append((link, reason, channels))

    def channel_opened(self, *about: object) -> None:
        self.lines.append(("opened", *about))

    def channel_closed(self, *about: object) -> None:
        self.lines.append(("closed", *about))

    def turn_slow(self, slow: object) -> None:
        self.slow.append(slow)


class House:
    """A server, which listens at a Unix socket: what is sent to that is there at once."""

    def __init__(
        self, log: Log | None = None, *, body_bytes_max: int = 65_535, connections_max: int = 2**31 - 1
    ) -> None:
        self.now_ns = SECOND_NS
        self.log = Log() if log is None else log
        self.engine = Engine(body_bytes_max, self.now_ns, dict, self.log.records)
        self.turn = Turn(self.engine, self.log)
        self.loop = Loop()
        self.observer = Observer()
        self.fronts: list[Front] = []
        self.clients = EpollTransport(
            self.turn,
            self.loop,  # type: ignore[arg-type]
            self.observer,  # type: ignore[arg-type]
            connections_max,
            clock=lambda: self.now_ns,
        )
        self.clients.open_link = open_link
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.setblocking(False)
        self.listener.bind("")  # an address that the system chooses
        self.listener.listen()
        self.clients.listen(self.listener.fileno(), True)

    def connect(self) -> socket.socket:
        """A client, or a front, of the listener."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.listener.getsockname())
        client.setblocking(False)
        self.run()
        return client

    def ask(self, client: socket.socket, command: bytes) -> bytes:
        """What a client is answered that is no front's; nothing: it waits."""
        client.send(command)
        self.run()
        try:
            return client.recv(65_536)
        except BlockingIOError:
            return b""

    def run(self) -> None:
        """Run turns until there is nothing more to do."""
        least = 3  # what comes is served in the first; two more, so that what would go on for ever does
        while least or self.turn.busy:
            self.clients.run()
            least = max(least - 1, 0)
        check(self.engine)

    @property
    def facts(self) -> dict[str, int]:
        """What stats says in numbers."""
        connection = Connection(self.engine, self.now_ns, own=True)
        connection.receive(self.now_ns, b"stats\r\n")
        lines = connection.take_output().decode().splitlines()[2:]
        connection.close(self.now_ns)
        return {key: int(value) for key, _, value in (line.partition(": ") for line in lines) if value.isdigit()}

    def close(self) -> None:
        """End all links, and see that nothing of them is left."""
        for each in self.fronts:
            each.close()
        self.clients.stop_accepting()
        self.listener.close()
        self.pass_time(1)
        self.clients.close_all()
        assert self.engine.session_count == 0
        assert self.loop.calls == []
        assert self.log.link_count == 0

    def pass_time(self, seconds: float) -> None:
        """Call what waits for that time, and run."""
        self.now_ns += int(seconds * SECOND_NS)
        calls, self.loop.calls = self.loop.calls, []
        for _, call, args in calls:
            call(*args)
        self.run()


class Front:
    """The front's end of a link: of one that the server has made, or of one that is asked for at its listener."""

    def __init__(
        self,
        house: House,
        name: str = "front 1",
        *,
        opened: bool = True,
        asks: bool = False,
        connect: Callable[[], socket.socket] | None = None,
        output_bytes_max: int = LINK_OUTPUT_BYTES_MAX,
        entry: object = None,
    ) -> None:
        self.house = house
        house.fronts.append(self)
        self.reader = FrameReader(False)
        self.frames: list[tuple[int, int, bytes]] = []
        self.is_open = True
        if asks or connect is not None:
            self.socket = (connect or house.connect)()
        else:
            self.socket, theirs = socket.socketpair()
            self.socket.setblocking(False)
            theirs.setblocking(False)
            self.link = Link(house.clients, theirs.detach(), name, output_bytes_max=output_bytes_max, entry=entry)
        if opened:
            self.send_bytes(first_line())
            assert self.receive_bytes() == b"LINK 0 %d\r\n" % house.engine.body_bytes_max

    def send_bytes(self, data: bytes) -> None:
        """Send as much as the server takes, and let it run."""
        while data:
            try:
                data = data[self.socket.send(data) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                data = b""
            self.house.run()

    def send(self, *frames: tuple[int, int] | tuple[int, int, bytes]) -> None:
        """Send frames together."""
        self.send_bytes(b"".join(frame(*each) for each in frames))

    def open(self, channel: int, data: bytes = b"", about: bytes = b"") -> None:
        """Open a channel, and send what its client sends."""
        self.send((channel, OPEN, about), *pieces(channel, data))

    def say(self, channel: int, data: bytes) -> bytes:
        """Send what a client sends; return what comes for it."""
        self.send(*pieces(channel, data))
        return self.heard(channel)

    def receive_bytes(self) -> bytes:
        """What has come, and what does when that is read."""
        found = b""
        while self.is_open:
            try:
                piece = self.socket.recv(65_536)
            except BlockingIOError:
                break
            except ConnectionResetError:
                piece = b""
            self.is_open = piece != b""
            found += piece
            self.house.clients.run()
        return found

    def receive(self) -> list[tuple[int, int, bytes]]:
        """Take the frames that have come."""
        data = self.receive_bytes()
        for at in range(0, len(data), 65_536):
            self.reader.receive(data[at : at + 65_536])
            while (each := self.reader.next_frame()) is not None:
                self.frames.append(each)
        assert self.reader.mistake is None, self.reader.mistake
        found, self.frames = self.frames, []
        return found

    def heard(self, channel: int) -> bytes:
        """The DATA for a client that has come; other frames stay."""
        data, rest = b"", []
        for each in self.receive():
            if each[:2] == (channel, DATA):
                data += each[2]
            else:
                rest.append(each)
        self.frames = rest
        return data

    def close(self) -> None:
        """End the link."""
        self.socket.close()
        self.is_open = False


def pieces(channel: int, data: bytes) -> list[tuple[int, int, bytes]]:
    """DATA of any size as frames."""
    return [(channel, DATA, data[at : at + 60_000]) for at in range(0, len(data), 60_000)]


def room(count: int) -> bytes:
    """The payload of ROOM."""
    return struct.pack("<I", count)


@contextmanager
def linked(*, body_bytes_max: int = 65_535, log: Log | None = None) -> Iterator[tuple[House, Front]]:
    """A server with one front."""
    house = House(log, body_bytes_max=body_bytes_max)
    with closing(house):
        yield house, Front(house)
