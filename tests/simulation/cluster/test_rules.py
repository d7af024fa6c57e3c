"""The rules of a cluster, one by one, where it takes more than chance to come across what they are for."""

import asyncio
from dataclasses import replace

import pytest

from beanpole.log.limits import UNCONFIRMED_BYTES_MAX
from beanpole.log.postgres.rows import RowKind, row_behind
from beanpole.log.postgres.store import LossError
from tests.simulation.cluster.database import Entry, Faults
from tests.simulation.cluster.world import (
    BODY,
    COMMAND_S_MAX,
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


@simulated()
async def test_row_whose_commit_was_not_seen_to_end_answers_nobody_before_the_next(
    world: World, leader: SimulatedNode
) -> None:
    client = leader.connect()
    world.database.faults = Faults(lost_after=1.0)
    leader.in_context(client.arrive, b"put 1 0 60 1\r\nx\r\n")
    await asyncio.sleep(5.0)
    assert client.output == b""
    assert not client.closed
    world.database.faults = Faults()
    assert await client.reply(0, COMMAND_S_MAX) == b"INSERTED 1\r\n"


@pytest.mark.parametrize("command", [b"peek 1\r\n", b"reserve\r\n", b"put 1 0 60 1\r\nx\r\n"])
@simulated()
async def test_leader_that_stood_still_answers_nothing_more(
    world: World, leader: SimulatedNode, command: bytes
) -> None:
    client = leader.connect()
    await put(leader, client)
    before = len(client.output)
    world.loop.pause(leader.name, 3.0)
    leader.in_context(client.arrive, command)
    other = await leader_of(world, leader)
    assert await ask(other, other.connect(), b"delete 1") == b"DELETED\r\n"
    await until(world, lambda: client.closed)
    assert len(client.output) == before


@simulated()
async def test_lease_begins_when_a_row_is_sent(world: World) -> None:
    """Others count from when they see it, which may be long before its writer hears that it is confirmed."""
    world.database.faults = Faults(slow=1.0, slow_s=1.2)
    leader = await leader_of(world)
    assert leader.log.lease_until_ns <= leader.clock.boot_ns()
    world.database.faults = Faults()
    await until(world, lambda: leader.log.lease_until_ns > leader.clock.boot_ns())


@simulated()
async def test_time_goes_on_when_no_node_was_there_to_count(world: World, leader: SimulatedNode) -> None:
    await put(leader, leader.connect(), delay_s=50)
    for node in world.nodes:
        node.clock.wall_s = 1e9
    await asyncio.sleep(1.0)
    for node in world.nodes:
        await node.kill()
    await asyncio.sleep(7200.0)
    world.nodes[1].start()
    node = await leader_of(world)
    assert await ask(node, node.connect(), b"reserve-with-timeout 1") == b"RESERVED 1 1\r\nx\r\n"


@simulated()
async def test_wall_clocks_move_nothing_while_a_node_counts(world: World, leader: SimulatedNode) -> None:
    await put(leader, leader.connect(), delay_s=500)
    await asyncio.sleep(2.0)
    for node in world.nodes:
        node.clock.wall_s += 7200
    await leader.kill()
    other = await leader_of(world, leader)
    assert await ask(other, other.connect(), b"reserve-with-timeout 1") == b"TIMED_OUT\r\n"


@simulated()
async def test_leader_hands_over_to_the_node_that_was_named_in_no_time(world: World, leader: SimulatedNode) -> None:
    await asyncio.sleep(2.5)  # all have reported
    named = next(node for node in reversed(world.nodes) if node is not leader)
    client = leader.connect()
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 5)
    await client.reply(0, COMMAND_S_MAX)
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY)
    await asyncio.sleep(0)
    began_s = world.loop.time()
    assert leader.node.hand_over(named.name)
    assert await leader_of(world, leader) is named
    assert world.loop.time() - began_s < 0.1
    # It can pass clients on before it has read the log again.
    epoch = named.log.epoch
    await until(world, lambda: any(line[0] == "leader_known" and line[2] == epoch for line in leader.told))
    assert world.loop.time() - began_s < 0.1
    assert leader.node.following is None
    await until(world, lambda: leader.node.following is not None)


@simulated()
async def test_node_that_reads_the_log_still_is_not_handed_over_to(world: World, leader: SimulatedNode) -> None:
    leading = leader.log
    await asyncio.sleep(10.0)
    SimulatedNode(world, "fresh")

    def role() -> str:
        return next((each.role for each in leader.node.nodes if each.name == "fresh"), "")

    await until(world, lambda: role() == "reading")
    leader.node.look_at_nodes("fresh")
    assert leading.successor is None
    assert leader.told[-1][0] == "goes_on"
    await until(world, lambda: role() == "follower")
    leader.node.look_at_nodes("fresh")
    assert leading.successor == "fresh"


