"""What users do to jobs that are not their own, and what they are refused: lines in the log, and never many.

The first of its kind is said at once, and how many like it have followed once a second for as long as there are some.
A client makes up the names of tubes: beyond a hundred kinds of a user there is one sum, so that nobody keeps the acts
of others out of the log. No line has a token or a body.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from beanpole.protocol.commands import Verb
from beanpole.server.logs import Logger

KINDS_MAX = 100
"""Kinds of lines that a user has in a second."""


@dataclass(slots=True)
class Line:
    """A line that was written."""

    event: str
    about: Mapping[str, str]
    count: int = 0
    """How many like it have followed since it was written."""


class Audit:
    """Writes the lines. `flush` is called once a second."""

    def __init__(self, logger: Logger, describe: Callable[[object], str] = str) -> None:
        """`describe` says of a client who is at the other end."""
        self.logger = logger
        self.describe = describe
        self.lines: dict[str, dict[object, Line]] = {}  # by their users and kinds
        self.left_out: dict[str, int] = {}  # by users: of which kind is not known
        self.is_flushing = False

    def note(self, user: str, kind: object, event: str, about: Callable[[], Mapping[str, str]]) -> None:
        """Take note of something of a kind, and write what it is about if there was none for a second."""
        lines = self.lines.setdefault(user, {})
        line = lines.get(kind)
        if line is not None:
            line.count += 1
        elif len(lines) < KINDS_MAX:
            lines[kind] = Line(event, about())
            self.logger.warning(event, user=user, **lines[kind].about)
        else:
            self.left_out[user] = self.left_out.get(user, 0) + 1

    def acted(self, client: object, name: bytes, verb: int, tube: bytes, allowed: bool) -> None:
        """Take note of a command of a user."""
        self.note(
            name.decode(),
            (client, verb, tube, allowed),
            "audit",
            lambda: {
                "peer": self.describe(client),
                "command": str(Verb(verb).name).lower().replace("_", "-"),
                "tube": tube.decode("ascii", "backslashreplace"),
                "result": "allowed" if allowed else "refused",
            },
        )

    def flush(self) -> Iterator[None]:
        """Write how many have followed since the last time, a line at each step, and forget kinds of which none have.

        While an earlier one has lines to write, there is nothing to do.
        """
        if self.is_flushing:
            return
        self.is_flushing = True
        for user, lines in list(self.lines.items()):
            for kind, line in list(lines.items()):
                if line.count:
                    self.logger.warning(line.event, user=user, **line.about, more=line.count)
                    line.count = 0
                    yield
                else:
                    del lines[kind]
            if not lines:
                del self.lines[user]
        for user in list(self.left_out):
            self.logger.warning("audit", user=user, left_out=self.left_out.pop(user))
            yield
        self.is_flushing = False
