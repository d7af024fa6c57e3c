"""Replies as golden scripts see them: which ones are right, and how bad it is for a client if they are not.

Replies carry no names: a client takes the next one for that to its oldest command. So the worst is a reply that is
missing, too many or at another's place. A wrong job is what a program may get along with, other words what a person
reads. Statistics are compared in `beanpole.conformance.script`.
"""

import enum
from collections.abc import Callable, Iterator, Sequence

from beanpole.errors import ExitCode

CRLF = b"\r\n"
WITH_BODY = {b"OK", b"RESERVED", b"FOUND", b"JOB"}  # their lines say how many bytes follow
HANDED_OUT = {b"RESERVED", b"FOUND", b"JOBS", b"JOB", b"TIMED_OUT", b"DEADLINE_SOON", b"NOT_FOUND"}
"""The words of replies that say which job it is, or that there is none."""

Part = bytes | Callable[[bytes], bool]
"""A piece of what is expected: bytes, or a test for what comes up to the end of the line."""


def split(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the line of each reply, the CRLF behind it, and its body with CRLF. The last reply may be cut."""
    while data:
        line, end, data = data.partition(CRLF)
        word, *arguments = line.split(b" ")
        digits = arguments[min(1, len(arguments) - 1)] if arguments else b""
        size = int(digits) + 2 if word in WITH_BODY and digits.isdigit() else 0
        yield line, end, data[:size]
        data = data[size:]


def heads(data: bytes) -> list[bytes]:
    """Return the first words of the replies in some bytes; the last may be cut."""
    return [line.split(b" ")[0] for line, _, _ in split(data)]


def expectation(data: bytes) -> list[Part]:
    """Return the pieces of what replies must be."""
    parts: list[Part] = []
    for line, end, body in split(data):
        match line.split(b" "):
            case [b"JOB", _, digits, *_] if digits.isdigit():
                parts.append(frame(line))
            case [b"BAD_RULES", number, *_]:
                parts += [b"BAD_RULES " + number + b" ", lambda sentence: sentence != b""]  # it is for people
            case _:
                parts.append(line)
        parts += [end, body]
    return parts


def frame(line: bytes) -> Callable[[bytes], bool]:
    """Return a test for the line of a JOB frame: it may have more fields, in any order, and the job may be older."""
    wanted = read_frame(line)

    def fits(got: bytes) -> bool:
        head, fields = read_frame(got)
        return head == wanted[0] and all(
            fields.get(name) == value or (name == b"age" and float(fields.get(name, b"-1")) >= float(value))
            for name, value in wanted[1].items()
        )

    return fits


def read_frame(line: bytes) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Return the words of a frame that stand in their places, and its fields."""
    words = line.split(b" ")
    return words[:3], dict(word.split(b"=", 1) for word in words[3:] if b"=" in word)


def match(wanted: list[Part], got: bytes) -> int | None:
    """Return how many bytes are what is wanted: more than there are if more must come, None if they are others."""
    at = 0
    for part in wanted:
        if at > len(got):
            break
        if isinstance(part, bytes):
            if got[at : at + len(part)] != part[: len(got) - at]:
                return None
            at += len(part)
        else:
            end = got.find(CRLF, at)
            if end >= 0 and not part(got[at:end]):
                return None
            at = end if end >= 0 else len(got) + 1
    return at


class Grade(enum.Enum):
    """How bad a failure is, the worst first: its name, what it means for clients, and the exit code of the verb."""

    LOST = (
        "lost",
        "replies are missing, too many or mixed up: a client hangs, or takes one for another",
        ExitCode.FAILED,
    )
    ORDER = "order", "another job comes than the protocol says, or at another time", ExitCode.OTHER_ORDER
    WORDS = "words", "the same is said in other words, or statistics differ", ExitCode.OTHER_WORDS

    def __init__(self, text: str, meaning: str, exit_code: ExitCode) -> None:
        self.text = text
        self.meaning = meaning
        self.exit_code = exit_code


def grade_of(wanted: Sequence[bytes], got: Sequence[bytes], later: int = 0) -> Grade:
    """Return how bad it is that replies with these words are not as wanted; so many more may have come already."""
    if not len(wanted) <= len(got) <= len(wanted) + later:
        return Grade.LOST
    got = got[: len(wanted)]
    if wanted != got and sorted(wanted) == sorted(got):
        return Grade.LOST
    wrong = {word for pair in zip(wanted, got, strict=True) if len({*pair}) == 2 for word in pair} or {*wanted}
    return Grade.ORDER if wrong <= HANDED_OUT else Grade.WORDS
