"""A row that can't be verified, a table that is gone, a machine whose memory is bad: at most one node stops."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from beanpole.log.postgres.follower import REPAIR_NS
from beanpole.log.postgres.rows import Place
from beanpole.log.postgres.store import ChangedError, Complaint, FaultyError, LossError, UnreadableError
from tests.simulation.cluster.database import Database
from tests.simulation.cluster.world import (
    BODY,
    SimulatedNode,
    World,
    ask,
    leader_of,
    put,
    roll,
    simulated,
    until,
)

PATIENCE_S = 60.0
"""Simulated seconds."""

Harm = Callable[[Database, Place], None]


def damage_row(database: Database, place: Place) -> None:
    database.damage(place)


def break_page(database: Database, place: Place) -> None:
    database.unreadable.add(place)


def delete_row(database: Database, place: Place) -> None:
    del database.tables[place.segment][place.row]


def drop_table(database: Database, place: Place) -> None:
    database.drop_table(place.segment)


HARMS = [damage_row, break_page, delete_row, drop_table]


async def fill(world: World, leader: SimulatedNode, segments: int = 2) -> list[int]:
    """Put jobs until there are so many segments before the one that is written; return those that stay."""
    client = leader.connect()
    ids: list[int] = []
    while len(world.database.tables) < segments + 2:
        ids += [await put(leader, client, BODY) for _ in range(3)]
    return ids


async def restart(world: World, leader: SimulatedNode) -> SimulatedNode:
    """Start a follower again."""
    node = next(each for each in world.nodes if each is not leader)
    await node.kill()
    node.start()
    return node


@pytest.mark.parametrize("at", ["first", "middle", "newest"])
@pytest.mark.parametrize("harm", HARMS)
@simulated()
async def test_leader_writes_again_what_a_node_that_starts_cannot_read(
    world: World, leader: SimulatedNode, harm: Harm, at: str
) -> None:
    """From its memory: clients go on, no node stops, and no job is out of reach."""
    database = world.database
    client = leader.connect()
    ids = await fill(world, leader)
    await asyncio.sleep(1.0)
    tip = leader.log.tip.place
    place = {"first": Place(1, 0), "middle": Place(2, 3), "newest": tip._replace(row=tip.row - 2)}[at]
    if harm is drop_table and at == "newest":
        place = Place(tip.segment - 1, 0)
    harm(database, place)
    late = await restart(world, leader)
    until_s = world.loop.time() + PATIENCE_S
    while min(database.numbers()) <= place.segment:
        assert world.loop.time() < until_s, "the segment is not written again"
        ids.append(await put(leader, client))
        await asyncio.sleep(0.1)
    await until(world, lambda: late.is_warm)
    await asyncio.sleep(1.0)
    assert not database.halted
    assert world.leaders() == [leader]
    assert not any(node.is_over for node in world.nodes)
    assert late.state() == leader.state()
    assert sorted(late.state()) == sorted(ids)
    assert not database.complaints
    await leader.kill()
    other = await leader_of(world, leader)
    assert await ask(other, other.connect(), b"delete %d" % ids[0]) == b"DELETED\r\n"


@pytest.mark.parametrize("harm", HARMS)
@simulated()
async def test_what_a_node_cannot_read_is_repaired_by_the_next_leader_as_well(
    world: World, leader: SimulatedNode, harm: Harm
) -> None:
    """The leader dies when a node waits for it."""
    database = world.database
    ids = await fill(world, leader)
    await asyncio.sleep(1.0)
    harm(database, Place(2, 3))
    late = await restart(world, leader)
    await until(world, lambda: bool(database.complaints))
    await leader.kill()
    await until(world, lambda: late.is_warm)
    await asyncio.sleep(1.0)
    assert sorted(late.state()) == sorted(ids)
    assert not database.halted


@simulated()
async def test_what_a_node_cannot_read_is_said_again_to_a_server_that_was_promoted(
    world: World, leader: SimulatedNode
) -> None:
    """It waited for no standby, so that server need not have it."""
    database = world.database
    ids = await fill(world, leader)
    await asyncio.sleep(1.0)
    database.damage(Place(2, 3))
    late = await restart(world, leader)
    await until(world, lambda: bool(database.complaints))
    world.loop.pause(leader.name, 1.0)
    database.complaints.clear()
    await database.promote()
    await until(world, lambda: late.is_warm)
    await asyncio.sleep(1.0)
    assert sorted(late.state()) == sorted(ids)


@simulated()
async def test_clients_are_served_while_the_leader_repairs(world: World, leader: SimulatedNode) -> None:
    database = world.database
    await fill(world, leader, segments=4)
    database.damage(Place(4, 3))
    await restart(world, leader)
    await until(world, lambda: world.counts["repairs"] > 0)
    client, slowest_s = leader.connect(), 0.0
    while min(database.tables) <= 4:
        began_s = world.loop.time()
        await put(leader, client)
        slowest_s = max(slowest_s, world.loop.time() - began_s)
    assert slowest_s < 0.1


@simulated()
async def test_machine_that_computes_wrongly_stops_alone(world: World, leader: SimulatedNode) -> None:
    database = world.database
    ids = await fill(world, leader)
    late = next(node for node in world.nodes if node is not leader)
    database.misreads[late.name] = 1.0
    before = set(database.tables)
    await until(world, lambda: late.is_over)
    error = late.failure
    assert isinstance(error, UnreadableError)
    assert not isinstance(error, LossError)
    await asyncio.sleep(30.0)
    assert not database.halted
    assert world.leaders() == [leader]
    assert before <= set(database.tables), "nothing is wrong with the log"
    assert sorted(leader.state()) == sorted(ids)
    del database.misreads[late.name]
    late.start()
    await until(world, lambda: late.is_warm)
    assert not database.complaints, "what a node said of itself ends with its next start"


async def churn(leader: SimulatedNode) -> None:
    """Put and delete jobs, so that segments are dropped all the time."""
    client = leader.connect()
    while True:
        for _ in range(5):
            id = await put(leader, client, BODY)
            assert await ask(leader, client, b"delete %d" % id) == b"DELETED\r\n"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("is_only_follower", [True, False])
@simulated()
async def test_machine_that_computes_wrongly_stops_while_segments_are_dropped(
    world: World, leader: SimulatedNode, is_only_follower: bool
) -> None:
    """What it can't read is gone soon after, and not because it was repaired."""
    database = world.database
    late, other = [node for node in world.nodes if node is not leader]
    if is_only_follower:
        await other.kill()
    database.misreads[late.name] = 1.0
    churning = asyncio.create_task(churn(leader))
    await until(world, lambda: late.is_over)
    error = late.failure
    assert isinstance(error, UnreadableError)
    assert f"node {leader.name}" in str(error)
    await asyncio.sleep(30.0)
    assert database.dropped_count > 10
    assert not database.halted
    assert world.leaders() == [leader]
    assert world.counts["repairs"] == 0
    churning.cancel()


