"""Which tubes have metrics of their own, and what the others have together.

The sum over the others must not fall when one of them goes, or Prometheus would take what is left for new events. So of
events we add up how much each tube's counter grew since the last sample, and never what it is.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import islice

from beanpole.client import StatsTube
from beanpole.console import limits
from beanpole.console.metrics.families import TUBE_FAMILIES, Kind, Rest
from beanpole.observe.growth import grown
from beanpole.observe.sampling import Sample

EVENTS = tuple(key for each in TUBE_FAMILIES if each.kind is Kind.COUNTER for _, key in each.parts)
SUMS = tuple(
    key for each in TUBE_FAMILIES if each.kind is Kind.GAUGE and each.rest is Rest.SUM and not each.flag
    for _, key in each.parts
)  # fmt: skip
FLAGS = tuple(key for each in TUBE_FAMILIES if each.flag for _, key in each.parts)
MOST = tuple(key for each in TUBE_FAMILIES if each.rest is Rest.MOST for _, key in each.parts)


class Division:
    """Divides a server's tubes into those that have metrics of their own, and the rest."""

    def __init__(self, is_wanted: Callable[[str], bool] = lambda _: True, tubes_max: int = limits.TUBES_MAX) -> None:
        self._is_wanted = is_wanted
        self._tubes_max = tubes_max
        self._server_id = ""
        self._events: Counter[str] = Counter()
        self._seen: Mapping[str, StatsTube] = {}
        """What each tube said last."""

    async def divide(self, sample: Sample) -> tuple[dict[str, StatsTube], dict[str, int]]:
        """Returns the tubes with metrics of their own, and the sums over the others if there are or were any."""
        if sample.stats.id != self._server_id:
            self._server_id, self._events, self._seen = sample.stats.id, Counter(), {}
        tubes = sample.tubes
        named = {name: tubes[name] for name in islice(filter(self._is_wanted, tubes), self._tubes_max)}
        others = (tube for name, tube in tubes.items() if name not in named)
        now: Counter[str] = Counter()
        while some := list(islice(others, limits.TUBES_PER_SLICE)):
            for tube in some:
                self._add(tube, now)
            await asyncio.sleep(0)
        behind = max(tubes) if tubes and not sample.is_complete else None
        kept = {name: tube for name, tube in self._seen.items() if behind is not None and name > behind}
        self._seen = kept | dict(tubes)
        return named, {**self._events, **now}

    def _add(self, tube: StatsTube, now: Counter[str]) -> None:
        raw, before = tube.raw, self._seen.get(tube.name)
        for key in EVENTS:
            self._events[key] += grown(None if before is None else number(before.raw, key), number(raw, key))
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
