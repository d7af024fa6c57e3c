"""TLS for the blocking client: a socket that encrypts what it sends and decrypts what it receives.

Python's own SSLSocket makes several system calls for each record. Here a round trip is one send and one recv, as
without TLS, and their time limits are the kernel's.

Invariant: behind `recv` nothing whole is left here, so that a poll of the socket says whether more has come.
"""

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from beanpole.client import roundtrip
from beanpole.limits import CLIENT_RECEIVE_BYTES
from beanpole.protocol.wire import Reply, ReplyReader

PLAIN = socket.socket  # called as it is, which costs less than super()

RECORD_BYTES = 16_384  # of the text in a record, at most


class TlsSocket(socket.socket):
    """A connected socket, whose descriptor this takes over, with TLS.

    Raises OSError: the handshake has failed, or has not ended at `until_s` on the clock (None: no limit).
    """

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        name: str,
        until_s: float | None,
        clock: Callable[[], float],
    ) -> None:
        wait_s = connection.gettimeout()
        super().__init__(fileno=connection.detach())
        self.settimeout(wait_s)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=name)
        self._unsent = b""
        """What is encrypted and not sent: of a text of which `send` has returned 0."""
        self._encrypted_bytes = 0
        """How many bytes of the text that is."""
        self._is_ended = False
        """Whether the other side has said that nothing more comes."""
        try:
            self._shake_hands(until_s, clock)
        except BaseException:
            with suppress(OSError):
                super().send(self._out.read())  # says why
            self.close()
            raise

    def _shake_hands(self, until_s: float | None, clock: Callable[[], float]) -> None:
        while True:
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                super().sendall(self._out.read())
                return
            super().sendall(self._out.read())
            if until_s is not None:
                if (left_s := until_s - clock()) <= 0:
                    raise TimeoutError("timed out in the TLS handshake")
                self.settimeout(left_s)
            if not (data := super().recv(RECORD_BYTES)):
                raise ConnectionResetError("the connection ended in the middle of the TLS handshake")
            self._in.write(data)

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Return text that has come; empty: that was all. Raises as a socket does, and SSLError."""
        while not self._is_ended and (data := PLAIN.recv(self, bufsize, flags)):
            self._in.write(data)
            text = b""
            try:
                while self._in.pending and not self._is_ended:
                    text += (piece := self._tls.read(RECORD_BYTES))
                    self._is_ended = not piece
            except ssl.SSLWantReadError:
                pass  # a part of a record
            if text:
                return text
        return b""

    def send(self, data: "bytes | memoryview", flags: int = 0, /) -> int:  # type: ignore[override]
        """Send a record, and return how many bytes of the text are in it; 0: call this again with the same text."""
        if not self._unsent:
            self._encrypted_bytes = self._tls.write(data[:RECORD_BYTES])
            self._unsent = self._out.read()
        self._unsent = self._unsent[super().send(self._unsent, flags) :]
        return 0 if self._unsent else self._encrypted_bytes

    def sendall(self, data: "bytes | memoryview", flags: int = 0, /) -> None:  # type: ignore[override]
        """Send all of a text."""
        at = 0
        while at < len(data):
            at += self._tls.write(data[at : at + RECORD_BYTES] if at else data)
            PLAIN.sendall(self, self._out.read(), flags)


def is_over(connection: TlsSocket) -> bool:
    """Whether the other side has closed a connection, or has sent something else than TLS does by itself."""
    if not roundtrip.is_over(connection.fileno()):
        return False
    try:
        connection.recv(RECORD_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def round_trip(connection: TlsSocket, data: bytes, count: int, reader: ReplyReader, replies: list[Reply]) -> int:
    """Do what that of :mod:`~beanpole.client.roundtrip` does."""
    connection.sendall(data)
    try:
        reader.receive(connection.recv(CLIENT_RECEIVE_BYTES))
    except BlockingIOError:
        return roundtrip.LATE
    return roundtrip.WHOLE if reader.read_into(replies, count) else len(data)
