"""What a golden script is run against: what a script does to it, and a server behind sockets, in real time."""

import select
import socket
import time
from collections.abc import Callable
from typing import Protocol


class Target(Protocol):
    """The operations of a script."""

    def connect(self, name: str) -> None:
        """Open a connection."""

    def send(self, name: str, data: bytes) -> None:
        """Send bytes."""

    def more(self, name: str, *, expected: bool) -> bytes:
        """Receive what comes; b"" when nothing does."""

    def half_close(self, name: str) -> None:
        """Send a FIN."""

    def disconnect(self, name: str) -> None:
        """Close a connection."""

    def is_closed(self, name: str) -> bool:
        """Whether the server has closed a connection."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""

    def drain(self) -> None:
        """Have the server drain."""


class ServerTarget:
    """A server: replies are awaited, and time passes only where the script says so.

    `connect` gives a connection that is known to be accepted; `drain` puts the server into drain mode. A reply is
    awaited for `patience_s`. The server has `settle_s` to send what it must not send, or to notice a FIN: too short
    means that a mistake is found at a later line of the script, not a false alarm, as servers handle what happens to
    them in order.
    """

    def __init__(
        self,
        connect: Callable[[], socket.socket],
        drain: Callable[[], None],
        patience_s: float,
        settle_s: float,
    ) -> None:
        self.open = connect
        self.drain = drain
        self.patience_s = patience_s
        self.settle_s = settle_s
        self.sockets: dict[str, socket.socket] = {}

    def connect(self, name: str) -> None:
        """Open a connection."""
        self.sockets[name] = self.open()

    def send(self, name: str, data: bytes) -> None:
        """Send bytes."""
        self.sockets[name].sendall(data)

    def more(self, name: str, *, expected: bool) -> bytes:
        """Receive what comes, which is waited for if it is expected."""
        patience_s = self.patience_s if expected else self.settle_s
        readable, _, _ = select.select([self.sockets[name]], [], [], patience_s)
        return self.sockets[name].recv(1 << 20) if readable else b""

    def half_close(self, name: str) -> None:
        """Send a FIN."""
        self.sockets[name].shutdown(socket.SHUT_WR)

    def disconnect(self, name: str) -> None:
        """Close a connection."""
        self.sockets.pop(name).close()
        time.sleep(self.settle_s)

    def is_closed(self, name: str) -> bool:
        """Whether the server has closed the connection."""
        try:
            return self.sockets[name].recv(1) == b""
        except ConnectionResetError:  # Closed as well: by a server that had not read all that was sent.
            return True

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close what the script has left open."""
        for connection in self.sockets.values():
            connection.close()
