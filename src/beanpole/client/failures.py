"""How many jobs have failed and why, as ``stats-failures`` says it."""

import json
from dataclasses import dataclass
from typing import Self

from beanpole.client.stats import lines_of
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that failed in one tube for one reason. Moments are in Unix seconds."""

    tube: str | None
    """In which tube they failed; None: in several, of which there are too many."""
    error: str | None
    """The first line of what their workers said, with ``…`` for what differs from job to job; empty: no worker said
    anything; None: these are the tube's jobs of further errors, of which there are too many."""
    line: str
    """The first line of what one of them says."""
    count: int
    buried: int
    """How many of them are no dead jobs, but were buried by their workers."""
    attempts: int
    """How many died as their last attempt failed."""
    expired: int
    given_up: int
    last: int
    """The id of the one that failed last."""
    first_died: float | None
    """When the first of them died since the group is there; None: none did."""
    last_died: float | None


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """How many jobs have failed, and why."""

    total: int
    groups: list[FailureGroup]
    """The largest first."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError; unknown keys are left out."""
        total = 0
        items: list[dict[str, str]] = []
        for line in lines_of(data):
            key, _, value = line.removeprefix("- ").strip().partition(": ")
            if line.startswith("- "):
                items.append({})
            if line.startswith(("- ", "  ")) and items:
                items[-1][key] = value
            elif key == "total" and value.isdecimal():
                total = int(value)
            elif line not in {"groups:", "groups: []"}:
                raise UnexpectedReplyError(f"groups of failures were expected: {data[:200]!r}")
        try:
            return cls(total, [group_of(each) for each in items])
        except (KeyError, ValueError) as error:
            raise UnexpectedReplyError(f"groups of failures were expected: {error!r} in {data[:200]!r}") from error


def group_of(item: dict[str, str]) -> FailureGroup:
    """A group of what the server says of it."""
    return FailureGroup(
        tube=item.get("tube"),
        error=json.loads(item["error"]) if "error" in item else None,
        line=json.loads(item["line"]) if "line" in item else "",
        count=int(item["count"]),
        buried=int(item["buried"]),
        attempts=int(item["attempts"]),
        expired=int(item["expired"]),
        given_up=int(item["given-up"]),
        last=int(item["last"]),
        first_died=float(item["first-died"]) if "first-died" in item else None,
        last_died=float(item["last-died"]) if "last-died" in item else None,
    )
