"""A client of a server that others keep busy with tubes."""

from beanpole.client import Stats, StatsTube
from beanpole.client.stats import Histogram, Histograms
from beanpole.console.metrics.families import JOB_TIMES
from tests.unit.console.made import stats, tube

BOUNDS: dict[str, tuple[int, ...]] = {"job": (1,), "turn": (1,), "commands": (1,)}

PAGES_MAX = 10
"""Pages that one tube may cost."""


class Busy:
    """A client of a server on which there is a new tube behind each page of them."""

    def __init__(self) -> None:
        self.count = 0

    def note_page(self) -> None:
        """One more page was asked for."""
        self.count += 1
        assert self.count <= PAGES_MAX, "the sample goes on and on"

    async def stats(self) -> Stats:
        """There is one tube."""
        return stats(current_tubes=1)

    async def features(self) -> frozenset[str]:
        """As those of our server."""
        return frozenset({"stats-tubes", "stats-histograms"})

    async def stats_tubes(self, *_: object, **__: object) -> list[StatsTube]:
        """A page with a tube that is new."""
        self.note_page()
        return [tube(f"a{self.count:09}", total_jobs=1)]

    async def stats_histograms(self, *_: object, **__: object) -> Histograms:
        """A page with a tube that comes before all those of `stats_tubes`."""
        self.note_page()
        return Histograms(BOUNDS, {what: Histogram(0, 0, (0, 0)) for what in JOB_TIMES}, {f"a!{self.count:09}": {}})
