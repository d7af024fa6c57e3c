"""Handshakes: who becomes a client, who does not and why, and who has to make room."""

import contextlib
import random
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beanpole.server import limits
from beanpole.server.handshakes import OUTCOMES, Handshakes, offers_others_only, read_hello
from beanpole.server.tls import TlsSocket
from beanpole.server.tlscontext import Certificate, ServerContext
from beanpole.server.tlsfilter import Filter
from tests.certificates import made
from tests.unit.server.links import SECOND_NS, House

PATIENCE_S = 20
BEGUN_MAX = 256


class TlsHouse(House):
    """A server that listens for TLS as well; the thread is real, the clock is the test's."""

    def __init__(
        self, *, client_ca: str | None = None, required: bool = True, connections_max: int = 2**31 - 1
    ) -> None:
        super().__init__(connections_max=connections_max)
        pair = made("server", "subjectAltName=DNS:localhost")
        self.context = ServerContext(str(pair.cert), str(pair.key), client_ca, required)
        self.handshakes = Handshakes(self.clients, self.loop, self.open)  # type: ignore[arg-type]
        self.tls_listener = socket.create_server(("", 0), backlog=2_000)
        self.tls_listener.setblocking(False)
        self.handshakes.listen(self.tls_listener.fileno(), self.context)
        self.certificates: list[Certificate | None] = []
        self.sockets: list[socket.socket] = []

    def open(
        self, _now_ns: int, fd: int, found: Filter, certificate: Certificate | None, context: ServerContext
    ) -> None:
        assert context is self.context
        self.certificates.append(certificate)
        self.clients.take(fd, False, TlsSocket(found))

    def dial(self, source: str = "127.0.0.1") -> socket.socket:
        """A client that has said nothing yet."""
        address = ("127.0.0.1", self.tls_listener.getsockname()[1])
        self.sockets.append(socket.create_connection(address, source_address=(source, 0)))
        self.sockets[-1].setblocking(False)
        return self.sockets[-1]

    def until(self, holds: Callable[[], bool]) -> None:
        """Run turns until something holds."""
        gives_up_at = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < gives_up_at, self.counts
            self.clients.serve(0.02)

    @property
    def counts(self) -> dict[str, int]:
        return {name: count for name, count in self.handshakes.counts.items() if count}

    def ended(self, *outcomes: str) -> None:
        """Wait until so many have ended, and see that it was so."""
        self.until(lambda: sum(self.counts.values()) == len(outcomes))
        assert self.counts == {each: outcomes.count(each) for each in outcomes}

    def close(self) -> None:
        self.handshakes.stop()
        assert not self.clients.strangers
        super().close()
        for each in (self.tls_listener, *self.sockets):
            each.close()


@pytest.fixture
def house() -> Iterator[TlsHouse]:
    found = TlsHouse()
    yield found
    found.close()


@pytest.fixture
def strict_house() -> Iterator[TlsHouse]:
    """One that asks for certificates."""
    found = TlsHouse(client_ca=str(made("clients").cert))
    yield found
    found.close()


