"""The filter and its socket: whatever pieces TLS comes in, and wherever it ends, it is what a plain client says."""

import contextlib
import ctypes
import random
import socket
import ssl
from collections.abc import Callable, Iterator

import pytest

from beanpole.server import limits
from beanpole.server.tlsfilter import Filter
from tests.unit.server.links import House
from tests.unit.server.tls import Client, FrontHouse, TlsHouse, ends

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
BODY = random.Random(33).randbytes(1 << 20)
COMMANDS = b"use t\r\nput 0 0 60 5\r\nhello\r\nwatch t\r\nreserve\r\ndelete 1\r\nbad\r\n"
REPLIES = b"USING t\r\nINSERTED 1\r\nWATCHING 2\r\nRESERVED 1 5\r\nhello\r\nDELETED\r\nUNKNOWN_COMMAND\r\n"
RECORD_BYTES_LEAST = 5 + 1 + 1 + 16
"""Of a record of one byte: its header, the byte, its kind and the tag (RFC 8446, 5.2)."""

Connect = Callable[..., Client]


def replies(commands: bytes) -> bytes:
    """What a plain client is answered that sends this and ends."""
    house = House()
    with house.connect() as client:
        client.send(commands)
        client.shutdown(socket.SHUT_WR)
        house.run()
        found = client.recv(1_000)
    house.close()
    return found


@pytest.fixture(params=[TlsHouse, FrontHouse])
def house(request: pytest.FixtureRequest) -> Iterator[TlsHouse]:
    found: TlsHouse = request.param(body_bytes_max=1 << 20)
    yield found
    found.close()


