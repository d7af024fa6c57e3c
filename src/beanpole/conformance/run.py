"""Plays a golden script against a target, a server behind sockets for one, and says where the two first differ."""

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from beanpole.conformance.replies import CRLF, Grade, Part, expectation, grade_of, heads, match
from beanpole.conformance.script import Script, Step, check_statistics


class Target(Protocol):
    """The operations of a script."""

    def connect(self, name: str) -> None:
        """Open a connection."""

    def send(self, name: str, data: bytes) -> None:
        """Send bytes."""

    def more(self, name: str, *, expected: bool) -> bytes:
        """Receive what comes, which is waited for if it is expected; b"" when nothing does."""

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
        self.sockets[name] = self.open()

    def send(self, name: str, data: bytes) -> None:
        self.sockets[name].sendall(data)

    def more(self, name: str, *, expected: bool) -> bytes:
        patience_s = self.patience_s if expected else self.settle_s
        readable, _, _ = select.select([self.sockets[name]], [], [], patience_s)
        return self.sockets[name].recv(1 << 20) if readable else b""

    def half_close(self, name: str) -> None:
        self.sockets[name].shutdown(socket.SHUT_WR)

    def disconnect(self, name: str) -> None:
        self.sockets.pop(name).close()
        time.sleep(self.settle_s)

    def is_closed(self, name: str) -> bool:
        try:
            return self.sockets[name].recv(1) == b""
        except ConnectionResetError:  # Closed as well: by a server that had not read all that was sent.
            return True

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Close what the script has left open."""
        for connection in self.sockets.values():
            connection.close()


@dataclass(frozen=True)
class Problem:
    """Where a conversation went otherwise than its script says."""

    script: Script
    line: int
    text: str
    sent: bytes = b""
    """What the connection was sent before."""

    grade: Grade = Grade.LOST
    expected: bytes = b""
    received: bytes = b""

    def __str__(self) -> str:
        return f"{self.script.path.name}:{self.line}: {self.text}"


class Run:
    """One run of a script against a target, with what each connection has been sent and has not been asked for yet.

    The target is a fresh server. With `exact`, time stands still where the script does not let it pass, so that frames
    are compared byte by byte. With `may_quote`, names of tubes may stand in quotes in statistics, as those of
    beanstalkd 1.13 do.
    """

    def __init__(self, script: Script, target: Target, *, exact: bool = False, may_quote: bool = False) -> None:
        self.script = script
        self.target = target
        self.exact = exact
        self.may_quote = may_quote
        self.received: dict[str, bytes] = {}
        self.sent: dict[str, bytes] = {}
        """What each connection was sent last."""

    def outcome(self) -> Problem | None:
        """Run all steps; the first that fails ends the run."""
        for step in self.script.steps:
            if problem := self.step(step):
                return problem
        for name in self.received:
            if left := self.unexpected(name):
                return self.problem(self.script.steps[-1], name, f"at the end {name} has got {left!r}", received=left)
        return None

    def problem(self, step: Step, name: str, text: str, grade: Grade = Grade.LOST, **said: bytes) -> Problem:
        """Return what went wrong at a step; `said` is what was expected and received."""
        return Problem(self.script, step.line, text, self.sent.get(name, b""), grade, **said)

    def due(self, step: Step) -> tuple[list[bytes], list[bytes]]:
        """Return the words of the replies that are due at a step, and of those that may have come as well.

        The latter are those for which the script has something else to do, but not on the same connection.
        """
        now: list[bytes] = []
        later: list[bytes] = []
        found = now
        for each in self.script.steps[self.script.steps.index(step) :]:
            if each.kind == "send" and each.name == step.name:
                break
            if each.kind == "expect" and each.name == step.name:
                found += heads(each.data)
            else:
                found = later
        return now, later

    def grade(self, step: Step) -> Grade:
        """Return how bad it is that replies are not as a step says, when all that come are there."""
        now, later = self.due(step)
        while len(heads(self.received[step.name])) < len(now) and self.fill(step.name):
            pass
        self.fill(step.name, expected=False)
        return grade_of(now, heads(self.received[step.name]), len(later))

    def step(self, step: Step) -> Problem | None:
        """Do one line of the script."""
        name = step.name
        if name and name not in self.received:
            self.received[name] = b""
            self.target.connect(name)
        if step.kind == "expect":
            return self.expect(name, step)
        if step.kind in {"silence", "is closed"}:
            return self.quiet(name, step)
        if step.kind == "send":
            self.sent[name] = step.data
            self.target.send(name, step.data)
        elif step.kind == "half-closes":
            self.target.half_close(name)
        elif step.kind == "disconnects":
            self.target.disconnect(name)
            del self.received[name]
        elif step.kind == "advance":
            self.target.advance(step.seconds)
        elif step.kind == "drain":
            self.target.drain()
        return None

    def quiet(self, name: str, step: Step) -> Problem | None:
        """Make sure that a connection has got nothing more, and is closed if it must be."""
        if left := self.unexpected(name):
            _, later = self.due(step)
            early = heads(left)
            grade = Grade.ORDER if early == later[: len(early)] else Grade.LOST
            return self.problem(step, name, f"{name} has got {left!r}", grade, received=left)
        if step.kind == "is closed" and not self.target.is_closed(name):
            return self.problem(step, name, f"{name} is open")
        return None

    def expect(self, name: str, step: Step) -> Problem | None:
        """Read the next replies: those of the step, or statistics that fit."""
        if step.statistics:
            return self.expect_statistics(name, step)
        wanted: list[Part] = [step.data] if self.exact else expectation(step.data)
        while True:
            got = self.received[name]
            size = match(wanted, got)
            if size is not None and size <= len(got):
                self.received[name] = got[size:]
                return None
            if size is None or not self.fill(name):
                break
        text = f"wanted {step.data!r}, got {got!r}"
        return self.problem(step, name, text, self.grade(step), expected=step.data, received=got)

    def expect_statistics(self, name: str, step: Step) -> Problem | None:
        """Read statistics, and compare those that the step names."""
        while CRLF not in self.received[name] and self.fill(name):
            pass
        line, _, rest = self.received[name].partition(CRLF)
        word, _, digits = line.partition(b" ")
        text = f"wanted statistics, got {self.received[name]!r}"
        if word == b"OK" and digits.isdigit():
            size = len(line) + int(digits) + 4
            while len(self.received[name]) < size and self.fill(name):
                pass
            got, self.received[name] = self.received[name][:size], self.received[name][size:]
            text = check_statistics(got[len(line) + 2 : -2], step.statistics, may_quote=self.may_quote)
            grade, rest = Grade.WORDS, text.encode()
        else:
            grade, rest = self.grade(step), self.received[name]
        if not text:
            return None
        expected = "\n".join(["OK", *step.statistics]).encode()
        return self.problem(step, name, text, grade, expected=expected, received=rest)

    def fill(self, name: str, *, expected: bool = True) -> bool:
        """Receive more for a connection; false when nothing comes."""
        piece = self.target.more(name, expected=expected)
        self.received[name] += piece
        return bool(piece)

    def unexpected(self, name: str) -> bytes:
        """Return what a connection has got beyond what the script expected."""
        if not self.received[name]:
            self.fill(name, expected=False)
        return self.received[name]
