"""Clients that speak TLS with a server of which the test is the clock, or with a front of such a server."""

import contextlib
import functools
import socket
import ssl

from beanpole.front.front import Front
from beanpole.protocol.link import FrameReader, first_line
from beanpole.server.link import Link
from beanpole.server.tls import TlsSocket
from beanpole.server.tlsfilter import Filter
from tests.certificates import made
from tests.unit.server.links import House

ANY = 1 << 20


def shake_hands(
    client: tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO],
    server: tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO],
) -> None:
    """Finish a handshake; each end is an object with its incoming and its outgoing BIO."""
    for _ in range(3):
        for (end, _, out), (_, to, _) in ((client, server), (server, client)):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
            to.write(out.read())


@functools.cache
def contexts(version: ssl.TLSVersion) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """That of a client, and that of a server."""
    pair = made("server")
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    server.load_cert_chain(pair.cert, pair.key)
    server.num_tickets = 0
    server.minimum_version = server.maximum_version = version
    return client, server


def ends(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> list[tuple[ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]]:
    """Both ends of a connection, the client's first, behind the handshake."""
    found = []
    for context, is_server in zip(contexts(version), (False, True), strict=True):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        found.append((context.wrap_bio(incoming, outgoing, server_side=is_server), incoming, outgoing))
    shake_hands(*found)
    return found


class TlsHouse(House):
    """A server whose clients speak TLS with it."""

    def admit(self, fd: int, tls: Filter) -> None:
        """Take a client behind its handshake."""
        self.clients.take(fd, False, TlsSocket(tls))

    def step(self) -> int:
        """Let what has come be answered, and no more than that needs; return how often a client may have been read."""
        self.clients.run()
        return 1


class FrontHouse(TlsHouse):
    """A server whose clients speak TLS with a front."""

    def __init__(self, *, body_bytes_max: int = 65_535) -> None:
        super().__init__(body_bytes_max=body_bytes_max)
        self.front = Front(self.observer, clock=lambda: self.now_ns)  # type: ignore[arg-type]
        self.front.on_link_end = lambda *about: self.observer.ended.append(about)
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        self.link = Link(self.clients, theirs.detach(), "front 1")
        reader = FrameReader(False)
        ours.send(first_line())
        super().run()
        reader.receive(ours.recv(1_000))
        assert reader.take_line() is not None
        self.front.attach(ours.detach(), reader, False)

    def admit(self, fd: int, tls: Filter) -> None:
        self.front.admit(fd, False, tls, b"way tls\n", None)

    def step(self) -> int:
        self.front.poll()
        self.clients.run()
        self.front.poll()
        return 2

    def run(self) -> None:
        for _ in range(2):
            self.front.poll()
            super().run()
        self.front.poll()

    def close(self) -> None:
        self.front.close_link()
        super().close()


class Client:
    """One end of a connection to a server, which is not blocked by anything."""

    def __init__(self, house: TlsHouse, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, send_bytes: int = 0) -> None:
        self.house = house
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        if send_bytes:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        (self.tls, self.incoming, self.outgoing), server = ends(version)
        self.ended = False
        theirs.setblocking(False)
        house.admit(theirs.detach(), Filter(*server))

    def seal(self, data: bytes) -> bytes:
        """Return it as ciphertext: one record for each 16 KiB."""
        for start in range(0, len(data), 16_384):
            self.tls.write(data[start : start + 16_384])
        return self.outgoing.read()

    def send(self, ciphertext: bytes) -> None:
        """Send it all; the server runs as often as that needs."""
        while ciphertext:
            try:
                ciphertext = ciphertext[self.socket.send(ciphertext) :]
            except BlockingIOError:
                self.house.run()
        self.house.run()

    def fetch(self, size: int = ANY) -> bytes:
        """Return what has come, as ciphertext."""
        try:
            return self.socket.recv(size)
        except BlockingIOError:
            return b""

    def receive(self, size: int = ANY) -> bytes:
        """Return what the server says; it runs until it says no more, while so many bytes are read at a time."""
        found = b""
        while came := self.fetch(size):
            self.incoming.write(came)
            found += self.decrypted()
            self.house.run()
        return found

    def decrypted(self) -> bytes:
        """Return what has come whole; sets `ended` at a close_notify."""
        found = b""
        try:
            while piece := self.tls.read(ANY):
                found += piece
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        return found

    def end(self) -> bytes:
        """Return a close_notify."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.outgoing.read()

    def ask(self, data: bytes) -> bytes:
        self.send(self.seal(data))
        return self.receive()

    def forget(self) -> None:
        """Free what this end takes, except for its socket."""
        del self.tls, self.incoming, self.outgoing

    @property
    def is_closed(self) -> bool:
        """Whether the server has closed the socket, or has reset it."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
