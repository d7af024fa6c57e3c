"""What a user may do, and what is used of limits, as ``list-rights`` says it."""

import json
from dataclasses import dataclass
from typing import Any, Self

from beanpole.client.stats import lines_of
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class Rights:
    """What ``list-rights`` says: who the user of the connection is, and what it may do."""

    user: str
    admin: bool
    """Whether it may do everything."""
    stats: bool
    """Whether it sees everybody's numbers."""
    patterns: dict[str, tuple[str, ...]]
    """The patterns of tubes of each right."""
    used: dict[str, int]
    """Its ``connections`` and ``connections-max``, its ``commands``, and how many of them were ``refused``;
    0: no limit."""
    spaces: dict[str, dict[str, int]]
    """By their patterns the spaces that concern it: ``jobs``, ``bytes`` and ``tubes``, and of each how much there may
    be, as ``jobs-max``; 0: no limit."""
    users: dict[str, dict[str, int]]
    """The users with the most commands, with the same as in `used`; none where `stats` is False."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is something else."""
        said: dict[str, Any] = {}
        rows: dict[str, dict[str, dict[str, int]]] = {"spaces": {}, "users": {}}
        part: dict[str, dict[str, int]] = {}
        try:
            for line in lines_of(data):
                if line.startswith("- "):
                    (_, name), *pairs = json.loads(line[2:]).items()
                    part[name] = dict(pairs)
                elif line.endswith(":"):
                    part = rows.setdefault(line[:-1], {})
                else:
                    key, _, text = line.partition(": ")
                    said[key] = text if key == "user" else json.loads(text)
            return cls(
                said["user"],
                said["admin"],
                said["stats"],
                {right: tuple(each) for right, each in said.items() if isinstance(each, list)},
                {key: number for key, number in said.items() if type(number) is int},
                **rows,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnexpectedReplyError(f"rights were expected: {error!r} in {data[:200]!r}") from None
