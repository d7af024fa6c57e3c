"""What a server was like in the last six hours, in memory: points of 10 s for 15 minutes, and of a minute for longer.

All points of a span have their times in common. A tube has one array for a span, a row after the other: 1 000 tubes
take 25 MB. A time without samples is a gap, which has a point of its own, so that a chart draws nothing there.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import isnan, nan
from typing import Literal, get_args

from beanpole.client import Histogram, StatsTube
from beanpole.console import limits
from beanpole.observe.growth import KEYS as COUNTED
from beanpole.observe.growth import Change, Counts, Quantiles, growth
from beanpole.observe.sampling import HELD, READY, Sample

Key = Literal[
    "ready", "reserved", "delayed", "buried", "oldest_ready",
    "put/s", "reserved/s", "deleted/s", "failed/s", "ready_p50", "ready_p99", "held_p50", "held_p99",
]  # fmt: skip
SpanName = Literal["15m", "6h"]

KEYS: tuple[Key, ...] = get_args(Key)
"""What a row has, in this order."""

NOW = ("current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried", "oldest-ready")
"""Where the first of them come from."""

SERVER = ""  # in place of the name of a tube: the whole server
RATES = 4  # how many rates follow
GAP_STEPS = 2.5  # after so many steps without a sample there is a gap: a server that is slow for a moment makes none

LATEST = 3  # points of the short span of which the last known one is that of now

EARLY = 0.05
"""The part of a step by which a sample may come too early for its point: samples come every 10 s, more or less."""


@dataclass(frozen=True, slots=True)
class Series:
    """One value over time."""

    points: list[tuple[float, float | None]]
    """Seconds since 1970, and the value then; None: it is not known, and nothing connects its neighbours."""

    @property
    def values(self) -> list[float | None]:
        return [value for _, value in self.points]


EMPTY = array("f", [nan] * len(KEYS))


class Span:
    """The points of one length."""

    def __init__(self, step_s: int, size: int) -> None:
        self.step_s, self.size = step_s, size
        self.server_id = ""
        self.at_ns = 0  # when the last point was, on the clock of samples
        self.counts: dict[str, Counts] = {}  # what each tube had counted then
        self.kept: Mapping[str, Mapping[str, Histogram]] = {}  # the histograms of then, the server's by SERVER
        self.grown: list[int | None] = [0] * len(COUNTED)
        """What the whole server has counted since then; None: not known."""
        self._clear()

    def _clear(self) -> None:
        self.times = array("d")
        self.count = 0  # points that there ever were
        self.rows: dict[str, array[float]] = {}  # by tube: all of its rows, from the first place to the last
        self.last: dict[str, int] = {}  # the number of the last point in which a tube was

    def is_due(self, unix_s: float) -> bool:
        """Whether it is time for a point; also where the clock was set back."""
        if not self.count:
            return True
        passed = unix_s - self.times[(self.count - 1) % self.size]
        return passed >= self.step_s * (1 - EARLY) or passed < 0

    def begin(self, unix_s: float) -> int:
        """Begins a point, after a gap if there was one. Returns its place."""
        if self.count:
            last_s = self.times[(self.count - 1) % self.size]
            if unix_s < last_s:  # the clock was set back: what was is of no use
                self._clear()
            elif unix_s - last_s > GAP_STEPS * self.step_s:
                self._point(last_s + self.step_s)
        return self._point(unix_s)

    def _point(self, unix_s: float) -> int:
        place = self.count % self.size
        if len(self.times) < self.size:
            self.times.append(unix_s)
        else:
            self.times[place] = unix_s
        self.count += 1
        for rows in self.rows.values():
            rows[place * len(KEYS) : (place + 1) * len(KEYS)] = EMPTY
        return place

    def put(self, name: str, place: int, row: "array[float]") -> None:
        if name not in self.rows:
            self.rows[name] = EMPTY * self.size
        self.rows[name][place * len(KEYS) : (place + 1) * len(KEYS)] = row
        self.last[name] = self.count

    def forget(self, tubes_max: int) -> None:
        """Forgets tubes of which nothing is left, and of too many those that are gone for longest."""
        gone = [name for name, last in self.last.items() if last <= self.count - self.size]
        if len(self.last) - len(gone) > tubes_max:
            longest = sorted((last, name) for name, last in self.last.items() if name != SERVER)
            gone = [name for _, name in longest[: len(self.last) - tubes_max]]
        for name in gone:
            del self.last[name]
            del self.rows[name]

    def column(self, name: str, key: Key) -> "array[float]":
        """One value of a tube, at all places."""
        return (self.rows.get(name) or EMPTY * self.size)[KEYS.index(key) :: len(KEYS)]


class History:
    """The history of one server."""

    def __init__(
        self,
        unix_s: Callable[[], float],
        is_first: Callable[[str], bool] = lambda _: True,
        tubes_max: int = limits.TUBES_MAX,
    ) -> None:
        self._unix_s = unix_s
        self._is_first = is_first  # which tubes have charts in any case, where there are more than `tubes_max`
        self._tubes_max = tubes_max
        self._spans: dict[SpanName, Span] = {"15m": Span(10, 90), "6h": Span(60, 360)}

    def add(self, sample: Sample, change: Change) -> None:
        """Takes a sample in. `change`: what happened since the one before it."""
        unix_s = self._unix_s()
        for span in self._spans.values():
            span.grown = [
                None if one is None or more is None else one + more
                for one, more in zip(span.grown, change.grown, strict=True)
            ]
            if span.is_due(unix_s):
                self._add(span, sample, change, unix_s)

    def _add(self, span: Span, sample: Sample, change: Change, unix_s: float) -> None:
        place = span.begin(unix_s)
        is_same = sample.stats.id == span.server_id and sample.leads
        seconds = (sample.at_ns - span.at_ns) / 1e9 if is_same else 0.0
        times = times_of(sample)
        bounds = sample.histograms.bounds["job"] if sample.histograms is not None else ()
        counts: dict[str, Counts] = {}
        if sample.leads:
            for tube in self._charted(sample):
                name = tube.name
                counts[name], before = change.counts[name], span.counts.get(name)
                row = now_of(tube) + rates_of(growth(before, counts[name]), seconds if before is not None else 0)
                row += quantiles(bounds, times.get(name), span.kept.get(name), is_same=is_same)
                span.put(name, place, row)
            row = whole(sample) + rates_of(span.grown, seconds)
            row += quantiles(bounds, times.get(SERVER), span.kept.get(SERVER), is_same=is_same)
            span.put(SERVER, place, row)
        span.server_id, span.at_ns, span.counts, span.kept = sample.stats.id, sample.at_ns, counts, times
        span.grown = [0] * len(COUNTED)
        span.forget(self._tubes_max + 1)

    def _charted(self, sample: Sample) -> Iterator[StatsTube]:
        """The tubes that are kept, those first that have charts in any case."""
        first = [tube for name, tube in sample.tubes.items() if self._is_first(name)]
        others = (tube for name, tube in sample.tubes.items() if not self._is_first(name))
        return islice(chain(first, others), self._tubes_max)

    def latest(self, key: Key, tube: str | None = None) -> float | None:
        """The last value of a tube, or of the whole server, that is known, of one of the last points."""
        found = self._spans["15m"]
        rows = found.rows.get(SERVER if tube is None else tube)
        if rows is None:
            return None
        for point in range(found.count - 1, max(found.count - 1 - LATEST, -1), -1):
            value = rows[point % found.size * len(KEYS) + KEYS.index(key)]
            if not isnan(value):
                return value
        return None

    def series(self, key: Key, tube: str | None = None, span: SpanName = "15m") -> Series:
        """The values of a tube, or of the whole server. They end now: with a gap, if there was no sample for long."""
        found = self._spans[span]
        first = found.count % found.size if found.count >= found.size else 0
        times = [*found.times[first:], *found.times[:first]]
        column = found.column(SERVER if tube is None else tube, key)[: len(times)]
        values = [*column[first:], *column[:first]]
        if times and self._unix_s() - times[-1] > GAP_STEPS * found.step_s:
            times, values = [*times, self._unix_s()], [*values, nan]
        return Series([(at_s, None if isnan(value) else value) for at_s, value in zip(times, values, strict=True)])


def times_of(sample: Sample) -> Mapping[str, Mapping[str, Histogram]]:
    """How long jobs were ready, and held: of the whole server (SERVER), and of tubes."""
    return {} if sample.histograms is None else {**sample.histograms.tubes, SERVER: sample.histograms.server}


def quantiles(
    bounds: Sequence[int],
    after: Mapping[str, Histogram] | None,
    before: Mapping[str, Histogram] | None,
    *,
    is_same: bool,
) -> "array[float]":
    """How long half and 99 % of the jobs were ready, then held, since the last point; NaN: not known."""
    found = array("f")
    for name in (READY, HELD):
        last = (after or {}).get(name) if is_same else None
        times = Quantiles.between((before or {}).get(name), last, bounds) if last is not None else None
        found.extend((nan, nan) if times is None else times)
    return found


def now_of(tube: StatsTube) -> "array[float]":
    """The jobs of a tube by state, and how old the oldest ready one is."""
    return array("f", [number(tube.raw.get(key)) for key in NOW])


def whole(sample: Sample) -> "array[float]":
    row = array("f", [number(sample.stats.raw.get(key)) for key in NOW])
    known = {name: number(tube.raw[NOW[-1]]) for name, tube in sample.tubes.items() if NOW[-1] in tube.raw}
    ages = [age for name, age in known.items() if name not in sample.dead_tubes]  # nobody waits for the dead
    row[-1] = max(ages, default=0) if known or not sample.tubes else nan
    return row


def rates_of(counts: Sequence[int | None], seconds: float) -> "array[float]":
    """The first rates of so many in so long."""
    return array("f", [nan if each is None or seconds <= 0 else each / seconds for each in counts[:RATES]])


def number(value: object) -> float:
    """A value; NaN: it is not known."""
    return float(value) if isinstance(value, int | float) else nan