@simulated()
async def test_node_that_reads_the_log_reports_only_who_leads_now(world: World, leader: SimulatedNode) -> None:
    """Clients are passed on to whom it reports."""
    for _ in range(3):
        leader = await fail_over(world, leader)
    fresh = SimulatedNode(world, "fresh")
    reported = leaders_reported(fresh)
    world.nodes.append(fresh)
    await asyncio.sleep(1.0)
    assert reported == [4]
    world.database.cut_off.add(fresh.name)
    for _ in range(2):
        leader = await fail_over(world, leader)
    world.database.cut_off.clear()
    await asyncio.sleep(1.0)
    assert reported == [4, 6]


@simulated()
async def test_leader_is_reported_though_it_never_stops_writing(world: World, leader: SimulatedNode) -> None:
    """So that a slow node finds something whenever it polls."""
    client, fresh = leader.connect(), SimulatedNode(world, "fresh")
    reported = leaders_reported(fresh)

    async def load() -> None:
        while True:
            await put(leader, client)

    async def slow_down() -> None:
        while True:
            world.loop.pause(fresh.name, 0.02)
            await asyncio.sleep(0.0201)

    tasks = [asyncio.ensure_future(load()), asyncio.ensure_future(slow_down())]
    await until(world, lambda: bool(reported))
    for each in tasks:
        each.cancel()


@simulated()
async def test_leader_before_is_not_reported_while_the_next_begins(world: World) -> None:
    await fail_over(world, await leader_of(world))
    for node in world.nodes:
        await node.kill()
    world.nodes[0].start()
    await until(world, lambda: bool(world.leaders()), 0.0001)
    world.database.faults = Faults(lost_before=1.0)
    reported = leaders_reported(SimulatedNode(world, "fresh"))
    await asyncio.sleep(1.0)
    world.database.faults = Faults()
    await until(world, lambda: bool(reported))
    assert reported == [3]


@simulated()
async def test_report_about_the_leader_before_makes_nobody_hand_over(leader: SimulatedNode) -> None:
    await asyncio.sleep(2.5)
    leading = leader.log
    leader.node.nodes = [replace(each, reaches_leader=False, epoch=leading.epoch - 1) for each in leader.node.nodes]
    leader.node.look_at_nodes("")
    assert leading.successor is None
    leader.node.nodes = [replace(each, epoch=leading.epoch) for each in leader.node.nodes]
    leader.node.look_at_nodes("")
    assert leading.successor is not None


@simulated()
async def test_nodes_that_do_not_reach_each_other_do_not_take_turns(world: World, leader: SimulatedNode) -> None:
    for node in world.nodes:
        node.reaches_leader = False
    second = await leader_of(world, leader)
    await asyncio.sleep(55.0)
    assert world.leaders() == [second]
    assert any(line[0] == "cut_off" for line in second.told)
    await leader_of(world, second)  # for who got the lead may be the one that nobody reaches


@simulated()
async def test_node_that_begins_behind_the_epoch_row_knows_who_leads(world: World, leader: SimulatedNode) -> None:
    await roll(world, leader)
    fresh = SimulatedNode(world, "fresh")
    await until(world, lambda: bool(fresh.node.following and fresh.node.following.known_epoch))
    assert fresh.node.following is not None
    assert fresh.node.following.replica is not None
    assert fresh.node.following.replica.leader["address"] == leader.name


@simulated()
async def test_row_that_was_not_confirmed_may_go(world: World, leader: SimulatedNode) -> None:
    """Nobody was answered on it, and no follower has applied it."""
    await asyncio.sleep(1.0)
    tip = leader.log.tip
    await leader.kill()
    database = world.database
    tip = max((entry.row for entry in database.tables[tip.place.segment].values()), key=lambda row: row.place)
    row = row_behind(tip, epoch=tip.epoch, kind=RowKind.RECORDS, writer=tip.writer, confirmed=tip.confirmed, data=b"")
    database.tables[row.place.segment][row.place.row] = Entry(row, visible=True)
    others = [node.node.following for node in world.nodes if node is not leader]
    await until(world, lambda: all(each and each.replica and each.replica.tip == row for each in others))
    assert await database.promote() == 1
    await leader_of(world)
    assert world.counts["rewound"] == len(others)
    assert not database.halted


@simulated()
async def test_nobody_leads_a_log_that_was_exported(world: World, leader: SimulatedNode) -> None:
    await asyncio.sleep(1.0)
    tip = leader.log.tip
    row = row_behind(tip, epoch=tip.epoch, kind=RowKind.CLOSED, writer=b"0" * 16, confirmed=tip.confirmed, data=b"")
    world.database.tables[row.place.segment][row.place.row] = Entry(row, replicated=True, visible=True)
    await until(world, lambda: not world.leaders())
    await asyncio.sleep(20.0)
    assert not world.leaders()


