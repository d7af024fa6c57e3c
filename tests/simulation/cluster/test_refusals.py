"""The rules of a cluster about servers that refuse the work."""

import asyncio

import pytest

from beanpole.log.postgres.store import ChangedError, GoneError, RefusedError
from tests.simulation.cluster.database import Faults
from tests.simulation.cluster.test_main_path import leader_of
from tests.simulation.cluster.test_rules import BODY, put, run, until
from tests.simulation.cluster.world import World


def test_refusal_in_the_work_beside_ends_the_node() -> None:
    async def main(world: World) -> None:
        leader = await leader_of(world)
        world.database.table_error = RefusedError("the role may not make a table")
        client = leader.connect()
        leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
        await until(world, lambda: leader.task is not None and leader.task.done())
        assert leader.task is not None
        assert isinstance(leader.task.exception(), RefusedError)
        assert client.closed

    run(main)


def test_server_that_refuses_is_not_the_one_that_was_promoted() -> None:
    """The hosts are asked in turn while a commit waits, and one of them may be any server that takes writes."""

    async def main(world: World) -> None:
        leader = await leader_of(world)
        for node in world.nodes:
            if node is not leader:
                await node.kill()
        await asyncio.sleep(2.5)
        world.database.faults = Faults(slow=1.0, slow_s=5.0)
        world.database.stray = True
        await asyncio.sleep(20.0)
        world.database.stray = False
        world.database.faults = Faults()
        assert world.leaders() == [leader]
        await put(leader, leader.connect())

    run(main)


@pytest.mark.parametrize("error", [RefusedError("permission denied for table node"), GoneError("no table node")])
def test_nodes_go_on_when_they_may_not_report(error: Exception) -> None:
    """What they say of themselves is for display; that is said once."""

    async def main(world: World) -> None:
        leader, database = await leader_of(world), world.database
        await asyncio.sleep(2.5)
        database.report_error = error
        await asyncio.sleep(10.0)
        assert world.leaders() == [leader]
        await put(leader, leader.connect())
        assert [world.counts["not_shown"], len(database.nodes)] == [3, 3]
        await leader.kill()
        other = await leader_of(world, leader)
        await put(other, other.connect())
        database.report_error = None
        await until(world, lambda: len([each for each in other.node.nodes if each.is_alive]) == 2)
        database.report_error = error
        await until(world, lambda: world.counts["not_shown"] == 5)
        database.halted = "rows are gone"
        await until(world, lambda: other.task is not None and other.task.done())
        assert other.task is not None
        assert isinstance(other.task.exception(), ChangedError), "it is stopped all the same"

    run(main)