@simulated()
async def test_machine_that_computed_wrongly_for_a_while_goes_on_when_it_was_contradicted(
    world: World, leader: SimulatedNode
) -> None:
    database = world.database
    late = next(node for node in world.nodes if node is not leader)
    churning = asyncio.create_task(churn(leader))
    for times in range(1, 4):
        database.misreads[late.name] = 1.0
        await until(world, lambda: world.counts["contradicted"] == times, 0.0001)  # noqa: B023 - at once
        del database.misreads[late.name]
        await until(world, lambda: late.is_warm)
        await until(world, lambda: not database.complaints)
    assert not any(node.is_over for node in world.nodes)
    assert world.counts["repairs"] == 0
    churning.cancel()


@simulated()
async def test_machines_that_compute_wrongly_one_after_the_other_do_not_stop_the_leader(
    world: World, leader: SimulatedNode
) -> None:
    """The second had read what the first could not."""
    database = world.database
    await roll(world, leader)
    for late in [node for node in world.nodes if node is not leader]:
        database.misreads[late.name] = 1.0
        await put(leader, leader.connect())
        await until(world, lambda: late.is_over)  # noqa: B023 - at once
        await asyncio.sleep(5.0)
    await asyncio.sleep(30.0)
    assert world.leaders() == [leader]


@simulated()
async def test_machine_that_computed_wrongly_once_stops_nobody(world: World, leader: SimulatedNode) -> None:
    database = world.database
    await fill(world, leader)
    late = next(node for node in world.nodes if node is not leader)
    database.misreads[late.name] = 1.0
    await until(world, lambda: world.counts["unreadable"] == 1, 0.0001)
    del database.misreads[late.name]
    await until(world, lambda: late.is_warm)
    assert not database.complaints
    assert world.counts["unreadable"] == 1


@simulated()
async def test_leader_whose_rows_nobody_can_verify_stops(world: World, leader: SimulatedNode) -> None:
    """It notices when it reads what it wrote in place of the first that was bad; nothing is dropped before."""
    database = world.database
    await fill(world, leader)
    before = set(database.tables)
    database.miswrites.add(leader.name)
    await until(world, lambda: leader.is_over)
    assert isinstance(leader.failure, FaultyError)
    assert not database.halted
    assert before <= set(database.tables)
    await until(world, lambda: all(node.is_over for node in world.nodes))
    assert all(isinstance(node.failure, UnreadableError) for node in world.nodes if node is not leader)


@simulated()
async def test_leader_that_alone_can_verify_what_it_wrote_stops(world: World, leader: SimulatedNode) -> None:
    """It makes the same mistake when it reads: that two others can't verify it is what decides."""
    database = world.database
    await fill(world, leader)
    database.miswrites.add(leader.name)
    database.same_mistakes.add(leader.name)
    await until(world, lambda: leader.is_over)
    assert isinstance(leader.failure, FaultyError)
    assert not database.halted


@simulated()
async def test_row_that_was_damaged_once_by_the_leaders_machine_stops_nobody(
    world: World, leader: SimulatedNode
) -> None:
    database = world.database
    ids = await fill(world, leader)
    database.miswrites.add(leader.name)
    ids.append(await put(leader, leader.connect()))
    database.miswrites.clear()
    await until(world, lambda: world.counts["repaired"] > 0)
    await asyncio.sleep(5.0)
    assert not any(node.is_over for node in world.nodes)
    assert all(sorted(node.state()) == sorted(ids) for node in world.nodes)


