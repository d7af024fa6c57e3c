"""A sample as metrics show it: which tubes have some of their own, and what the others have together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from beanpole.client import Stats, StatsTube
from beanpole.console import limits
from beanpole.console.metrics.times import Times, TimesDivision
from beanpole.console.metrics.tubes import Division
from beanpole.observe.sampling import Sample


@dataclass(frozen=True, slots=True)
class Metered:
    """What is known of a server."""

    stats: Stats

    leads: bool
    """Whether the server has the jobs."""

    named: Mapping[str, StatsTube] = field(default_factory=dict)
    """The tubes that have metrics of their own."""

    rest: Mapping[str, int] = field(default_factory=dict)
    """Of all others, by key: sums of what is now, and of events how many there were since the console looks.

    Empty: there was no other tube so far.
    """

    keys: frozenset[str] = frozenset()
    """What the server says of a tube."""

    times: Times | None = None
    """The histograms; None: the server has none."""


class Meter:
    """Makes metrics of the samples of one server, each of which it must see."""

    def __init__(self, is_wanted: Callable[[str], bool]) -> None:
        self._division = Division(is_wanted)
        self._times = TimesDivision()
        self.metered: Metered | None = None
        """The last; None: there was no sample."""

    async def add(self, sample: Sample) -> None:
        """Makes those of a sample."""
        if not sample.leads:
            self.metered = Metered(sample.stats, leads=False)
            return
        named, rest = await self._division.divide(sample)
        keys = frozenset(next(iter(sample.tubes.values())).raw) if sample.tubes else frozenset[str]()
        self.metered = Metered(sample.stats, True, named, rest, keys, self._times_of(sample, named))

    def _times_of(self, sample: Sample, named: Mapping[str, StatsTube]) -> Times | None:
        if sample.histograms is None:
            return None
        if sample.stats.id != self._times.server_id:
            self._times = TimesDivision(sample.stats.id)
        there = sample.tubes.keys() | sample.histograms.tubes.keys()  # some came since their page was read
        return self._times.divide(there, list(islice(named, limits.HISTOGRAM_TUBES_MAX)), sample.histograms)
