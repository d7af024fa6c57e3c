"""Why a job does not run, as a client sees it."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from beanpole.client.sentences import sentence
from beanpole.client.stats import lines_of, unquoted
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason that holds."""

    word: str
    """What kind it is: ``paused``, ``delayed``, ``reserved`` and so on."""

    facts: Mapping[str, Any]
    """What the server says of it, by the names on the page Protocol; durations are in seconds."""

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return sentence(self.word, self.facts)


@dataclass(frozen=True, slots=True)
class Explanation(Mapping[str, str]):
    """Why a job is not being done, or why a tube hands out no jobs: what the server says, by its keys."""

    reasons: list[Reason]
    """Each reason that holds."""

    _values: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is no explanation."""
        values: dict[str, str] = {}
        reasons: list[Reason] = []
        for line in lines_of(data):
            key, colon, text = line.removeprefix("- ").partition(":")
            if not colon:
                raise UnexpectedReplyError(f"an explanation was expected: {data[:200]!r}")
            if line.startswith("- "):
                reasons.append(reason_of(key, text))
            elif key != "reasons":
                values[key] = unquoted(text.strip())
        return cls(reasons, values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def reason_of(word: str, text: str) -> Reason:
    """A reason of its word and its facts. Raises UnexpectedReplyError."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = Reason(word, json.loads(text))
        if isinstance(found.text, str):  # it has the facts that its sentence is made of
            return found
    raise UnexpectedReplyError(f"facts were expected: {text[:200]!r}")
