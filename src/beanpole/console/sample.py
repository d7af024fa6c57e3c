"""A sample: what a server has said of itself, its tubes and its times. Metrics and pages are made of nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from beanpole.client import Stats, StatsTube
from beanpole.console.metrics.times import Times
from beanpole.console.roles import has_jobs


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of a server."""

    at_ns: int
    """When it was complete, on the console's clock."""

    stats: Stats

    tubes: list[StatsTube]
    """All tubes in the order of their names; none of a node that follows, whose counts mean nothing."""

    named: list[StatsTube] = field(default_factory=list)
    """Those of them that have metrics of their own."""

    rest: Mapping[str, int] = field(default_factory=dict)
    """Of all others, by key: sums of what is now, and of events how many there were since the console looks.

    Empty: there was no other tube so far.
    """

    times: Times | None = None
    """The histograms; None: the server has none."""

    @property
    def leads(self) -> bool:
        """Whether the server has the jobs: it is in no cluster, or leads it."""
        return has_jobs(self.stats)
