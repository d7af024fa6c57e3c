"""Three nodes and a database in simulated time: one leads, it is killed, another goes on."""

import asyncio

from tests.simulation.cluster.world import ClientTransport, SimulatedNode, World

COMMAND_S_MAX = 60.0


async def ask(node: SimulatedNode, client: ClientTransport, *lines: bytes) -> bytes:
    """Send commands and wait for what comes back, or for the end of the connection."""
    before = len(client.output)
    node.in_context(client.arrive, b"".join(line + b"\r\n" for line in lines))
    reply = await client.reply(before, COMMAND_S_MAX)
    assert reply or client.closed, f"no answer to {lines}"
    return reply


async def leader_of(world: World, but: SimulatedNode | None = None) -> SimulatedNode:
    """Wait until a node leads."""
    until = world.loop.time() + COMMAND_S_MAX
    while True:
        found = [node for node in world.leaders() if node is not but]
        if found:
            return found[0]
        assert world.loop.time() < until, "no node leads"
        await asyncio.sleep(0.01)


def test_next_node_knows_what_was_acknowledged() -> None:
    world = World(1)

    async def main() -> None:
        world.begin()
        leader = await leader_of(world)
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

    world.run(main())


def test_a_leader_counts_how_long_its_rows_take_until_they_are_confirmed() -> None:
    world = World(1)

    async def main() -> None:
        world.begin()
        leader = await leader_of(world)
        client = leader.connect()
        assert leader.node.leading is not None
        sync = leader.node.leading.replica.engine.server_times.sync
        before = sum(sync.counts), sync.sum
        began_s = world.loop.time()
        assert await ask(leader, client, b"put 1 0 60 5", b"hello") == b"INSERTED 1\r\n"
        passed_us = (world.loop.time() - began_s) * 1e6
        assert sum(sync.counts) - before[0] in (1, 2), "the row of the put, and one that was under way"
        assert 0 < (sync.sum - before[1]) / (sum(sync.counts) - before[0]) <= passed_us

    world.run(main())
