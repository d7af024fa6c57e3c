"""A link over TLS: every byte comes once, whatever a record has, and none costs more than it may."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from beanpole.protocol.link import FrameReader, first_line, frame
from beanpole.server.link import Link
from beanpole.server.tlsfilter import Filter
from tests.servers import HOST
from tests.unit.server.links import CLOSE, DATA, DRAIN, FIN, OPEN, PEER, pieces
from tests.unit.server.tls import ANY, Client, TlsHouse, ends

Connect = Callable[..., Client]
ANSWER = b"LINK 0 1000000\r\n"


@pytest.fixture
def house() -> Iterator[TlsHouse]:
    with closing(TlsHouse(body_bytes_max=1_000_000)) as house:
        yield house


@pytest.fixture
def connect(house: TlsHouse) -> Iterator[Connect]:
    """Return a front that has shaken hands; its link is open if `opened`."""
    with ExitStack() as stack:

        def connected(*, opened: bool = True, **given: Any) -> Client:  # noqa: ANN401 - what Client takes
            client = Client(house, **given)
            stack.callback(client.socket.close)
            assert not opened or client.ask(first_line()) == ANSWER
            return client

        yield connected


def frames(*each: tuple[int, int] | tuple[int, int, bytes]) -> bytes:
    return b"".join(frame(*one) for one in each)


def found(data: bytes) -> list[tuple[int, int, bytes]]:
    """The frames that have come."""
    reader = FrameReader(False)
    taken = []
    for at in range(0, len(data), 65_536):
        reader.receive(data[at : at + 65_536])
        while (each := reader.next_frame()) is not None:
            taken.append(each)
    assert reader.mistake is None
    return taken


@pytest.mark.parametrize("record_bytes", [1, 7, 1_000])
@pytest.mark.parametrize("piece_bytes", [1, 500, ANY])
def test_lines_and_frames_come_in_any_records(connect: Connect, record_bytes: int, piece_bytes: int) -> None:
    client = connect(opened=False)
    said = first_line() + frames((1, OPEN, PEER), (1, DATA, b"use a\r\nput 0 0 60 1\r\nx\r\n"), (1, FIN))
    sealed = b"".join(client.seal(said[at : at + record_bytes]) for at in range(0, len(said), record_bytes))
    heard = b""
    for at in range(0, len(sealed), piece_bytes):
        client.send(sealed[at : at + piece_bytes])
        heard += client.receive()
    assert heard.startswith(ANSWER)
    assert found(heard.removeprefix(ANSWER)) == [(1, DATA, b"USING a\r\nINSERTED 1\r\n"), (1, CLOSE, b"")]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_large_bodies_go_through_a_kernel_that_takes_little(connect: Connect, version: ssl.TLSVersion) -> None:
    client = connect(version=version, send_bytes=4_096)
    bodies = [bytes([each]) * 200_000 for each in range(1, 4)]
    for channel, body in enumerate(bodies, 1):
        put = b"use %d\r\nwatch %d\r\nput 0 0 60 200000\r\n%b\r\nreserve\r\n" % (channel, channel, body)
        client.send(client.seal(frames((channel, OPEN, PEER), *pieces(channel, put))))
    heard = dict.fromkeys(range(1, 4), b"")
    for channel, kind, payload in found(client.receive(1_000)):
        if kind == DATA:
            heard[channel] += payload
    for channel, body in enumerate(bodies, 1):
        assert heard[channel].endswith(b"RESERVED %d 200000\r\n%b\r\n" % (channel, body))


def test_a_close_notify_ends_the_link_behind_what_came_before(house: TlsHouse, connect: Connect) -> None:
    client = connect()
    client.send(client.seal(frames((1, OPEN), (1, DATA, b"put 0 0 60 1\r\nx\r\n"))) + client.end())
    assert [each[1:] for each in house.observer.ended] == [("ended", 1)]
    assert house.facts["current-jobs-ready"] == 1
    client.receive()
    assert client.ended


def test_a_record_that_was_changed_ends_the_link(house: TlsHouse, connect: Connect) -> None:
    client = connect()
    sealed = bytearray(client.seal(frames((1, OPEN))))
    sealed[-1] ^= 1
    client.send(bytes(sealed))
    assert [each[1] for each in house.observer.ended] == ["TLS"]


@pytest.mark.parametrize("sealed", [False, True])
def test_what_the_system_refuses_ends_the_link_by_its_name(house: TlsHouse, sealed: bool) -> None:
    """Of datagrams the system says that nobody takes them, whoever has a link over them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        theirs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for each in (ours, theirs):
            each.bind((HOST, 0))
        ours.connect(theirs.getsockname())
        theirs.connect(ours.getsockname())
        (tls, _, outgoing), server = ends()
        tls.write(first_line())
        ours.send(outgoing.read() if sealed else first_line())
        Link(house.clients, theirs.detach(), "front 1", tls=Filter(*server) if sealed else None)
    house.run()
    assert house.observer.ended == [("front 1", "system", 0)]


def test_small_records_of_all_links_have_one_part_of_a_turn_and_take_turns(house: TlsHouse, connect: Connect) -> None:
    clients = [connect() for _ in range(10)]
    said = frames((1, OPEN), (1, DATA, b"x" * 1_000), (0, DRAIN))
    for each in clients:
        each.socket.send(b"".join(each.seal(said[at : at + 1]) for at in range(len(said))))
    before = house.clients.carried_bytes_received
    house.clients.run()
    first = house.clients.carried_bytes_received - before
    assert 0 < first < 500
    for _ in range(5):
        house.clients.run()
    assert [each.channel_count for each in house.clients.carriers.values()] == [1] * 10
    for _ in range(50):
        house.clients.run()
    assert house.clients.carried_bytes_received - before == 10 * len(said)
