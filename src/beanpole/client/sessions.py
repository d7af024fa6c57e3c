"""Who is connected to a server, as ``list-sessions`` says it."""

import json
import re
from dataclasses import dataclass
from typing import Self

from beanpole.client.stats import lines_of
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A connection to the server. Durations are in seconds."""

    number: int
    name: str
    """What it has called itself; empty: nothing."""
    peer: str
    """The address of the client; ``console`` for the server's own; empty: unknown."""
    since: float
    """For how long it has been connected."""
    last_command: str
    """Its last command; empty: there was none. A wrong one is ``bad-format`` or ``unknown-command``, for example."""
    last_command_age: float
    used: str
    watched: list[str]
    """The first of the tubes that it watches."""
    watched_count: int
    waiting: float | None
    """For how long it has waited for a job; None: it does not."""
    jobs_held: int
    oldest_held: float | None
    """For how long it has held the job that it has held longest; None: it holds none."""

    @classmethod
    def parse_many(cls, data: bytes) -> list[Self]:
        """Reads a list of them. Raises UnexpectedReplyError for what is none; unknown keys are left out."""
        items: list[dict[str, str]] = []
        for line in lines_of(data):
            if line.startswith("- "):
                items.append({})
            key, colon, value = line[2:].partition(": ")
            if not items or line[:2] not in {"- ", "  "} or not colon:
                raise UnexpectedReplyError(f"a list of sessions was expected: {data[:200]!r}")
            items[-1][key] = value
        try:
            return [cls._of(item) for item in items]
        except (KeyError, ValueError) as error:
            raise UnexpectedReplyError(f"a list of sessions was expected: {error!r} in {data[:200]!r}") from error

    @classmethod
    def _of(cls, item: dict[str, str]) -> Self:
        command = item["last-command"]
        return cls(
            number=int(item["number"]),
            name=str(json.loads(item["name"])),
            peer=str(json.loads(item["peer"])),
            since=float(item["since"]),
            last_command="" if command == "none" else command,
            last_command_age=float(item["last-command-age"]),
            used=item["used"],
            watched=re.findall(r"[^\[\], ]+", item["watched"]),
            watched_count=int(item["watched-count"]),
            waiting=float(item["waiting"]) if "waiting" in item else None,
            jobs_held=int(item["jobs-held"]),
            oldest_held=float(item["oldest-held"]) if "oldest-held" in item else None,
        )
