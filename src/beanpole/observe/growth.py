"""What happened on a server between two samples, a second and in total.

Counters of tubes go with their tubes, so that a sum of them may fall: we add up by how much each grew. A server with
another `id` is another process, and counts from the start.

How long jobs were ready before somebody reserved them, and how long they were held then, is the difference of two
histograms, which count since the server started.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from beanpole.client import Histogram, StatsTube
    from beanpole.observe.sampling import Sample


@dataclass(frozen=True, slots=True)
class Rates:
    """Jobs a second; None: not known, as after the first sample, or because the server does not count it."""

    put: float | None = None
    reserved: float | None = None
    deleted: float | None = None
    failed: float | None = None
    """Given back, timed out, buried, or lost as their worker's connection ended."""

    timed_out: float | None = None
    dead: float | None = None


UNKNOWN = Rates()

KEYS: Sequence[tuple[str, ...]] = (
    ("total-jobs",),
    ("jobs-reserved",),
    ("cmd-delete",),
    ("jobs-released", "jobs-timed-out", "jobs-buried", "jobs-lost"),
    ("jobs-timed-out",),
    ("jobs-dead",),
)
"""The counters of a tube that each rate is of, in the order of the fields."""

Counts = tuple[int | None, ...]
"""How many of each; None: the server does not count them."""


def grown(before: int | None, now: int) -> int:
    """By how much a counter grew; one that fell, and one that was not there, began at 0."""
    return now - before if before is not None and now >= before else now


def counts_of(tube: "StatsTube") -> Counts:
    raw = tube.raw
    return tuple(
        None if keys[0] not in raw else sum(found for key in keys if isinstance(found := raw.get(key, 0), int))
        for keys in KEYS
    )


def growth(before: Counts | None, after: Counts) -> Counts:
    """By how much the counters of a tube grew; those of one that was not there began at 0."""
    if before is None:
        return after
    return tuple(None if now is None else grown(then, now) for then, now in zip(before, after, strict=True))


def per_second(counts: Counts, seconds: float) -> Rates:
    if seconds <= 0:
        return UNKNOWN
    return Rates(*(None if count is None else count / seconds for count in counts))


class Change:
    """The rates of each tube between two samples, by name. One that is not known has unknown rates.

    It is made of the change before it, and keeps what that one's tubes had counted, which is a tenth of the sample.
    """

    def __init__(self, before: "Change | None" = None, after: "Sample | None" = None) -> None:
        self.counts: dict[str, Counts] = {}
        """What each tube has counted."""
        self.server_id = after.stats.id if after is not None and after.leads else None
        """Of the later one; None: it had no jobs."""
        self.at_ns = after.at_ns if after is not None else 0
        self.jobs_count = after.stats.total_jobs if after is not None else 0
        """Jobs that there ever were."""
        self._before: dict[str, Counts] = {}
        self.seconds = 0.0
        """Between the samples; 0: nothing is known, as they are not of the same process, or it had no jobs."""
        self._grown: list[int | None] = [None] * len(KEYS)
        if before is not None and self.server_id is not None and before.server_id == self.server_id:
            self._before = before.counts
            self.seconds = (self.at_ns - before.at_ns) / 1e9
            self._grown[0] = max(self.jobs_count - before.jobs_count, 0)

    def add(self, tubes: "Iterable[StatsTube]") -> None:
        is_known = self._grown[0] is not None
        for tube in tubes:
            name, counts = tube.name, counts_of(tube)
            self.counts[name] = counts
            if is_known:
                for place, count in enumerate(growth(self._before.get(name), counts)):
                    if place and count is not None:
                        self._grown[place] = (self._grown[place] or 0) + count

    @property
    def grown(self) -> Counts:
        """How many there were of each between the samples, over all tubes; None: not known."""
        return tuple(self._grown)

    def __getitem__(self, name: str) -> Rates:
        before, counts = self._before.get(name), self.counts.get(name)
        if before is None or counts is None:
            return UNKNOWN
        return per_second(growth(before, counts), self.seconds)

    @property
    def total(self) -> Rates:
        return per_second(self.grown, self.seconds)


class Quantiles(NamedTuple):
    """How long jobs were ready that were reserved between two samples, or held that were held no more; in seconds."""

    half_s: float
    """Half of them at the most."""
    most_s: float
    """99 % of them at the most."""

    @classmethod
    def between(cls, before: "Histogram | None", after: "Histogram", bounds: Sequence[int]) -> Self | None:
        """What was counted after `before`; None: nothing. One that fell is another tube's, and began at 0."""
        counts = list(after.counts)
        if before is not None and before.count <= after.count:
            counts = [now - then for now, then in zip(counts, before.counts, strict=True)]
        if min(counts, default=0) < 0 or not any(counts):
            return None
        return cls(quantile(bounds, counts, 0.5) / 1e6, quantile(bounds, counts, 0.99) / 1e6)


def quantile(bounds: Sequence[int], counts: Sequence[int], share: float) -> float:
    """The value that a share of all values does not exceed; between two bounds they count as evenly spread.

    The last count has no upper bound: there it is the highest bound.
    """
    rank, below, lower = share * sum(counts), 0, 0
    for bound, number in zip(bounds, counts, strict=False):
        if number and below + number >= rank:
            return lower + (bound - lower) * max(rank - below, 0) / number
        below, lower = below + number, bound
    return float(lower)
