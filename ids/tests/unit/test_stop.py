"""The end of the service: what is given back is handed out by nobody any more."""

import asyncio
from pathlib import Path

from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Key
from tests.unit.test_service import HeldStore, World, settle


class SlowGiver(HeldStore):
    """A store that takes its time to write what is given back."""

    async def give_back(self, rests: list[tuple[Key, Mark]]) -> None:
        await super().give_back(rests)
        await self.open.wait()


def test_no_number_of_a_range_that_is_given_back(tmp_path: Path) -> None:
    async def story() -> None:
        world = World(tmp_path)
        slow = world.service.counters.store = world.store = SlowGiver()
        given = {(await world.ask())["data"]}
        world.service.counters.begin_stop()
        await world.keeper
        slow.open.clear()
        stopping = asyncio.create_task(world.service.counters.stop())
        await settle()
        assert not stopping.done()
        reply = await world.ask()
        assert (reply["code"], reply["message"]) == (-3, "storage: stopping")
        slow.open.set()
        await stopping
        again = World(tmp_path)
        again.service.counters.store = again.store = slow
        given.add((await again.ask())["data"])
        assert len(given) == 2
        assert given == {"20261124-0000", "20261124-0001"}
        again.keeper.cancel()

    asyncio.run(story())
