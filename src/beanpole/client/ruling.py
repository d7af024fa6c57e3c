"""The rules of tubes, as a client sees them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from beanpole.client.stats import lines_of, parse_items, unquoted
from beanpole.errors import ArgumentError, UnexpectedReplyError
from beanpole.protocol import wire
from beanpole.protocol.rules import parse

ALL = "*"  # at the end of a pattern: whatever follows


def pattern_bytes(pattern: object) -> bytes:
    """A tube's name, the beginning of one with ``*`` behind it, or ``*``. Raises ArgumentError for anything else."""
    if not isinstance(pattern, str):
        raise ArgumentError(f"a pattern is a string, not {pattern!r}")
    begins = pattern.removesuffix(ALL)
    return (b"" if not begins and pattern else wire.tube_name(begins)) + (b"*" if begins != pattern else b"")


def rules_bytes(rules: str | Mapping[str, object]) -> tuple[bytes, list[str]]:
    """The lines of rules, and their names. Raises RulesError for what no server would take."""
    text = (rules if isinstance(rules, str) else text_of(rules)).encode("utf-8", "surrogateescape")
    parse(text)
    names = [each.partition(b":")[0].strip().decode() for each in text.splitlines() if each.strip()]
    return text, names


def text_of(rules: Mapping[str, object]) -> str:
    return "".join(f"{name}: {value}\n" for name, value in rules.items())


@dataclass(frozen=True, slots=True)
class Rules(Mapping[str, str]):
    """The rules of the tubes that a pattern names, by their names: ``rules["attempts"]`` is ``"5"``."""

    pattern: str
    """A tube's name, the beginning of one with ``*`` behind it, or ``*``."""

    _values: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is none."""
        return cls.of(lines_of(data))

    @classmethod
    def parse_many(cls, data: bytes) -> list[Self]:
        """Reads a list of them. Raises UnexpectedReplyError for what is none."""
        return [cls.of(each) for each in parse_items(data, "rules")]

    @classmethod
    def of(cls, lines: list[str]) -> Self:
        """Rules from the lines of one set."""
        values: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(": ")
            if not colon:
                raise UnexpectedReplyError(f"a rule was expected: {line!r}")
            values[name] = unquoted(value)
        pattern = values.pop("pattern", None)
        if pattern is None:
            raise UnexpectedReplyError(f"rules without a pattern: {lines!r}")
        return cls(pattern, values)

    @property
    def text(self) -> str:
        """The lines of the rules, as :meth:`~beanpole.client.Client.set_rules` takes them."""
        return text_of(self._values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
