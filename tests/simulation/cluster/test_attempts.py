"""Attempts at jobs, when another node leads: as after a crash, or as after a stop in good order."""

import asyncio

import pytest

from tests.simulation.cluster.test_main_path import ask, leader_of
from tests.simulation.cluster.test_rules import put, run
from tests.simulation.cluster.world import World


@pytest.mark.parametrize(("end", "left"), [("kill", b"NOT_FOUND\r\n"), ("hand over", b"FOUND 1 1\r\nx\r\n")])
def test_attempt_counts_when_the_leader_is_killed_and_not_when_it_hands_over(end: str, left: bytes) -> None:
    async def main(world: World) -> None:
        leader = await leader_of(world)
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

    run(main)
