"""Which histograms of jobs are shown for which tube, and what is left of the server's for all others together.

The server counts every job itself, so the others' histogram is the server's without those shown. It must not jump when
a tube comes to be shown or goes, or Prometheus would take jobs of long ago for new ones. So we keep an offset: what a
tube had when it went stays away from the others, and what it had as one of the others stays with them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from beanpole.client.stats import Histogram, Histograms
from beanpole.console.metrics.families import JOB_TIMES

Row = list[int]
"""The sum of a histogram, then its counts."""


@dataclass(frozen=True, slots=True)
class Times:
    """The histograms of a sample."""

    bounds: Mapping[str, Sequence[int]]
    """By unit; times in microseconds."""
    server: Mapping[str, Row]
    """What only the server has, by name."""
    tubes: Mapping[str, Mapping[str, Row]]
    """Of jobs, by tube and name; only where anything was counted."""
    rest: Mapping[str, Row]
    """Of jobs of all other tubes, by name."""


def row_of(histogram: Histogram) -> Row:
    """The numbers of a histogram."""
    return [histogram.sum, *histogram.counts]


def add(row: Row, other: Row, times: int = 1) -> None:
    """Adds a row to another, or takes it away."""
    for place, number in enumerate(other):
        row[place] += times * number


class TimesDivision:
    """Divides the histograms of one server."""

    def __init__(self, server_id: str = "") -> None:
        self.server_id = server_id
        """Of the server's process: another one counts from the start, and needs another division."""
        self._there: Collection[str] = ()
        """The tubes that there were."""
        self._shown: dict[str, dict[str, Row]] = {}
        self._names: frozenset[str] = frozenset()
        """Those that were shown."""
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
                    add(offset[what], row)
        for name in names - self._names:
            if name in self._there:
                for what, row in shown.get(name, {}).items():
                    add(offset[what], row, -1)
        self._offset = offset

    def _left(self, server: Mapping[str, Row], shown: Mapping[str, Mapping[str, Row]]) -> dict[str, Row]:
        """What the server has beside those shown. It never falls, though pages are not of one moment."""
        left: dict[str, Row] = {}
        for what, offset in self._offset.items():
            row = list(server[what])
            add(row, offset, -1)
            for rows in shown.values():
                if what in rows:
                    add(row, rows[what], -1)
            before = self._rest.get(what, [0] * len(row))
            left[what] = [max(pair) for pair in zip(row, before, strict=True)]
        return left
