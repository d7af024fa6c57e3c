"""Plays a golden script against a target, and says where the conversation first went otherwise."""

from beanpole.conformance.script import Script, Step, check_statistics
from beanpole.conformance.target import Target

Outcome = str | None
"""What went wrong, None for nothing."""


class Run:
    """One run of a script against a target, with what each connection has been sent and has not been asked for yet."""

    def __init__(self, script: Script, target: Target) -> None:
        self.script = script
        self.target = target
        self.received: dict[str, bytes] = {}

    def outcome(self) -> Outcome:
        """Runs all steps; the first that fails ends the run."""
        for step in self.script.steps:
            if problem := self.step(step):
                return f"{self.script.path.name}:{step.line}: {problem}"
        for name in self.received:
            if left := self.unexpected(name):
                return f"{self.script.path.name}: at the end {name} has got {left!r}"
        return None

    def step(self, step: Step) -> Outcome:
        """Does one line of the script."""
        name = step.name
        if name and name not in self.received:
            self.received[name] = b""
            self.target.connect(name)
        if step.kind == "send":
            self.target.send(name, step.data)
        elif step.kind == "expect":
            return self.expect(name, step)
        elif step.kind == "silence":
            return f"{name} has got {left!r}" if (left := self.unexpected(name)) else None
        elif step.kind == "is closed":
            left = self.unexpected(name)
            return f"{name} has got {left!r}" if left else None if self.target.is_closed(name) else f"{name} is open"
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

    def expect(self, name: str, step: Step) -> Outcome:
        """Reads the next reply: exactly the step's bytes, or statistics that fit."""
        if not step.statistics:
            got = self.take(name, len(step.data), wanted=step.data)
            return None if got == step.data else f"wanted {step.data!r}, got {got!r}"
        while b"\r\n" not in self.received[name] and self.fill(name):
            pass
        line, _, _ = self.received[name].partition(b"\r\n")
        if not line.startswith(b"OK "):
            return f"wanted statistics, got {self.received[name]!r}"
        self.take(name, len(line) + 2)
        return check_statistics(self.take(name, int(line[3:]) + 2)[:-2], step.statistics) or None

    def take(self, name: str, size: int, wanted: bytes = b"") -> bytes:
        """The next bytes for a connection; fewer when no more come, or when they are not what is wanted."""
        while len(self.received[name]) < size and self.fill(name):
            if wanted and not wanted.startswith(self.received[name][:size]):
                size = len(self.received[name])
        got, self.received[name] = self.received[name][:size], self.received[name][size:]
        return got

    def fill(self, name: str, *, expected: bool = True) -> bool:
        """Receives more for a connection; false when nothing comes."""
        piece = self.target.more(name, expected=expected)
        self.received[name] += piece
        return bool(piece)

    def unexpected(self, name: str) -> bytes:
        """What a connection has got beyond what the script expected."""
        if not self.received[name]:
            self.fill(name, expected=False)
        return self.received[name]
