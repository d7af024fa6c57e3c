"""A server that is in use, and a script's visit there: a corner of its own, which is empty again afterwards.

Every connection of the script begins with a tube of the script's own in place of `default`, so that no job of anybody
else can come to it. Behind the script all jobs in its tubes are deleted, which takes nothing but old commands, and its
rules are dropped.
"""

import contextlib
import socket
import time
from collections.abc import Callable

from beanpole.conformance.limits import JOBS_LEFT_MAX, PATIENCE_S, SETTLE_S
from beanpole.conformance.names import CRLF, DEFAULT, Names

Dial = Callable[[], socket.socket]
"""Gives a new connection. Raises OSError."""

LOOKS = 50
"""How often it is looked whether the jobs of a connection that has ended have come back."""


class Talk:
    """A connection on which each command is answered before the next is sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(PATIENCE_S)
        self.received = b""

    def ask(self, line: bytes) -> bytes:
        """Send a line and return that of the reply, without its body. Raises OSError."""
        self.connection.sendall(line + CRLF)
        while CRLF not in self.received:
            self.more()
        reply, _, self.received = self.received.partition(CRLF)
        return reply

    def ask_body(self, line: bytes) -> bytes:
        """Send a line and return the body of the reply; b"" if it has none. Raises OSError."""
        word, _, rest = self.ask(line).partition(b" ")
        size = rest.rpartition(b" ")[2]
        if word not in {b"OK", b"FOUND"} or not size.isdigit():
            return b""
        while len(self.received) < int(size) + 2:
            self.more()
        body, self.received = self.received[: int(size)], self.received[int(size) + 2 :]
        return body

    def more(self) -> None:
        """Receive more. Raises OSError."""
        piece = self.connection.recv(1 << 16)
        if not piece:
            raise ConnectionResetError("the server has closed the connection")
        self.received += piece


def moved_in(dial: Dial, names: Names) -> socket.socket:
    """Return a connection that uses and watches nothing but our tube for `default`. Raises OSError."""
    talk = Talk(dial())
    tube = names.tube(DEFAULT)
    for line, reply in (
        (b"use " + tube, b"USING " + tube),
        (b"watch " + tube, b"WATCHING 2"),
        (b"ignore default", b"WATCHING 1"),
    ):
        if (got := talk.ask(line)) != reply:
            raise ConnectionError(f"{line.decode()!r} was answered with {got!r}")
    return talk.connection


def clean(dial: Dial, names: Names, *, rules: bool) -> None:
    """Delete what is left in the tubes of a script, when its connections are closed. Raises OSError."""
    with contextlib.closing(dial()) as connection:
        talk = Talk(connection)
        if rules:
            for pattern in [*names.tubes.values(), *names.patterns.values()]:
                talk.ask(b"drop-rules " + pattern)
        for tube in names.tubes.values():
            empty(talk, tube)


def empty(talk: Talk, tube: bytes) -> None:
    """Delete the jobs of a tube, also those that a connection holds which is about to end. Raises OSError."""
    for _ in range(LOOKS):
        statistics = talk.ask_body(b"stats-tube " + tube)
        counts = dict(line.split(b": ", 1) for line in statistics.splitlines()[1:])
        left = {name: int(counts.get(b"current-jobs-" + name, 0)) for name in STATES}
        if not any(left.values()):
            return
        talk.ask(b"use " + tube)
        for state in left.keys() - {b"reserved"}:
            for _ in range(min(left[state], JOBS_LEFT_MAX)):
                talk.ask(b"delete " + next_of(talk, state))
        talk.ask(b"use default")
        if left[b"reserved"]:
            time.sleep(SETTLE_S)


STATES = (b"ready", b"reserved", b"delayed", b"buried")


def next_of(talk: Talk, state: bytes) -> bytes:
    """Return the id of the next job of a state in the tube in use; an id of no job if there is none. Raises OSError."""
    found = talk.ask(b"peek-" + state).split(b" ")
    if found[0] != b"FOUND":
        return b"0"
    size = int(found[2]) + 2
    while len(talk.received) < size:
        talk.more()
    talk.received = talk.received[size:]
    return found[1]
