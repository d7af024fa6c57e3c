"""What a script expects, in pieces, of which more than one answer may be right.

Statistics are compared in :mod:`beanpole.conformance.script`.
"""

from dataclasses import dataclass

CRLF = b"\r\n"

WITH_BODY = (b"OK", b"RESERVED", b"FOUND", b"JOB")
"""Replies whose line says how many bytes follow."""

AGE = b"age"
"""The field of a frame that grows while a script is played in real time."""


@dataclass(frozen=True)
class Frame:
    """The line of a JOB frame: it may have more fields, in any order, and the job may be older."""

    id: bytes
    size: bytes
    fields: dict[bytes, bytes]

    def fits(self, line: bytes) -> bool:
        """Whether a line is such a frame's."""
        words = line.split(b" ")
        fields = dict(word.split(b"=", 1) for word in words[3:] if b"=" in word)
        return words[:3] == [b"JOB", self.id, self.size] and all(
            fields.get(name) == value or (name == AGE and float(fields.get(name, b"-1")) >= float(value))
            for name, value in self.fields.items()
        )


@dataclass(frozen=True)
class Sentence:
    """What is said to people: any words, up to the end of the line."""

    def fits(self, line: bytes) -> bool:
        """Whether there are any."""
        return line != b""


Part = bytes | Frame | Sentence
"""A piece of what is expected."""


def expectation(data: bytes) -> list[Part]:
    """Return the pieces of what replies must be."""
    parts: list[Part] = []
    while data:
        line, end, data = data.partition(CRLF)
        words = line.split(b" ")
        has_body = len(words) > 1 and words[0] in WITH_BODY and words[min(2, len(words) - 1)].isdigit()
        size = int(words[min(2, len(words) - 1)]) + 2 if has_body else 0
        match words:
            case [b"JOB", number, digits, *fields] if digits.isdigit():
                parts.append(Frame(number, digits, dict(word.split(b"=", 1) for word in fields)))
            case [b"BAD_RULES", number, *_]:
                parts += [b"BAD_RULES " + number + b" ", Sentence()]
            case _:
                parts.append(line)
        parts += [end, data[:size]]
        data = data[size:]
    return parts


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
            if end >= 0 and not part.fits(got[at:end]):
                return None
            at = end if end >= 0 else len(got) + 1
    return at