@simulated()
async def test_next_leader_knows_how_often_a_job_was_reserved(world: World, leader: SimulatedNode) -> None:
    client = leader.connect()
    await put(leader, client)
    for _ in range(2):
        assert await ask(leader, client, b"reserve-job 1") == b"RESERVED 1 1\r\nx\r\n"
        assert await ask(leader, client, b"release 1 1 0") == b"RELEASED\r\n"
    await leader.kill()
    other = await leader_of(world, leader)
    assert b"\nreserves: 2\n" in await ask(other, other.connect(), b"stats-job 1")


@pytest.mark.parametrize(
    "command",
    [
        b"put 1 0 60 1\r\nx\r\n",
        b"reserve\r\n",
        b"reserve-with-timeout 1\r\n",
        b"reserve-job 2\r\n",
        b"touch 1\r\n",
        b"release 1 1 0\r\n",
        b"bury 1\r\n",
    ],
)
@simulated()
async def test_commands_wait_while_much_is_unconfirmed(world: World, leader: SimulatedNode, command: bytes) -> None:
    leading, client, flood = leader.log, leader.connect(), leader.connect()
    await put(leader, client)
    await put(leader, client)
    await ask(leader, client, b"reserve")
    before = len(client.output)
    world.database.down = True
    body = bytes(60_000)
    count = UNCONFIRMED_BYTES_MAX // len(body) + 10
    leader.in_context(flood.arrive, b"put 2 0 60 %d\r\n%b\r\n" % (len(body), body) * count)
    await until(world, lambda: bool(leading.records.waits))
    index = leading.records.index
    leader.in_context(client.arrive, command)
    await asyncio.sleep(1.0)
    assert leading.records.index == index
    world.database.down = False
    assert await client.reply(before, COMMAND_S_MAX)


@simulated()
async def test_nobody_is_answered_behind_the_row_that_hands_over(world: World, leader: SimulatedNode) -> None:
    """Another node may lead as soon as it sees the row, however long the lease was."""
    client, leading = leader.connect(), leader.log
    await put(leader, client)
    before = len(client.output)
    leading.hand_over("a node that is gone")
    await until(world, lambda: leading.tip.kind == RowKind.HANDOVER, 0.0001)
    leader.in_context(client.arrive, b"peek 1\r\n")
    await asyncio.sleep(0.5)
    assert not client.closed
    assert len(client.output) == before


@simulated()
async def test_leader_goes_on_after_the_server_was_away(world: World, leader: SimulatedNode) -> None:
    """Those who follow did not hear from it, but they heard nothing at all."""
    for _ in range(5):
        await asyncio.sleep(1.0)
        world.database.down = True
        await asyncio.sleep(10.0)
        world.database.down = False
    await asyncio.sleep(5.0)
    assert world.leaders() == [leader]
    assert world.counts["deposed"] == 0


@simulated()
async def test_nodes_are_stopped_though_it_takes_long_to_reach_the_server(world: World, leader: SimulatedNode) -> None:
    """As when some of its hosts are silent."""
    world.database.faults = Faults(delay_s=3.0)
    await leader.node.halt("rows are gone")
    assert world.database.halted


@simulated()
async def test_leader_alone_stops_when_what_was_confirmed_is_gone(world: World, leader: SimulatedNode) -> None:
    for node in world.nodes:
        if node is not leader:
            await node.kill()
    client = leader.connect()
    await put(leader, client)
    await world.database.promote(lost_rows=1)
    await until(world, lambda: leader.is_over)
    assert isinstance(leader.failure, LossError)
    assert client.closed


@pytest.mark.parametrize("missed", [False, True])
@simulated()
async def test_node_that_saw_few_rows_goes_on_with_the_logs_time(world: World, missed: bool) -> None:
    """Its wall clock is for a log that nobody has followed: only one row came, or those that came had been missed."""
    first, *others = world.nodes
    for node in others:
        node.clock.wall_s = first.clock.wall_s + 3600
    await asyncio.sleep(1.0)
    world.database.cut_off |= {node.name for node in others}
    if not missed:
        await until(world, lambda: bool(world.leaders()), 0.0001)
        world.database.cut_off.clear()
        world.database.faults = Faults(lost_before=1.0)
    await asyncio.sleep(1.0)
    await first.kill()
    world.database.faults = Faults()
    world.database.cut_off.clear()
    other = await leader_of(world, first)
    assert abs(other.now_ns() - first.now_ns()) < 60e9


@simulated()
async def test_node_that_begins_at_a_server_that_stands_still_finds_the_next(world: World) -> None:
    await leader_of(world)
    world.database.still.add(world.database.timeline)
    fresh = SimulatedNode(world, "fresh")
    await asyncio.sleep(1.0)
    assert fresh.node.following is not None
    assert fresh.node.following.replica is None
    await world.database.promote()
    await until(world, lambda: bool(fresh.node.following and fresh.node.following.replica))
