"""A link that is encrypted: what differs from one that is not."""

import contextlib
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing

import pytest

from beanpole.protocol import limits
from beanpole.protocol.link import FrameReader, frame
from beanpole.server.tlsfilter import Filter
from tests.servers import HOST
from tests.unit.front.house import DATA, OPEN, PING, ROOM, Frame, House, joined
from tests.unit.server.tls import ends

Bio = ssl.MemoryBIO


class Sealed:
    """The server's end of a link with TLS: a socket whose text is encrypted. It has a test's turns in between."""

    def __init__(self, link: socket.socket, end: tuple[ssl.SSLObject, Bio, Bio]) -> None:
        self.socket = link
        self.tls, self.incoming, self.outgoing = end
        self.byte_count = 0

    def seal(self, text: bytes) -> bytes:
        for start in range(0, len(text), 16_384):
            self.tls.write(text[start : start + 16_384])
        return self.outgoing.read()

    def recv(self, size: int) -> bytes:
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self.tls.read(size)
            came = self.socket.recv(size)
            self.byte_count += len(came)
            self.incoming.write(came)

    def close(self) -> None:
        self.socket.close()


class SealedHouse(House):
    """A house whose links are encrypted."""

    link: Sealed  # type: ignore[assignment]

    def attach(self, more: bytes = b"", *, asks: bool = False) -> None:
        ours, theirs = socket.socketpair()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        for each in (ours, theirs):
            each.setblocking(False)
        client, server = ends()
        self.link = Sealed(ours, server)
        self.links.append(ours)
        self.reader = FrameReader(True)
        came = self.link.seal(more) if more else b""
        self.front.attach(theirs.detach(), FrameReader(False), asks, Filter(*client, came))

    def frames(self) -> list[Frame]:
        """What the front has sent since; the socket takes little at once, and less than a record."""
        found: list[Frame] = []
        before = -1
        while before < self.link.byte_count:
            before = self.link.byte_count
            found += super().frames()
        return found

    def deliver(self, ciphertext: bytes, piece: int = 100_000) -> None:
        """Send ciphertext as the server, in pieces, and let the front run after each."""
        while ciphertext:
            with contextlib.suppress(BlockingIOError):
                ciphertext = ciphertext[self.link.socket.send(ciphertext[:piece]) :]
            self.run(1)


@pytest.fixture
def house() -> Iterator[SealedHouse]:
    with socket.create_server((HOST, 0)) as listener, closing(SealedHouse(listener)) as found:
        yield found


def received(house: House, client: socket.socket, size: int) -> bytes:
    """What a client gets; it takes as long as that needs."""
    found = b""
    while len(found) < size:
        found += client.recv(size)
        house.run()
    return found


def test_frames_pass_both_ways_in_whatever_pieces_they_come(house: SealedHouse) -> None:
    client = house.connect()
    body = random.Random(4).randbytes(3 * limits.LINK_DATA_BYTES_MAX)
    client.sendall(body)
    (number, kind, _), *rest = house.frames()
    assert (number, kind) == (1, OPEN)
    assert joined(rest) == body
    for piece in (1, 7_001, 100_000):
        sizes = [1] if piece == 1 else [limits.LINK_DATA_BYTES_MAX, 5, 40_000]
        texts = [body[:size] for size in sizes]
        house.deliver(house.link.seal(b"".join(frame(1, DATA, each) for each in texts)), piece)
        assert received(house, client, sum(sizes)) == b"".join(texts)
    assert house.front.link.is_open


def test_what_came_behind_the_first_lines_is_read_without_more() -> None:
    with socket.create_server((HOST, 0)) as listener, closing(SealedHouse(listener, frame(0, PING, b"\0"))) as house:
        assert house.frames() == [(0, PING, b"\1")]


def test_socket_that_takes_no_more_gets_the_rest_later(house: SealedHouse) -> None:
    clients = [house.connect() for _ in range(8)]
    for each in clients:
        each.sendall(bytes(30_000))
    house.run(20)
    frames = house.frames()
    for number in range(1, 9):
        assert joined([each for each in frames if each[:2] == (number, DATA)], number) == bytes(30_000)


def test_close_notify_ends_the_link_behind_what_came_before(house: SealedHouse) -> None:
    client = house.connect()
    client.sendall(b"x")
    house.frames()
    said = house.link.seal(frame(1, DATA, b"last"))
    with contextlib.suppress(ssl.SSLWantReadError):
        house.link.tls.unwrap()
    house.deliver(said + house.link.outgoing.read())
    assert client.recv(10) == b"last"
    assert client.recv(10) == b""
    assert house.ends == [("ended", 1)]


def test_what_was_changed_on_the_way_ends_the_link(house: SealedHouse) -> None:
    client = house.connect()
    client.sendall(b"x")
    house.frames()
    said = bytearray(house.link.seal(frame(1, DATA, b"last")))
    said[-1] ^= 1
    house.deliver(bytes(said))
    assert client.recv(10) == b""
    assert house.ends == [("TLS", 1)]


def test_room_is_taken_of_frames_that_share_a_record(house: SealedHouse) -> None:
    clients = [house.connect() for _ in range(3)]
    for each in clients:
        each.sendall(b"x")
    house.frames()
    texts = b"".join(frame(number, ROOM, b"\1\0\0\0") + frame(number, DATA, b"%d" % number) for number in (1, 2, 3))
    house.deliver(house.link.seal(texts))
    assert [each.recv(10) for each in clients] == [b"1", b"2", b"3"]
