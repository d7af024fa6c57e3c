"""What ``stats-histograms`` says, as typed values."""

import json
from dataclasses import dataclass
from typing import Self

from beanpole.client.stats import lines_of, unquoted
from beanpole.errors import UnexpectedReplyError


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many of some numbers lie between the bounds of their unit."""

    count: int
    sum: int
    counts: tuple[int, ...]
    """Up to the first bound; beyond that one and up to the second; and so on. The last: beyond all bounds."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a line. Raises UnexpectedReplyError for what is no histogram."""
        try:
            count, total, *counts = map(int, text.split(" "))
        except ValueError:
            raise UnexpectedReplyError(f"a histogram was expected: {text[:200]!r}") from None
        return cls(count, total, tuple(counts))


@dataclass(frozen=True, slots=True)
class Histograms:
    """A page of ``stats-histograms``. Times are in microseconds."""

    bounds: dict[str, tuple[int, ...]]
    """By unit: ``job`` for the times of jobs and of reserves, ``turn`` for turns and syncs, ``commands``."""

    server: dict[str, Histogram]
    """By name: ``job-ready``, ``job-held``, ``job-late``, ``reserve-wait``, ``turn``, ``turn-commands``, ``sync``."""

    tubes: dict[str, dict[str, Histogram]]
    """The times of jobs of each tube of the page, in the order of their names, where anything was counted."""

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Reads what the server sent. Raises UnexpectedReplyError for what is something else."""
        head, *lines = lines_of(data) or [""]
        bounds: dict[str, tuple[int, ...]] = {}
        try:
            bounds = {unit: tuple(map(int, each)) for unit, each in json.loads(head.removeprefix("bounds: ")).items()}
        except (ValueError, TypeError, AttributeError):
            raise UnexpectedReplyError(f"bounds of histograms were expected: {head[:200]!r}") from None
        server: dict[str, Histogram] = {}
        tubes: dict[str, dict[str, Histogram]] = {}
        part = server
        for line in lines:
            if line.startswith("- name: "):
                part = tubes[unquoted(line[8:])] = {}
            elif not line.startswith("tubes:"):
                name, _, text = line.lstrip().partition(": ")
                part[name] = Histogram.parse(text)
        return cls(bounds, server, tubes)
