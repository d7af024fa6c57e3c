"""A sample as metrics show it: which tubes have some of their own, and what the others have together."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from beanpole.client import Rights, Stats, StatsTube
from beanpole.client.stats import Histogram, Histograms
from beanpole.console import limits
from beanpole.console.metrics.families import JOB_TIMES, TUBE_FAMILIES, Kind, Rest
from beanpole.observe.growth import grown
from beanpole.observe.sampling import Sample

# --- Histograms -------------------------------------------------------------------------------------------------------

Row = list[int]
"""The sum of a histogram, then its counts."""


@dataclass(frozen=True, slots=True)
class Times:
    """The histograms of a sample."""

    bounds: Mapping[str, Sequence[int]]  # by unit; times in microseconds
    server: Mapping[str, Row]  # what only the server has, by name
    tubes: Mapping[str, Mapping[str, Row]]  # of jobs, by tube and name; only where anything was counted
    rest: Mapping[str, Row]  # of jobs of all other tubes, by name


def row_of(histogram: Histogram) -> Row:
    return [histogram.sum, *histogram.counts]


def add_row(row: Row, other: Row, times: int = 1) -> None:
    """Adds a row to another, or takes it away."""
    for place, number in enumerate(other):
        row[place] += times * number


class TimesDivision:
    """Divides the histograms of one server: those of tubes that are shown, and what is left for all others together.

    The server counts every job itself, so the others' histogram is the server's without those shown. It must not jump
    when a tube comes to be shown or goes, or Prometheus would take jobs of long ago for new ones. So we keep an offset:
    what a tube had when it went stays away from the others, and what it had as one of the others stays with them.
    """

    def __init__(self, server_id: str = "") -> None:
        self.server_id = server_id
        """Of the server's process: another one counts from the start, and needs another division."""
        self._there: Collection[str] = ()  # the tubes that there were
        self._shown: dict[str, dict[str, Row]] = {}
        self._names: frozenset[str] = frozenset()  # those that were shown
        self._offset: dict[str, Row] = {}
        self._rest: dict[str, Row] = {}

    def divide(self, there: Collection[str], names: Collection[str], found: Histograms) -> Times:
        """Returns what is shown of `names`, which are some of the tubes that are `there`, and of the others."""
        shown = {
            name: {what: row_of(histogram) for what, histogram in found.tubes[name].items()}
            for name in names
            if name in found.tubes
        }
        server = {what: row_of(histogram) for what, histogram in found.server.items()}
        self._move(server, shown, frozenset(names))
        rest = self._left(server, shown)
        self._there, self._shown, self._names, self._rest = there, shown, frozenset(names), rest
        own = {what: row for what, row in server.items() if what not in JOB_TIMES}
        return Times(found.bounds, own, shown, rest)

    def _move(self, server: Mapping[str, Row], shown: Mapping[str, Mapping[str, Row]], names: frozenset[str]) -> None:
        """Brings the offset up to date with the tubes that are shown now."""
        offset = self._offset or {what: [0] * len(server[what]) for what in JOB_TIMES if what in server}
        for name, rows in self._shown.items():
            for what, row in rows.items():
                now = shown.get(name, {}).get(what, [0])
                if name not in names or sum(now[1:]) < sum(row[1:]):  # it went, and may have come again
                    add_row(offset[what], row)
        for name in names - self._names:
            if name in self._there:
                for what, row in shown.get(name, {}).items():
                    add_row(offset[what], row, -1)
        self._offset = offset

    def _left(self, server: Mapping[str, Row], shown: Mapping[str, Mapping[str, Row]]) -> dict[str, Row]:
        """What the server has beside those shown. It never falls, though pages are not of one moment."""
        left: dict[str, Row] = {}
        for what, offset in self._offset.items():
            row = list(server[what])
            add_row(row, offset, -1)
            for rows in shown.values():
                if what in rows:
                    add_row(row, rows[what], -1)
            before = self._rest.get(what, [0] * len(row))
            left[what] = [max(pair) for pair in zip(row, before, strict=True)]
        return left


# --- Counts -----------------------------------------------------------------------------------------------------------

EVENTS = tuple(key for each in TUBE_FAMILIES if each.kind is Kind.COUNTER for _, key in each.parts)
SUMS = tuple(
    key for each in TUBE_FAMILIES if each.kind is Kind.GAUGE and each.rest is Rest.SUM and not each.flag
    for _, key in each.parts
)  # fmt: skip
FLAGS = tuple(key for each in TUBE_FAMILIES if each.flag for _, key in each.parts)
MOST = tuple(key for each in TUBE_FAMILIES if each.rest is Rest.MOST for _, key in each.parts)


class Division:
    """Divides a server's tubes into those that have metrics of their own, and the rest.

    The sum over the rest must not fall when one of them goes, or Prometheus would take what is left for new events. So
    of events we add up how much each tube's counter grew since the last sample, and never what it is.
    """

    def __init__(self, is_wanted: Callable[[str], bool] = lambda _: True, tubes_max: int = limits.TUBES_MAX) -> None:
        self._is_wanted = is_wanted
        self._tubes_max = tubes_max
        self._server_id = ""
        self._events: Counter[str] = Counter()
        self._seen: Mapping[str, StatsTube] = {}  # what each tube said last

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
            self._events[key] += grown(None if before is None else count_of(before.raw, key), count_of(raw, key))
        for key in SUMS:
            now[key] += count_of(raw, key)
        for key in FLAGS:
            now[key] += count_of(raw, key) > 0
        for key in MOST:
            now[key] = max(now[key], count_of(raw, key))


def count_of(raw: Mapping[str, int | str], key: str) -> int:
    """A count; 0: the server does not have it."""
    found = raw.get(key, 0)
    return found if isinstance(found, int) else 0


# --- Both -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metered:
    """What is known of a server."""

    stats: Stats
    leads: bool  # whether the server has the jobs
    named: Mapping[str, StatsTube] = field(default_factory=dict)  # the tubes that have metrics of their own
    rest: Mapping[str, int] = field(default_factory=dict)
    """Of all others, by key: sums of what is now, and of events how many there were since the console looks.

    Empty: there was no other tube so far.
    """
    keys: frozenset[str] = frozenset()  # what the server says of a tube
    times: Times | None = None  # the histograms; None: the server has none
    rights: Rights | None = None  # what users and spaces have; None: the server has no users
    dead_tubes: Collection[str] = ()  # those of `named` into which rules send the dead


class Meter:
    """Makes metrics of the samples of one server, each of which it must see."""

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._division = Division(is_wanted)
        self._times = TimesDivision()
        self.metered: Metered | None = None  # the last; None: there was no sample

    async def add(self, sample: Sample) -> None:
        if not sample.leads:
            self.metered = Metered(sample.stats, leads=False)
            return
        named, rest = await self._division.divide(sample)
        keys = frozenset(next(iter(sample.tubes.values())).raw) if sample.tubes else frozenset[str]()
        self.metered = Metered(
            sample.stats,
            True,
            named,
            rest,
            keys,
            self._times_of(sample, named),
            sample.rights,
            sample.dead_tubes.keys() & named.keys(),
        )

    def _times_of(self, sample: Sample, named: Mapping[str, StatsTube]) -> Times | None:
        if sample.histograms is None:
            return None
        if sample.stats.id != self._times.server_id:
            self._times = TimesDivision(sample.stats.id)
        there = sample.tubes.keys() | sample.histograms.tubes.keys()  # some came since their page was read
        return self._times.divide(there, list(islice(named, limits.HISTOGRAM_TUBES_MAX)), sample.histograms)
