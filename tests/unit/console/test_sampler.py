"""That a sample ends, whatever clients do with tubes while it is taken."""

import asyncio
from typing import TYPE_CHECKING, cast

from beanpole.client import Stats, StatsTube
from beanpole.client.histograms import Histogram, Histograms
from beanpole.console.families import JOB_TIMES
from beanpole.console.sample import Sample
from beanpole.console.sampler import Sampler
from beanpole.console.settings import Settings, Source
from tests.unit.console.made import stats, tube

if TYPE_CHECKING:
    from beanpole.client import AsyncClient

BOUNDS: dict[str, tuple[int, ...]] = {"job": (1,), "turn": (1,), "commands": (1,)}

PAGES_MAX = 10
"""Pages that one tube may cost."""


class Quiet:
    """A log that nobody reads."""

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        """Writes nothing."""


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

    async def stats_tubes(self, _after: str | None, _limit: int) -> list[StatsTube]:
        """A page with a tube that is new."""
        self.note_page()
        return [tube(f"a{self.count:09}", total_jobs=1)]

    async def stats_histograms(self, _after: str | None, _limit: int) -> Histograms:
        """A page with a tube that comes before all those of `stats_tubes`."""
        self.note_page()
        return Histograms(BOUNDS, {what: Histogram(0, 0, (0, 0)) for what in JOB_TIMES}, {f"a!{self.count:09}": {}})


def test_a_sample_ends_though_there_are_always_new_tubes() -> None:
    async def take() -> Sample:
        client = cast("AsyncClient[bytes]", Busy())
        return await Sampler(Source("a", None), client, Settings(()), Quiet(), lambda: 0).sample.get()

    assert asyncio.run(take()).tubes
