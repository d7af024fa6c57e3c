"""The rules of a cluster about losses that an operator has accepted, and about what is there in place of its log."""

import asyncio
from dataclasses import replace

import pytest

from beanpole.log.limits import JOB_IDS_SKIPPED
from beanpole.log.postgres.rows import Place, first_row
from beanpole.log.postgres.store import ChangedError, LossError
from tests.simulation.cluster.database import Database, Entry
from tests.simulation.cluster.world import (
    SimulatedNode,
    World,
    leader_of,
    put,
    roll,
    simulated,
    until,
)

SLEEP_S = 100.0


def lose(database: Database, count: int) -> None:
    """Lose the last rows, with no promotion: connections stay, as when somebody deletes them."""
    places = [Place(number, row) for number in sorted(database.tables) for row in sorted(database.tables[number])]
    for place in places[-count:]:
        del database.tables[place.segment][place.row]


async def lose_and_accept(world: World, *, promotes: bool) -> None:
    """Lose rows that were confirmed, and let the nodes that are awake go on when they have stopped."""
    asleep = {name for name, until_s in world.loop.paused_until_s.items() if until_s > world.loop.time()}
    awake = [node for node in world.nodes if node.name not in asleep]
    if promotes:
        await world.database.promote(lost_rows=5)
    else:
        lose(world.database, 5)
    await until(world, lambda: all(node.is_over for node in awake))
    for node in awake:
        assert isinstance(node.failure, ChangedError)
    assert world.database.halted
    world.database.accept_loss()
    for node in awake:
        node.start()


@pytest.mark.parametrize("promotes", [True, False])
@pytest.mark.parametrize("led", [True, False])
@simulated()
async def test_node_that_slept_over_an_accepted_loss_starts_over(
    world: World, leader: SimulatedNode, promotes: bool, led: bool
) -> None:
    """What it knows is of before: the nodes that go on must not be stopped by it."""
    sleeper = leader if led else next(node for node in world.nodes if node is not leader)
    await put(leader, leader.connect())
    await asyncio.sleep(2.5)
    world.loop.pause(sleeper.name, SLEEP_S)
    if led:
        leader = await leader_of(world, sleeper)
    await lose_and_accept(world, promotes=promotes)
    leader = await leader_of(world, sleeper)
    id = await put(leader, leader.connect())
    await asyncio.sleep(SLEEP_S)
    assert not world.database.halted
    assert all(not node.is_over for node in world.nodes)
    assert world.leaders() == [leader]
    await until(world, lambda: sleeper.node.following is not None and sleeper.node.following.replica is not None)
    await until(world, lambda: id in sleeper.state())


@simulated()
async def test_leader_that_slept_over_an_accepted_loss_does_not_lead_on(world: World) -> None:
    """Its last row is there, as all that is lost came behind it: the next leader's, who gave ids to jobs."""
    sleeper, database = await leader_of(world), world.database
    await put(sleeper, sleeper.connect())
    await asyncio.sleep(2.5)
    world.loop.pause(sleeper.name, SLEEP_S)
    await asyncio.sleep(1.0)
    backup = {number: dict(table) for number, table in database.tables.items()}
    leader = await leader_of(world, sleeper)
    client = leader.connect()
    ids = [await put(leader, client) for _ in range(20)]
    await asyncio.sleep(1.0)
    database.tables = backup
    await database.promote()
    awake = [node for node in world.nodes if node is not sleeper]
    await until(world, lambda: all(node.is_over for node in awake))
    assert database.halted
    database.accept_loss()
    await asyncio.sleep(SLEEP_S)
    leader = await leader_of(world)
    assert await put(leader, leader.connect()) > max(ids)


@simulated()
async def test_node_that_slept_over_an_accepted_loss_as_it_stood_for_leader_starts_over(world: World) -> None:
    first, database = await leader_of(world), world.database
    await put(first, first.connect())
    await asyncio.sleep(2.5)
    sleeper, other = [node for node in world.nodes if node is not first]
    world.loop.pause(other.name, 4.0)
    await first.kill()
    await until(world, lambda: sleeper.node.following is not None and sleeper.node.following.store is None, 0.0005)
    world.loop.pause(sleeper.name, SLEEP_S)
    first.start()
    leader = await leader_of(world, sleeper)
    await asyncio.sleep(3.0)
    count = sum(map(len, database.tables.values()))
    await database.promote(lost_rows=count - 3)
    awake = [first, other]
    await until(world, lambda: all(node.is_over for node in awake))
    database.accept_loss()
    for node in awake:
        node.start()
    leader = await leader_of(world, sleeper)
    id = await put(leader, leader.connect())
    await asyncio.sleep(SLEEP_S)
    assert not database.halted
    assert ("unreadable",) not in {line[:1] for line in sleeper.told}
    await until(world, lambda: id in sleeper.state())


