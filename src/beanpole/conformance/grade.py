"""How bad it is for a client that a server answers otherwise than a script says.

Replies carry no names: a client takes the next one for that to its oldest command. So the worst is a reply that is
missing, too many or at another's place. A wrong job is what a program may get along with, other words what a person
reads.
"""

import enum
from collections.abc import Sequence

from beanpole.conformance.expectation import CRLF, WITH_BODY
from beanpole.errors import ExitCode


class Grade(enum.Enum):
    """How bad a failure is, the worst first. Each has a name, what it means, and the exit code of the verb."""

    LOST = (
        "lost",
        "replies are missing, too many or mixed up: a client hangs, or takes one for another",
        ExitCode.FAILED,
    )
    ORDER = "order", "another job comes than the protocol says, or at another time", ExitCode.OTHER_ORDER
    WORDS = "words", "the same is said in other words, or statistics differ", ExitCode.OTHER_WORDS

    @property
    def text(self) -> str:
        """Its name in reports."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """What it means for clients."""
        return self.value[1]

    @property
    def exit_code(self) -> ExitCode:
        """Of a server of which it is the worst failure."""
        return self.value[2]


HANDED_OUT = {b"RESERVED", b"FOUND", b"JOBS", b"JOB", b"TIMED_OUT", b"DEADLINE_SOON", b"NOT_FOUND"}
"""The words of replies that say which job it is, or that there is none."""


def heads(data: bytes) -> list[bytes]:
    """Return the first words of the replies in some bytes; the last may be cut."""
    found = []
    while data:
        line, _, data = data.partition(CRLF)
        words = line.split(b" ")
        found.append(words[0])
        size = words[min(2, len(words) - 1)]
        if words[0] in WITH_BODY and size.isdigit():
            data = data[int(size) + 2 :]
    return found


def grade_of(wanted: Sequence[bytes], got: Sequence[bytes], later: int = 0) -> Grade:
    """Return how bad it is that replies with these words are not as wanted; so many more may have come already."""
    if not len(wanted) <= len(got) <= len(wanted) + later:
        return Grade.LOST
    got = got[: len(wanted)]
    if wanted != got and sorted(wanted) == sorted(got):
        return Grade.LOST
    wrong = {word for pair in zip(wanted, got, strict=True) if len({*pair}) == 2 for word in pair} or {*wanted}
    return Grade.ORDER if wrong <= HANDED_OUT else Grade.WORDS