def client_context(name: str = "", *extensions: str, protocols: tuple[str, ...] = ("beanstalk",)) -> ssl.SSLContext:
    """What a client has that knows our certificate, and shows one of its own."""
    context = ssl.create_default_context(cafile=made("server", "subjectAltName=DNS:localhost").cert)
    if name:
        pair = made(name, *extensions, signer="clients", subject=f"/O=corp/CN={name}")
        context.load_cert_chain(pair.cert, pair.key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


class Client:
    """A client, of which the test moves the bytes."""

    def __init__(
        self,
        house: TlsHouse,
        context: ssl.SSLContext | None = None,
        source: str = "127.0.0.1",
        name: str = "localhost",
    ) -> None:
        self.house = house
        self.socket = house.dial(source)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = (context or client_context()).wrap_bio(self.incoming, self.outgoing, server_hostname=name)

    def flight(self) -> bytes:
        """Go on with the handshake; return what is to be sent for it."""
        with contextlib.suppress(BlockingIOError):
            self.incoming.write(self.socket.recv(1 << 16))
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def shake(self, behind: bytes = b"", piece_bytes: int = 1 << 16) -> None:
        """Shake hands, and say something at once."""
        hello = self.flight()
        for at in range(0, len(hello), piece_bytes):
            self.socket.sendall(hello[at : at + piece_bytes])
            self.house.run()
        while self.tls.version() is None or not self.tls.selected_alpn_protocol():
            self.until_readable()
            self.socket.sendall(self.flight())
        if behind:
            self.tls.write(behind)
            self.socket.sendall(self.outgoing.read())

    def until_readable(self) -> None:
        """Wait until something has come, or the end."""

        def is_readable() -> bool:
            with contextlib.suppress(BlockingIOError):
                self.socket.recv(1, socket.MSG_PEEK)
                return True
            return False

        self.house.until(is_readable)

    def read(self) -> bytes:
        """Return what the server says next."""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self.tls.read(1 << 16)
            self.until_readable()
            self.incoming.write(self.socket.recv(1 << 16))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("piece_bytes", [1, 100, 1 << 16])
def test_a_client_comes_and_is_served(house: TlsHouse, version: ssl.TLSVersion, piece_bytes: int) -> None:
    context = client_context()
    context.maximum_version = version
    client = Client(house, context)
    client.shake(b"list-tube-used\r\n", piece_bytes)
    assert client.read() == b"USING default\r\n"
    assert client.tls.selected_alpn_protocol() == "beanstalk"
    house.ended("ok")
    assert house.certificates == [None]


def test_it_may_speak_no_protocol_by_name(house: TlsHouse) -> None:
    client = Client(house, client_context(protocols=()))
    client.socket.sendall(client.flight())
    client.until_readable()
    client.socket.sendall(client.flight())
    house.ended("ok")


def test_a_client_of_other_protocols_gets_an_alert(house: TlsHouse) -> None:
    client = Client(house, client_context(protocols=("http/1.1", "h2")))
    client.socket.sendall(client.flight())
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        client.read()
    house.ended("alpn")


@pytest.mark.parametrize(
    "data", [b"put 0 0 60 1\r\nx\r\n", b"POST / HTTP/1.1\r\n\r\n", b"\x16\x01" * 50, b"\x80\x2e\x01"]
)
def test_what_is_no_tls_is_closed(house: TlsHouse, data: bytes) -> None:
    client = Client(house)
    client.socket.sendall(data)
    client.until_readable()
    assert client.socket.recv(100) == b""
    house.ended("plain")


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\x00\x40\x01",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x16\x03\x01\x00\x01\x01" + b"\x16\x03\x01\x00\x01\x00" * 7,
    ],
    ids=["empty record", "ServerHello", "too long", "without content", "in too many records"],
)
def test_a_first_flight_against_the_rules_gets_an_alert(house: TlsHouse, data: bytes) -> None:
    client = Client(house)
    client.socket.sendall(data)
    client.until_readable()
    assert client.socket.recv(100)[:2] == b"\x15\x03"
    house.ended("protocol")


def test_a_version_that_is_too_old_gets_an_alert(house: TlsHouse) -> None:
    context = client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    client = Client(house, context)
    client.socket.sendall(client.flight())
    with pytest.raises(ssl.SSLError, match="ALERT"):
        client.read()
    house.ended("version")


@pytest.mark.parametrize(("name", "ca"), [("localhost", "clients"), ("other.example", "server")])
def test_a_client_that_does_not_trust_our_certificate_is_counted(house: TlsHouse, name: str, ca: str) -> None:
    """It does not know the CA, or looks for another name: of these two alerts one names a certificate."""
    extensions = ("subjectAltName=DNS:localhost",) if ca == "server" else ()
    context = ssl.create_default_context(cafile=made(ca, *extensions).cert)
    client = Client(house, context, name=name)
    client.socket.sendall(client.flight())
    client.until_readable()
    with pytest.raises(ssl.SSLCertVerificationError):
        client.flight()
    client.socket.sendall(client.outgoing.read())
    house.ended("refused")


