"""A front between real clients and a server that a test plays, one turn at a time."""

import mmap
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from beanpole.front.front import Front
from beanpole.protocol import limits
from beanpole.protocol.link import FrameReader, frame
from tests.servers import HOST, REPLY_TIMEOUT_S

OPEN, DATA, FIN, CLOSE, ROOM, PING, DRAIN = range(1, 8)
ROOM_BYTES = limits.LINK_ROOM_BYTES
PIECE = limits.LINK_DATA_BYTES_MAX

Frame = tuple[int, int, bytes]


class Observer:
    """Remembers why accepting paused, and where a client was refused."""

    def __init__(self) -> None:
        self.pauses: list[str] = []
        self.refused: list[str] = []

    def client_refused(self, listener: str, _reason: str) -> None:
        self.refused.append(listener)

    def accept_paused(self, reason: str) -> None:
        self.pauses.append(reason)


class House:
    """A front, its listening socket, and the server's end of its link."""

    def __init__(
        self,
        listener: socket.socket,
        more: bytes = b"",
        *,
        linked: bool = True,
        **given: Any,  # noqa: ANN401 - those of a front
    ) -> None:
        self.listener = listener
        listener.setblocking(False)
        self.clients: list[socket.socket] = []
        self.observer = Observer()
        self.memory = given.setdefault("memory", mmap.mmap(-1, mmap.PAGESIZE))
        self.front = Front(self.observer, **given)  # type: ignore[arg-type]
        self.ends: list[tuple[str, int]] = []
        self.front.on_link_end = lambda *about: self.ends.append(about)
        self.links: list[socket.socket] = []
        if linked:
            self.attach(more)
        self.front.listen(listener.fileno(), listener.family == socket.AF_UNIX)

    def attach(self, more: bytes = b"", *, asks: bool = False) -> None:
        """A link whose first lines are through, with what has come behind them."""
        self.link, theirs = socket.socketpair()
        self.links.append(self.link)
        self.link.setblocking(False)
        theirs.setblocking(False)
        self.reader = FrameReader(True)
        coming = FrameReader(False)
        coming.receive(more)
        self.front.attach(theirs.detach(), coming, asks)

    def run(self, turns: int = 4) -> None:
        for _ in range(turns):
            self.front.poll()

    def connect(self, *, slow: bool = False) -> socket.socket:
        """A client; one that is slow takes little at once."""
        client = socket.socket(self.listener.family)
        client.settimeout(REPLY_TIMEOUT_S)
        if slow:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.clients.append(client)
        client.connect(self.listener.getsockname())
        self.run()
        return client

    def close(self) -> None:
        for each in (*self.links, *self.clients):
            each.close()

    def send(self, *frames: tuple[int, int] | Frame) -> None:
        """Send frames as the server, and let the front run."""
        data = b"".join(frame(*each) for each in frames)
        while data:
            data = data[self.link.send(data) :]
            self.run()

    def frames(self) -> list[Frame]:
        """What the front has sent since."""
        found: list[Frame] = []
        while True:
            self.run(1)
            try:
                self.reader.receive(self.link.recv(PIECE))
            except BlockingIOError:
                return found
            while (each := self.reader.next_frame()) is not None:
                found.append(each)


@contextmanager
def served(more: bytes = b"", **given: Any) -> Iterator[House]:  # noqa: ANN401 - those of a front
    """A house on a TCP socket."""
    with socket.create_server((HOST, 0)) as listener, closing(House(listener, more, **given)) as found:
        yield found


def joined(frames: list[Frame], channel: int = 1) -> bytes:
    """The bytes of a client."""
    assert all(kind == DATA for number, kind, _ in frames if number == channel)
    return b"".join(data for number, _, data in frames if number == channel)