@simulated()
async def test_what_nodes_said_of_rows_that_were_lost_since_stops_no_leader(
    world: World, leader: SimulatedNode
) -> None:
    """Nothing stands in these places any more, and the nodes are gone that could not verify it."""
    database = world.database
    await fill(world, leader)
    for name in ("gone", "gone as well"):
        database.complaints[name] = Complaint(name, Place(9, 0), "is missing")
    await asyncio.sleep(PATIENCE_S)
    assert world.leaders() == [leader]
    assert not any(node.is_over for node in world.nodes)


@simulated(segment_bytes=2**21)
async def test_node_waits_for_a_repair_however_slow_the_database_is(world: World, leader: SimulatedNode) -> None:
    """The leader says that it repairs, and its rows show that it goes on."""
    database = world.database
    client = leader.connect()
    while len(database.tables) < 4:
        await put(leader, client, bytes(60_000))
    await asyncio.sleep(1.0)
    database.damage(Place(1, 3))
    late = await restart(world, leader)
    await until(world, lambda: bool(database.complaints))
    database.faults.delay_s = 0.4
    began_s = world.loop.time()
    await until(world, lambda: min(database.numbers()) > 1)
    assert world.loop.time() - began_s > REPAIR_NS / 1e9
    database.faults.delay_s = 0.002
    await until(world, lambda: late.is_warm)
    assert late.state() == leader.state()


@simulated()
async def test_all_nodes_stop_when_the_table_that_is_written_is_dropped(world: World, leader: SimulatedNode) -> None:
    """What was confirmed is gone, and nobody can append behind it."""
    database = world.database
    await fill(world, leader)
    database.drop_table(leader.log.tip.place.segment)
    began_s = world.loop.time()
    await until(world, lambda: all(node.is_over for node in world.nodes))
    assert world.loop.time() - began_s < 5.0
    assert database.halted
    assert all(isinstance(node.failure, ChangedError) for node in world.nodes)
    assert any(isinstance(node.failure, LossError) for node in world.nodes)


@simulated()
async def test_last_row_that_is_damaged_before_there_is_another_is_no_loss(world: World, leader: SimulatedNode) -> None:
    """Nobody can append behind it, but what it holds is there: all stop without a word of a loss."""
    database = world.database
    await fill(world, leader)
    await asyncio.sleep(1.0)
    for node in world.nodes:
        if node is not leader:
            await node.kill()
    tip = leader.log.tip
    entry = database.tables[tip.place.segment][tip.place.row]
    entry.row = replace(entry.row, hash=bytes(16))
    for node in world.nodes:
        if node is not leader:
            node.start()
    await until(world, lambda: all(node.is_over for node in world.nodes))
    assert not database.halted
    assert all(isinstance(node.failure, UnreadableError) for node in world.nodes)


@pytest.mark.parametrize("harm", HARMS)
@simulated()
async def test_nodes_that_find_a_bad_log_and_no_leader_stop_with_a_sentence(
    world: World, leader: SimulatedNode, harm: Harm
) -> None:
    """Nobody has its jobs in memory: it is said within seconds, without a loop, and is no loss that is known."""
    database = world.database
    await fill(world, leader)
    for node in world.nodes:
        await node.kill()
    harm(database, Place(2, 3))
    for node in world.nodes:
        node.told.clear()
        node.start()
    await until(world, lambda: all(node.is_over for node in world.nodes))
    for node in world.nodes:
        assert isinstance(node.failure, UnreadableError)
        assert "segment 2" in str(node.failure)
        assert len(node.told) < 10
    assert not database.halted


@simulated()
async def test_table_that_is_dropped_before_anything_is_in_it_is_made_again(
    world: World, leader: SimulatedNode
) -> None:
    database = world.database
    ids = await fill(world, leader)
    await asyncio.sleep(2.0)
    newest = max(database.tables)
    assert not database.tables[newest]
    database.drop_table(newest)
    client = leader.connect()
    while newest not in database.tables or not database.tables[newest]:
        ids.append(await put(leader, client, BODY))
    await asyncio.sleep(1.0)
    await until(world, lambda: world.applied() is not None)
    await asyncio.sleep(10.0)
    assert world.leaders() == [leader]
    assert not database.complaints
    assert all(sorted(node.state()) == sorted(ids) for node in world.nodes)


@simulated()
async def test_compaction_reads_no_old_row(world: World, leader: SimulatedNode) -> None:
    """It would miss jobs that stand behind the damage, and the segment would be dropped with them."""
    database = world.database
    kept = await put(leader, leader.connect(), BODY)
    tip = leader.log.tip.place
    await asyncio.sleep(1.0)
    database.damage(tip)
    await roll(world, leader)
    await asyncio.sleep(1.0)
    assert not any(node.is_over for node in world.nodes)
    assert kept in leader.state()