def test_names_of_a_certificate(strict_house: TlsHouse) -> None:
    extension = "subjectAltName=DNS:shop.internal,URI:spiffe://corp/shop,IP:10.0.0.7,email:a@b"
    client = Client(strict_house, client_context("shop", extension))
    client.shake(b"list-tube-used\r\n")
    assert client.read() == b"USING default\r\n"
    (found,) = strict_house.certificates
    assert found is not None
    assert {each for each in found.names if not each.startswith("sha256:")} == {
        "CN=shop",
        "DNS:shop.internal",
        "URI:spiffe://corp/shop",
    }


@pytest.mark.parametrize("name", ["", "stranger"])
def test_a_client_without_a_good_certificate_gets_an_alert(strict_house: TlsHouse, name: str) -> None:
    context = client_context()
    if name:
        pair = made(name)
        context.load_cert_chain(pair.cert, pair.key)
    client = Client(strict_house, context)
    client.shake()
    with pytest.raises(ssl.SSLError, match="ALERT"):
        client.read()
    strict_house.ended("certificate")
    assert not strict_house.certificates


def test_a_certificate_may_be_optional() -> None:
    with contextlib.closing(TlsHouse(client_ca=str(made("clients").cert), required=False)) as house:
        Client(house).shake()
        house.ended("ok")
        assert house.certificates == [None]


def hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        client_context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("sent_bytes", [0, 1, 5, 100, -1, None])
def test_one_that_stops_anywhere_is_closed_after_its_time(house: TlsHouse, sent_bytes: int | None) -> None:
    data = hello()[:sent_bytes]
    client = house.dial()
    client.sendall(data)
    house.until(lambda: len(house.clients.strangers) == 1)
    if sent_bytes is None:
        house.until(lambda: is_answered(client))
    ((_, call, _),) = house.loop.calls
    house.now_ns += 5 * SECOND_NS - 1
    house.loop.calls.clear()
    call()
    assert house.counts == {}
    house.now_ns += 1
    house.loop.calls.clear()
    call()
    house.ended("timeout")
    assert house.loop.calls == []


def test_those_that_came_together_are_closed_a_few_in_each_turn(house: TlsHouse) -> None:
    clients = [house.dial() for _ in range(limits.EXPIRED_PER_TURN + 1)]
    house.until(lambda: len(house.clients.strangers) == limits.EXPIRED_PER_TURN + 1)
    ((_, call, _),) = house.loop.calls
    house.now_ns += 5 * SECOND_NS
    call()
    assert len(house.clients.strangers) == 1 < len(clients)


def test_where_too_many_have_begun_the_source_with_most_makes_room(house: TlsHouse) -> None:
    data = hello()
    for number in range(BEGUN_MAX):
        house.dial(f"127.0.0.{2 + number % 64}").sendall(data)
    first = house.sockets[0]
    house.until(lambda: all(is_answered(each) for each in house.sockets))
    assert house.counts == {}
    client = Client(house)
    client.shake(b"list-tube-used\r\n")
    assert client.read() == b"USING default\r\n"
    house.ended("ok", "pushed-out")
    first.setblocking(True)
    while first.recv(1 << 16):
        pass


@pytest.mark.parametrize("sources", [1, 64])
def test_a_thousand_who_stop_half_way_keep_nobody_out(house: TlsHouse, sources: int) -> None:
    """Who comes behind them is served, and no more of them have begun than may."""
    data = hello()
    for number in range(1_000):
        house.dial(f"127.0.0.{2 + number % sources}").sendall(data)
    client = Client(house)
    client.shake(b"list-tube-used\r\n")
    assert client.read() == b"USING default\r\n"
    begun = sum(is_answered(each) for each in house.sockets[:-1])
    assert begun <= BEGUN_MAX + house.counts.get("pushed-out", 0)
    assert house.counts["ok"] == 1


