"""The rules of a cluster about segments: they are made in time, emptied, and dropped when nobody needs them."""

import asyncio

import pytest

from beanpole.log.postgres.rows import Place, RowKind
from beanpole.log.postgres.store import BusyError, LossError
from tests.simulation.cluster.database import Faults
from tests.simulation.cluster.world import (
    BODY,
    SimulatedNode,
    World,
    ask,
    fail_over,
    leader_of,
    leaders_reported,
    put,
    roll,
    simulated,
    until,
)


@pytest.mark.parametrize("dies", [True, False])
@simulated()
async def test_table_that_a_promotion_took_back_is_made_again(world: World, leader: SimulatedNode, dies: bool) -> None:
    client, database = leader.connect(), world.database
    leading = leader.log

    def ended() -> bool:
        return leading.tip.kind == RowKind.END and database.tables.get(leading.tip.place.segment + 1) == {}

    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
    await until(world, ended, 0.0001)
    for number in [each for each in database.tables if each > leading.tip.place.segment]:
        del database.tables[number]
    await database.promote()
    if dies:
        await leader.kill()
    node = await leader_of(world, leader if dies else None)
    await put(node, node.connect())


@simulated()
async def test_follower_that_needs_a_dropped_segment_starts_over(world: World, leader: SimulatedNode) -> None:
    late = next(node for node in world.nodes if node is not leader)
    client = leader.connect()
    await put(leader, client)
    await asyncio.sleep(1.0)
    world.database.cut_off.add(late.name)
    assert await ask(leader, client, b"delete 1") == b"DELETED\r\n"
    await roll(world, leader)
    world.database.cut_off.discard(late.name)
    await until(world, lambda: world.counts["starts_over"] > 0)
    await asyncio.sleep(2.0)
    assert late.state() == leader.state()


@simulated()
async def test_follower_that_starts_over_looks_for_what_it_knew(world: World, leader: SimulatedNode) -> None:
    """The server may be set back to a backup just then."""
    database = world.database
    late = next(node for node in world.nodes if node is not leader)
    backup = {number: dict(table) for number, table in database.tables.items()}
    await put(leader, leader.connect())
    await asyncio.sleep(1.0)
    database.cut_off.add(late.name)
    await roll(world, leader)
    database.cut_off.discard(late.name)
    await until(world, lambda: late.node.following is not None and late.node.following.replica is None, 0.0001)
    database.tables = backup
    for node in world.nodes:
        if node is not late:
            await node.kill()
    await until(world, lambda: late.is_over)
    assert isinstance(late.failure, LossError)


@simulated()
async def test_follower_that_starts_over_reports_only_who_leads_now(world: World, leader: SimulatedNode) -> None:
    late = next(node for node in world.nodes if node is not leader)
    await asyncio.sleep(1.0)
    reported = leaders_reported(late)
    world.loop.pause(late.name, 40.0)
    await roll(world, leader)
    for _ in range(2):
        leader = await fail_over(world, leader)
    await asyncio.sleep(40.0)
    assert reported == [3]


@simulated()
async def test_number_of_a_dropped_segment_is_never_used_again(world: World, leader: SimulatedNode) -> None:
    await roll(world, leader)
    store = await world.database.opener("stale")()
    await store.make_segment(1)
    assert 1 not in world.database.tables


@simulated(segment_bytes=1048576)
async def test_compaction_adds_little_to_a_row(world: World, leader: SimulatedNode) -> None:
    client = leader.connect()
    ids = [await put(leader, client, BODY) for _ in range(700)]
    begun = leader.log.tip.place
    for id in ids[::2]:
        await ask(leader, client, b"delete %d" % id)
    await until(world, lambda: min(world.database.tables) > 1)
    rows = [
        entry.row
        for number, table in world.database.tables.items()
        for row, entry in table.items()
        if Place(number, row) > begun
    ]
    assert 60_000 < max(len(row.data) for row in rows) < 65_536 + 2 * len(BODY)


@simulated()
async def test_segment_stays_until_what_was_moved_out_of_it_is_confirmed(world: World, leader: SimulatedNode) -> None:
    """What is moved may not fit into the row that is next, as a segment ends in between."""
    database = world.database
    client, leading = leader.connect(), leader.log
    compaction = leading.maintenance.compaction
    ids = [await put(leader, client, BODY) for _ in range(100)]
    kept, gone = ids[::3], sorted(set(ids) - set(ids[::3]))
    leader.in_context(client.arrive, b"".join(b"delete %d\r\n" % id for id in gone))
    await until(world, lambda: compaction.emptied and leading.records.unwritten_bytes > 0, 0.0001)
    segment, tip = compaction.segment, leading.tip
    await until(world, lambda: leading.tip is not tip, 0.0001)
    database.faults = Faults(lost_before=1.0)
    await asyncio.sleep(1.0)
    assert segment in database.tables
    await leader.kill()
    database.faults = Faults()
    other = await leader_of(world, leader)
    assert sorted(other.state()) == kept


@simulated()
async def test_append_waits_for_the_table_that_it_needs(world: World, leader: SimulatedNode) -> None:
    """It could only fail, and be taken for a stall."""
    world.database.table_s = 0.2
    client = leader.connect()
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
    await until(world, lambda: client.output.count(b"INSERTED") == 100)
    assert max(world.database.tables) > 3
    assert world.counts["stalled"] == 0


@simulated()
async def test_append_that_waits_for_its_table_says_why(world: World, leader: SimulatedNode) -> None:
    world.database.table_error = BusyError("no space left on device")
    client = leader.connect()
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
    await until(world, lambda: world.counts["stalled"] > 0)
    assert "no space left" in next(line[1] for line in leader.told if line[0] == "stalled")
    world.database.table_error = None
    await until(world, lambda: client.output.count(b"INSERTED") == 100)
    assert world.counts["stall_ended"] == 1


@simulated()
async def test_candidate_makes_the_table_that_the_last_leader_did_not(world: World, leader: SimulatedNode) -> None:
    database = world.database
    client, leading = leader.connect(), leader.log
    database.table_s = 60.0
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
    await until(world, lambda: leading.tip.next_place.segment not in database.tables)
    await leader.kill()
    database.table_s = 0.0
    node = await leader_of(world, leader)
    await put(node, node.connect())


@simulated()
async def test_candidate_waits_for_no_table_of_a_server_that_was_replaced(world: World, leader: SimulatedNode) -> None:
    database = world.database
    client, leading = leader.connect(), leader.log
    database.table_s = 1e6
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
    await until(world, lambda: leading.tip.next_place.segment not in database.tables)
    await leader.kill()
    await asyncio.sleep(5.0)  # each of the others makes it, on a server that stands still
    database.table_s = 0.0
    database.still.add(database.timeline)
    database.timeline += 1
    node = await leader_of(world, leader)
    await put(node, node.connect())


@simulated()
async def test_leader_that_slept_while_its_segment_was_dropped_is_deposed(world: World, leader: SimulatedNode) -> None:
    """Nothing was lost: nobody must be stopped."""
    world.loop.pause(leader.name, 30.0)
    await roll(world, await leader_of(world, leader))
    await until(world, lambda: world.counts["deposed"] > 0)
    await asyncio.sleep(2.0)
    assert not world.database.halted
    assert all(not node.is_over for node in world.nodes)
