"""That a sample ends, whatever clients do with tubes while it is taken."""

import asyncio
from typing import TYPE_CHECKING, cast

from beanpole.observe.sampling import Sample, Sampler
from tests.unit.busy import Busy

if TYPE_CHECKING:
    from beanpole.client import AsyncClient


def test_a_sample_ends_though_there_are_always_new_tubes() -> None:
    async def take() -> Sample:
        return await Sampler(cast("AsyncClient[bytes]", Busy()), lambda: 0).take()

    assert asyncio.run(take()).rows