@simulated()
async def test_loss_after_an_accepted_one_stops_the_nodes_again(world: World, leader: SimulatedNode) -> None:
    await put(leader, leader.connect())
    await asyncio.sleep(1.0)
    await lose_and_accept(world, promotes=True)
    leader = await leader_of(world)
    await put(leader, leader.connect())
    await asyncio.sleep(1.0)
    await world.database.promote(lost_rows=2)
    await until(world, lambda: all(node.is_over for node in world.nodes))
    assert world.database.halted


@simulated()
async def test_loss_is_none_of_a_later_era(world: World, leader: SimulatedNode) -> None:
    """A node may stand still between its look at the rows and the word that it leaves."""
    before = leader.node.era
    world.database.accept_loss()
    leader.node.era = before
    await leader.node.halt("rows are gone")
    assert not world.database.halted


@simulated()
async def test_server_that_is_set_back_to_before_an_accepted_loss_stops_the_nodes(
    world: World, leader: SimulatedNode
) -> None:
    """The era goes back with it."""
    database = world.database
    await put(leader, leader.connect())
    await asyncio.sleep(1.0)
    backup, settings = {number: dict(table) for number, table in database.tables.items()}, database.settings
    await lose_and_accept(world, promotes=True)
    leader = await leader_of(world)
    await put(leader, leader.connect())
    await asyncio.sleep(1.0)
    database.tables, database.settings = backup, settings
    await database.promote()
    await until(world, lambda: all(node.is_over for node in world.nodes))
    assert database.halted


@pytest.mark.parametrize("accepts", [True, False])
@simulated()
async def test_ids_of_jobs_that_were_lost_are_not_used_again(
    world: World, leader: SimulatedNode, accepts: bool
) -> None:
    """By a standby without them, or by a backup, to which the server was set back while no node ran."""
    database = world.database
    await put(leader, leader.connect())
    await asyncio.sleep(1.0)
    backup = {number: dict(table) for number, table in database.tables.items()}
    client = leader.connect()
    ids = [await put(leader, client) for _ in range(20)]
    if accepts:
        database.tables = backup
        await lose_and_accept(world, promotes=False)
    else:
        for node in world.nodes:
            await node.kill()
        database.tables = backup
        await database.promote()
        for node in world.nodes:
            node.start()
    leader = await leader_of(world)
    client = leader.connect()
    first = await put(leader, client)
    assert max(ids) < first <= max(ids) + JOB_IDS_SKIPPED
    await asyncio.sleep(1.0)
    await leader.kill()
    other = await leader_of(world, leader)
    assert await put(other, other.connect()) == first + 1, "it knows of the ids that were passed over"


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("drops", [True, False])
@simulated()
async def test_nodes_stop_when_another_cluster_is_made_in_their_place(
    world: World, leader: SimulatedNode, closes: bool, drops: bool
) -> None:
    """Each says so, and none of them takes the new log for one that has lost something, or drops a segment of it."""
    database = world.database
    if drops:
        await roll(world, leader)
    await put(leader, leader.connect())
    await asyncio.sleep(2.5)
    database.tables = {1: {0: Entry(first_row(b"\1" * 16), replicated=True, visible=True)}}
    database.settings = replace(database.settings, cluster="d")
    if drops and leader.node.leading is not None:
        leader.node.leading.maintenance.wake.set()
    if closes:
        await database.promote()
    await until(world, lambda: all(node.is_over for node in world.nodes))
    for node in world.nodes:
        assert node.task is not None
        error = node.task.exception()
        assert isinstance(error, ChangedError)
        assert not isinstance(error, LossError)
        assert "another cluster" in str(error)
    assert not database.halted
    fresh = SimulatedNode(world, "fresh")
    await until(world, lambda: fresh.turn is not None)
