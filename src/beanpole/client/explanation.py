"""Why a job does not run, as a client sees it."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from beanpole.client.stats import lines_of, unquoted
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason that holds."""

    word: str
    """What kind it is: ``paused``, ``delayed``, ``reserved`` and so on."""

    text: str
    """The same as a sentence."""


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
                reasons.append(Reason(key, written(text.strip())))
            elif key != "reasons":
                values[key] = unquoted(text.strip())
        return cls(reasons, values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def written(text: str) -> str:
    """What a sentence says; what somebody else wrote is a string of JSON."""
    if text.startswith('"'):
        with contextlib.suppress(ValueError):
            return str(json.loads(text))
    return text
