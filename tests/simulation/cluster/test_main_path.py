"""Three nodes and a database in simulated time: one leads, it ends, another goes on; and what servers refuse."""

import asyncio

import pytest

from beanpole.log.limits import POLL_S
from beanpole.log.postgres.rows import Row
from beanpole.log.postgres.store import Answer, ChangedError, GoneError, RefusedError
from tests.simulation.cluster.database import Faults
from tests.simulation.cluster.world import BODY, SimulatedNode, World, ask, leader_of, put, simulated, until


@simulated()
async def test_next_node_knows_what_was_acknowledged(world: World, leader: SimulatedNode) -> None:
    client = leader.connect()
    assert await ask(leader, client, b"put 1 0 60 5", b"hello") == b"INSERTED 1\r\n"
    assert await ask(leader, client, b"put 1 0 60 5", b"world") == b"INSERTED 2\r\n"
    assert await ask(leader, client, b"reserve") == b"RESERVED 1 5\r\nhello\r\n"
    assert await ask(leader, client, b"delete 1") == b"DELETED\r\n"
    killed_s = world.loop.time()
    await leader.kill()
    other = await leader_of(world, leader)
    assert world.loop.time() - killed_s < 2.0
    client = other.connect()
    assert await ask(other, client, b"peek 1") == b"NOT_FOUND\r\n"
    assert await ask(other, client, b"reserve") == b"RESERVED 2 5\r\nworld\r\n"


@simulated()
async def test_a_leader_counts_how_long_its_rows_take_until_they_are_confirmed(
    world: World, leader: SimulatedNode
) -> None:
    client = leader.connect()
    sync = leader.log.replica.engine.server_times.sync
    before = sum(sync.counts), sync.sum
    began_s = world.loop.time()
    assert await ask(leader, client, b"put 1 0 60 5", b"hello") == b"INSERTED 1\r\n"
    passed_us = (world.loop.time() - began_s) * 1e6
    assert sum(sync.counts) - before[0] in (1, 2), "the row of the put, and one that was under way"
    assert 0 < (sync.sum - before[1]) / (sum(sync.counts) - before[0]) <= passed_us


@simulated()
async def test_follower_reads_rows_that_follow_each_other_together(world: World, leader: SimulatedNode) -> None:
    follower = next(node for node in world.nodes if node is not leader)
    await asyncio.sleep(1.0)  # it stood for leader, too
    following = follower.node.following
    assert following is not None
    assert following.store is not None
    read, counts = following.store.read, list[int]()

    async def read_and_count(tip: Row, bytes_max: int) -> Answer:
        answer = await read(tip, bytes_max)
        counts.append(len(answer.rows))
        return answer

    following.store.read = read_and_count  # type: ignore[method-assign]
    client, began_s = leader.connect(), world.loop.time()
    while world.loop.time() < began_s + 2.0:
        await put(leader, client)
    assert sum(counts) > 2 * len(counts), "rows come faster than it polls"
    assert len(counts) <= 2.0 / POLL_S


@pytest.mark.parametrize(("end", "left"), [("kill", b"NOT_FOUND\r\n"), ("hand over", b"FOUND 1 1\r\nx\r\n")])
@simulated()
async def test_attempt_counts_when_the_leader_is_killed_and_not_when_it_hands_over(
    world: World, leader: SimulatedNode, end: str, left: bytes
) -> None:
    await asyncio.sleep(2.5)  # all have reported
    client = leader.connect()
    assert await ask(leader, client, b"set-rules default 20", b"attempts: 1\ndead: d\n") == b"RULES_SET\r\n"
    await put(leader, client)
    assert await ask(leader, client, b"reserve") == b"RESERVED 1 1\r\nx\r\n"
    if end == "kill":
        await leader.kill()
    else:
        assert leader.node.hand_over(next(node.name for node in world.nodes if node is not leader))
    other = await leader_of(world, leader)
    client = other.connect()
    assert await ask(other, client, b"peek-ready") == left
    if end == "kill":
        assert await ask(other, client, b"use d") == b"USING d\r\n"
        assert await ask(other, client, b"peek-ready") == b"FOUND 1 1\r\nx\r\n"
    else:
        assert await ask(other, client, b"reserve") == b"RESERVED 1 1\r\nx\r\n"
        assert await ask(other, client, b"fail-job 1 0", b"") == b"BURIED\r\n"


# --- servers that refuse the work ---


@simulated()
async def test_refusal_in_the_work_beside_ends_the_node(world: World, leader: SimulatedNode) -> None:
    world.database.table_error = RefusedError("the role may not make a table")
    client = leader.connect()
    leader.in_context(client.arrive, b"put 1 0 60 3000\r\n%b\r\n" % BODY * 100)
    await until(world, lambda: leader.is_over)
    assert isinstance(leader.failure, RefusedError)
    assert client.closed


@simulated()
async def test_server_that_refuses_is_not_the_one_that_was_promoted(world: World, leader: SimulatedNode) -> None:
    """The hosts are asked in turn while a commit waits, and one of them may be any server that takes writes."""
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


@pytest.mark.parametrize("error", [RefusedError("permission denied for table node"), GoneError("no table node")])
@simulated()
async def test_nodes_go_on_when_they_may_not_report(world: World, leader: SimulatedNode, error: Exception) -> None:
    """What they say of themselves is for display; that is said once."""
    database = world.database
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
    await until(world, lambda: other.is_over)
    assert isinstance(other.failure, ChangedError), "it is stopped all the same"
