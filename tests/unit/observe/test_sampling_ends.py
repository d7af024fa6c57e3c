"""That a sample ends, whatever clients do with tubes while it is taken."""

import asyncio
from typing import TYPE_CHECKING, cast

from beanpole.observe.sampling import Sample, take_sample
from tests.unit.busy import Busy

if TYPE_CHECKING:
    from beanpole.client import AsyncClient


def test_a_sample_ends_though_there_are_always_new_tubes() -> None:
    async def take() -> Sample:
        client = Busy()
        return await take_sample(cast("AsyncClient[bytes]", client), lambda: 0, await client.stats(), max)

    assert asyncio.run(take()).tubes
