"""The socket with TLS of the blocking client: records in pieces, tickets, and ends."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import pytest

from beanpole.client import tls
from tests.unit.client.peer import WAIT_S
from tests.unit.client.test_login import server_context, trusting


class Far:
    """The other end of a TLS socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = server_context().wrap_bio(self._in, self._out, server_side=True)

    def shake_hands(self, size: int) -> None:
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush(size)
                self._in.write(self._socket.recv(size))
        self.flush()

    def flush(self, size: int = 100_000) -> None:
        data = self._out.read()
        for start in range(0, len(data), size):
            self._socket.sendall(data[start : start + size])

    def read(self) -> bytes:
        """Return all that has come."""
        found = b""
        while True:
            try:
                found += self.tls.read(100_000)
            except ssl.SSLWantReadError:
                try:
                    self._in.write(self._socket.recv(100_000, socket.MSG_DONTWAIT))
                except BlockingIOError:
                    return found


@contextlib.contextmanager
def connected(size: int = 100_000) -> Iterator[tuple[tls.TlsSocket, Far]]:
    """Two ends that have shaken hands, the far one in pieces of a size."""
    near, far_socket = socket.socketpair()
    with far_socket:
        far = Far(far_socket)
        thread = threading.Thread(target=far.shake_hands, args=(size,), daemon=True)
        thread.start()
        with tls.TlsSocket(near, trusting().context(), "localhost", None, time.monotonic) as made:
            thread.join(WAIT_S)
            yield made, far


def test_tickets_are_no_end_and_nothing_that_came_unasked() -> None:
    with connected() as (near, far):
        assert not tls.is_over(near)  # though two tickets have come with the handshake's end
        far.tls.write(b"x")
        far.flush()
        assert tls.is_over(near)
    with connected() as (near, far):
        assert not tls.is_over(near)
        with pytest.raises(ssl.SSLWantReadError):
            far.tls.unwrap()
        far.flush()
        assert tls.is_over(near)
        assert near.recv(10) == b""


def test_records_in_pieces_and_several_at_once() -> None:
    with connected(1) as (near, far):
        near.setblocking(True)
        for text in (b"one", b"two"):
            far.tls.write(text)
            far.flush(1)
        assert near.recv(1) + near.recv(1) == b"onetwo"
        far.tls.write(b"three")
        far.tls.write(b"four")
        far.flush()
        assert near.recv(65_536) == b"threefour"
        near.sendall(b"x" * 40_000)
        assert far.read() == b"x" * 40_000


def test_what_the_kernel_does_not_take_is_sent_with_the_next_call() -> None:
    text = b"".join(b"%07d\n" % number for number in range(200_000))
    with connected() as (near, far):
        near.setblocking(False)
        view = memoryview(text)
        received = b""
        while view:
            try:
                view = view[near.send(view) :]
            except BlockingIOError:
                received += far.read()
        received += far.read()
    assert received == text
