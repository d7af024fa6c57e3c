"""That a sample ends, whatever clients do with tubes while it is taken."""

import asyncio
from typing import TYPE_CHECKING, cast

from beanpole.console.clock import Clock
from beanpole.console.sample import Sample
from beanpole.console.sampler import Sampler
from beanpole.console.settings import Settings, Source
from tests.unit.busy import Busy

if TYPE_CHECKING:
    from beanpole.client import AsyncClient


class Quiet:
    """A log that nobody reads."""

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        """Writes nothing."""


def test_a_sample_ends_though_there_are_always_new_tubes() -> None:
    async def take() -> Sample:
        client = cast("AsyncClient[bytes]", Busy())
        return await Sampler(
            Source("a", None), client, Settings(()), Quiet(), Clock(lambda: 0, lambda: 0.0)
        ).sample.get()

    assert asyncio.run(take()).tubes
