"""Which tubes have metrics of their own, and what the others have together.

The sum over the others must not fall when one of them goes, or Prometheus would take what is left for new events. So of
events we add up how much each tube's counter grew since the last sample, and never what it is.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from beanpole.client import StatsTube
from beanpole.console import limits
from beanpole.console.metrics.families import TUBE_FAMILIES, Kind, Rest

EVENTS = tuple(key for each in TUBE_FAMILIES if each.kind is Kind.COUNTER for _, key in each.parts)
SUMS = tuple(
    key for each in TUBE_FAMILIES if each.kind is Kind.GAUGE and each.rest is Rest.SUM and not each.flag
    for _, key in each.parts
)  # fmt: skip
FLAGS = tuple(key for each in TUBE_FAMILIES if each.flag for _, key in each.parts)
MOST = tuple(key for each in TUBE_FAMILIES if each.rest is Rest.MOST for _, key in each.parts)

TUBES_PER_SLICE = 500
"""Tubes that are added up before anything else runs: about a millisecond."""


class Division:
    """Divides a server's tubes into those that have metrics of their own, and the rest."""

    def __init__(self, patterns: Sequence[str] = (), tubes_max: int = limits.TUBES_MAX) -> None:
        self._patterns = patterns
        self._tubes_max = tubes_max
        self._server_id = ""
        self._events: Counter[str] = Counter()
        self._seen: dict[str, StatsTube] = {}
        """What each tube said last."""

    def is_wanted(self, name: str) -> bool:
        """Whether a tube may have metrics of its own."""
        return not self._patterns or any(fnmatchcase(name, pattern) for pattern in self._patterns)

    async def divide(
        self, server_id: str, tubes: Sequence[StatsTube], *, complete: bool = True
    ) -> tuple[list[StatsTube], dict[str, int]]:
        """Returns the tubes with metrics of their own, and the sums over the others if there are or were any.

        `complete`: there are no tubes behind the last of these.
        """
        if server_id != self._server_id:
            self._server_id, self._events, self._seen = server_id, Counter(), {}
        named = list(islice((tube for tube in tubes if self.is_wanted(tube.name)), self._tubes_max))
        names = {tube.name for tube in named}
        others = [tube for tube in tubes if tube.name not in names] if len(named) < len(tubes) else []
        now: Counter[str] = Counter()
        for start in range(0, len(others), TUBES_PER_SLICE):
            for tube in others[start : start + TUBES_PER_SLICE]:
                self._add(tube, now)
            await asyncio.sleep(0)
        behind = tubes[-1].name if tubes and not complete else None
        kept = {name: tube for name, tube in self._seen.items() if behind is not None and name > behind}
        self._seen = kept | {tube.name: tube for tube in tubes}
        return named, {**self._events, **now}

    def _add(self, tube: StatsTube, now: Counter[str]) -> None:
        raw, before = tube.raw, self._seen.get(tube.name)
        for key in EVENTS:
            count = number(raw, key)
            grown = count - number(before.raw, key) if before is not None else count
            self._events[key] += grown if grown >= 0 else count
        for key in SUMS:
            now[key] += number(raw, key)
        for key in FLAGS:
            now[key] += number(raw, key) > 0
        for key in MOST:
            now[key] = max(now[key], number(raw, key))


def number(raw: Mapping[str, int | str], key: str) -> int:
    """A count; 0: the server does not have it."""
    found = raw.get(key, 0)
    return found if isinstance(found, int) else 0