@pytest.fixture(params=VERSIONS, ids=lambda each: each.name)
def connect(house: TlsHouse, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """What connects clients, of each version."""
    clients = []

    def connected(send_bytes: int = 0) -> Client:
        clients.append(Client(house, request.param, send_bytes))
        return clients[-1]

    yield connected
    for each in clients:
        each.socket.close()


@pytest.mark.parametrize(
    ("record_bytes", "piece_bytes"), [(1, 1), (1, 10_000), (7, 3), (16_384, 1), (16_384, 50), (16_384, 10_000)]
)
def test_records_come_cut_and_joined(connect: Connect, record_bytes: int, piece_bytes: int) -> None:
    client = connect()
    sealed = b"".join(client.seal(COMMANDS[at : at + record_bytes]) for at in range(0, len(COMMANDS), record_bytes))
    for at in range(0, len(sealed), piece_bytes):
        client.send(sealed[at : at + piece_bytes])
    assert client.receive() == REPLIES


def test_half_a_record_asks_for_no_turn(house: TlsHouse, connect: Connect) -> None:
    asked: list[str] = []
    if isinstance(house, FrontHouse):
        house.front.run_soon = lambda: asked.append("front")
    client = connect()
    house.run()
    sealed = client.seal(b"list-tube-used\r\n")
    asked.clear()
    client.socket.send(sealed[:10])
    house.step()
    assert (house.turn.busy, asked) == (False, [])
    client.send(sealed[10:])
    assert client.receive() == b"USING default\r\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_came_behind_the_handshake_is_run(house: TlsHouse, version: ssl.TLSVersion) -> None:
    (tls, incoming, outgoing), server = ends(version)
    tls.write(b"list-tube-used\r\n")
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    house.admit(theirs.detach(), Filter(*server, outgoing.read()))
    house.run()
    with ours:
        incoming.write(ours.recv(1_000))
    assert tls.read() == b"USING default\r\n"


def test_bodies_of_a_mebibyte_go_to_slow_readers(connect: Connect) -> None:
    client = connect(send_bytes=4_096)
    client.send(client.seal(b"put 0 0 60 %d\r\n%b\r\n" % (len(BODY), BODY)))
    assert client.receive() == b"INSERTED 1\r\n"
    client.send(client.seal(b"peek 1\r\nquit\r\n"))
    assert client.receive(1_500) == b"FOUND 1 %d\r\n%b\r\n" % (len(BODY), BODY)
    assert client.ended
    assert client.is_closed


def test_wherever_the_kernel_stops_each_byte_is_sent_once(connect: Connect) -> None:
    client = connect(send_bytes=4_096)
    client.ask(b"put 0 0 60 600\r\n%b\r\n" % BODY[:600])
    client.send(client.seal(b"peek 1\r\n" * 200))
    assert client.receive(997) == b"FOUND 1 600\r\n%b\r\n" % BODY[:600] * 200


@pytest.mark.parametrize("end", range(0, len(COMMANDS) + 1, 3))
def test_close_notify_is_a_fin(connect: Connect, end: int) -> None:
    """What came before it runs and is answered, a reserve waits no more; then the server ends its side as well."""
    client = connect()
    client.send(client.seal(COMMANDS[:end]) + client.end())
    assert client.receive() == replies(COMMANDS[:end])
    assert client.ended
    assert client.is_closed


@pytest.mark.parametrize("at_once", [True, False])
def test_a_client_that_waits_is_heard_to_end_behind_what_it_has_sent(connect: Connect, at_once: bool) -> None:
    client = connect()
    records = [client.seal(b"reserve\r\n"), client.seal(b"release 9 0 0\r\n"), client.end()]
    for each in [b"".join(records)] if at_once else records:
        client.send(each)
    assert client.receive() == b"TIMED_OUT\r\nNOT_FOUND\r\n"
    assert client.is_closed


def test_a_fin_without_close_notify_is_a_lost_connection(house: House, connect: Connect) -> None:
    client, other = connect(), connect()
    client.ask(b"put 0 0 60 1\r\nx\r\nreserve\r\n")
    client.send(client.seal(b"put 0 0 60 1\r\ny\r\n") + client.seal(b"list-tubes\r\n")[:-1])
    client.socket.shutdown(socket.SHUT_WR)
    house.run()
    assert house.engine.session_count == 1
    assert other.ask(b"peek-ready\r\n") == b"FOUND 1 1\r\nx\r\n"
    assert other.ask(b"peek 2\r\n") == b"FOUND 2 1\r\ny\r\n"


@pytest.mark.parametrize("at", [0, 3, 5, -1])
def test_a_record_that_was_changed_gets_an_alert_and_the_end(house: House, connect: Connect, at: int) -> None:
    client = connect()
    sealed = bytearray(client.seal(b"put 0 0 60 1\r\nx\r\n"))
    sealed[at] ^= 0x80
    client.send(bytes(sealed))
    assert house.engine.session_count == 0
    client.incoming.write(client.fetch())
    with pytest.raises(ssl.SSLError, match="ALERT"):
        client.tls.read()
    assert house.facts["total-jobs"] == 0


def test_small_records_have_a_share_of_a_turn_and_no_more(house: TlsHouse, connect: Connect) -> None:
    flood, quiet = connect(), connect()
    sealed = b"".join(flood.seal(each) for each in [b"\r", b"\n"] * 1_000)
    flood.socket.send(sealed)
    for _ in range(4):
        quiet.socket.send(quiet.seal(b"list-tube-used\r\n"))
        reads = house.step()
        quiet.incoming.write(quiet.fetch())
        assert quiet.tls.read() == b"USING default\r\n"
        flood.incoming.write(flood.fetch())
        most = reads * (1 + limits.SHARE_COST_NS // limits.TLS_RECORD_COST_NS)
        assert flood.decrypted().count(b"\r\n") <= most // 2
    house.run()
    assert flood.receive()  # the rest


class Heap(ctypes.Structure):
    """What mallinfo2(3) returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in ["arena", "a", "b", "c", "mapped", "d", "e", "used", "f", "g"])


def used_bytes() -> int:
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Heap
    heap = mallinfo()
    return int(heap.used + heap.mapped)


def put_and_peek(client: Client) -> None:
    """Send a body of a mebibyte, and get it back."""
    number = client.ask(b"put 0 0 60 %d\r\n%b\r\n" % (len(BODY), BODY)).split()[1]
    assert client.ask(b"peek %b\r\n" % number).endswith(b"\r\n")
    assert client.ask(b"delete %b\r\n" % number) == b"DELETED\r\n"


@pytest.mark.parametrize(("use", "most"), [(Client.fetch, 20_000), (put_and_peek, 40_000)])
def test_what_a_connection_takes(connect: Connect, use: Callable[[Client], object], most: int) -> None:
    """An idle one, and one that is idle after bodies both ways."""

    def open_and_use(count: int) -> int:
        before = used_bytes()
        for _ in range(count):
            client = connect()
            use(client)
            client.forget()
        return used_bytes() - before

    open_and_use(5)  # what is made once
    assert open_and_use(20) / 20 < most


def test_small_records_of_all_clients_of_a_front_have_one_turn() -> None:
    with contextlib.closing(FrontHouse()) as house:
        clients = [Client(house) for _ in range(40)]
        house.run()
        for each in clients:
            each.socket.send(b"".join(each.seal(b"x") for _ in range(100)))
        before = house.clients.carried_bytes_received
        house.front.poll()
        house.clients.run()
        assert 0 < house.clients.carried_bytes_received - before < 1_500
        for _ in range(5):
            house.run()
        assert house.clients.carried_bytes_received - before > 4_000
        for each in clients:
            each.socket.close()
