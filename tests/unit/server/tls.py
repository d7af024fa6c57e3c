"""Clients that speak TLS with a server of which the test is the clock."""

import contextlib
import functools
import socket
import ssl

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


class Client:
    """One end of a connection to a server, which is not blocked by anything."""

    def __init__(self, house: House, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3, send_bytes: int = 0) -> None:
        self.house = house
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        if send_bytes:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        (self.tls, self.incoming, self.outgoing), server = ends(version)
        self.ended = False
        house.clients.take(theirs.detach(), False, TlsSocket(Filter(*server)))

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