def test_of_its_own_source_one_waits_a_moment(house: TlsHouse) -> None:
    data = hello()
    for _ in range(BEGUN_MAX):
        house.dial("127.0.0.2").sendall(data)
    house.until(lambda: all(is_answered(each) for each in house.sockets))
    own = house.dial("127.0.0.2")
    own.sendall(data)
    other = Client(house)
    other.shake()
    house.ended("ok", "pushed-out")
    house.until(lambda: is_answered(own))  # in the place that has become free
    more = house.dial("127.0.0.2")
    more.sendall(data)
    house.run()
    assert not is_answered(more)
    house.now_ns += SECOND_NS
    Client(house).shake()
    house.until(lambda: is_answered(more))
    house.ended("ok", "ok", "pushed-out", "pushed-out", "pushed-out")


def is_answered(client: socket.socket) -> bool:
    with contextlib.suppress(BlockingIOError):
        return len(client.recv(1, socket.MSG_PEEK)) == 1
    return False


def test_where_there_are_too_many_sockets_who_has_said_least_makes_room(house: TlsHouse) -> None:
    house.clients.sockets_max = 4
    silent = [house.dial(f"127.0.0.{each}") for each in (2, 3, 3)]
    house.until(lambda: len(house.clients.strangers) == 3)
    client = Client(house)
    client.shake()
    house.dial("127.0.0.4")
    house.ended("ok", "pushed-out")
    silent[1].setblocking(True)
    assert silent[1].recv(1) == b""


def test_those_under_way_have_places_of_clients() -> None:
    with contextlib.closing(TlsHouse(connections_max=2)) as house:
        for _ in range(2):
            house.dial()
        house.until(lambda: len(house.clients.strangers) == 2)
        plain = [house.connect() for _ in range(3)]
        house.run()
        assert house.counts == {"pushed-out": 2}
        assert house.engine.session_count == 2
        assert house.observer.pauses == ["EMFILE"]
        for each in plain:
            each.close()


def test_names_that_are_no_text_count_as_none(strict_house: TlsHouse) -> None:
    client = Client(strict_house, client_context("bytes", "subjectAltName=DER:30:06:82:04:61:ff:fe:62"))
    client.shake(b"list-tube-used\r\n")
    assert client.read() == b"USING default\r\n"
    (found,) = strict_house.certificates
    assert found is not None
    assert [each.partition(":")[0] for each in found.names] == ["sha256"]


@pytest.mark.parametrize(("seed", "count"), [(33, 500), pytest.param(34, 10_000, marks=pytest.mark.long)])
def test_mutated_first_flights_end_one_way_or_another(house: TlsHouse, seed: int, count: int) -> None:
    rng = random.Random(seed)
    good = hello()
    for number in range(count):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randint(1, 40)]
                case _:
                    data[at:at] = rng.randbytes(rng.randint(1, 40))
        if (found := read_hello(bytes(data))) is not None:
            offers_others_only(found)
        client = house.dial()
        client.sendall(bytes(data))
        client.shutdown(socket.SHUT_WR)
        if number % 100 == 99:
            house.until(lambda: sum(house.counts.values()) == number + 1)  # noqa: B023 - it is asked at once
    assert set(house.counts) <= set(OUTCOMES) - {"ok", "timeout", "closed", "full"}
    assert house.counts["gone"] > 0
    assert house.engine.session_count == 0


def test_the_certificate_is_exchanged_for_those_that_come(house: TlsHouse, tmp_path: Path) -> None:
    before = Client(house)
    before.shake()
    pair = made("server-next", "subjectAltName=DNS:localhost")
    house.context.cert, house.context.key = str(pair.cert), str(pair.key)
    house.context.reread()
    context = ssl.create_default_context(cafile=pair.cert)
    context.set_alpn_protocols(["beanstalk"])
    after = Client(house, context)
    after.shake()
    for each in (before, after):
        each.tls.write(b"list-tube-used\r\n")
        each.socket.sendall(each.outgoing.read())
        assert each.read() == b"USING default\r\n"
    (tmp_path / "half.pem").write_text(pair.cert.read_text()[:100])
    house.context.cert = str(tmp_path / "half.pem")
    with pytest.raises(ValueError, match=r"half\.pem"):
        house.context.reread()
    Client(house, context).shake()
    house.ended("ok", "ok", "ok")
