"""That a sample ends, whatever clients do with tubes while it is taken, and also where no tube is seen."""

import asyncio
from typing import TYPE_CHECKING, cast

from beanpole.observe.sampling import Sample, take_sample
from tests.unit.busy import Busy

if TYPE_CHECKING:
    from beanpole.client import AsyncClient, StatsTube


class Blind(Busy):
    """A client of a user who has no right to any tube."""

    async def stats_tubes(self, *_: object, **__: object) -> "list[StatsTube]":
        return []


def test_a_sample_ends_though_there_are_always_new_tubes() -> None:
    async def take() -> Sample:
        client = Busy()
        return await take_sample(cast("AsyncClient[bytes]", client), lambda: 0, await client.stats(), max)

    assert asyncio.run(take()).tubes


def test_a_user_who_sees_no_tube_has_a_sample() -> None:
    async def take() -> Sample:
        client = Blind()
        return await take_sample(cast("AsyncClient[bytes]", client), lambda: 0, await client.stats(), max)

    taken = asyncio.run(take())
    assert taken.tubes == {}
    assert taken.histograms is not None
