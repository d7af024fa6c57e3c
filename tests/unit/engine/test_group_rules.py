"""New rules reach the groups of a tube in pieces; no limit is broken on the way, and taken tokens count."""

import pytest

from beanpole.testing.world import World
from tests.unit.engine.test_groups import SECOND, producer_and_worker, put, reserved, rules, say

GROUPS = 6_000  # that get other rules in several pieces


@pytest.fixture
def world() -> World:
    return producer_and_worker()


def test_other_rules_come_to_many_groups_in_pieces(world: World) -> None:
    """Each group is at its limit of one job; when that becomes two, a waiting session gets one, and all can be had."""
    rules(world, "group-concurrency: 1\n")
    for number in range(GROUPS):
        world.send("p", b"put-job 1 group=%d\r\nx\r\n" % number * 2)
    world.send("w", b"reserve-with-timeout 0\r\n" * (GROUPS + 1))
    assert world.output("w").count(b"RESERVED") == GROUPS
    world.connect("v")
    world.send("v", b"watch t\r\nreserve\r\n")
    world.output("p"), world.output("v")
    boss = world.connections["p"]
    boss.receive(world.now_ns, b"set-rules t 21\r\ngroup-concurrency: 2\n\r\n")
    assert world.output("v").startswith(b"RESERVED"), "it waits beside an open group"
    while boss.pending:
        assert boss.take_output() == b""
        assert reserved(world)
        boss.resume(world.now_ns)
    assert boss.take_output() == b"RULES_SET\r\n"
    world.send("w", b"reserve-with-timeout 0\r\n" * GROUPS)
    left = world.output("w").count(b"RESERVED")
    assert f"current-jobs-reserved: {2 * GROUPS}" in say(world, "w", "stats-tube t")
    assert 0 < left < GROUPS - 1, "nobody could reserve while the rules came"


def test_rules_come_to_all_groups_without_their_client(world: World) -> None:
    """The group that hears of them last is the one of which a job is waited for."""
    rules(world, "group-concurrency: 1\n")
    for number in [0, *range(GROUPS)]:
        world.send("p", b"put-job 1 group=%d\r\nx\r\n" % number)
    world.send("w", b"reserve-with-timeout 0\r\n" * GROUPS)
    assert world.output("w").count(b"RESERVED") == GROUPS
    world.connect("v")
    world.send("v", b"watch t\r\nreserve\r\n")
    world.output("p"), world.output("v")
    boss = world.connections["p"]
    boss.receive(world.now_ns, b"set-rules t 21\r\ngroup-concurrency: 2\n\r\n")
    assert boss.pending
    world.disconnect("p")
    assert world.output("v") == b""
    world.advance(SECOND)
    assert world.output("v").startswith(b"RESERVED")


def test_no_new_limit_is_broken_while_rules_come(world: World) -> None:
    """All groups are closed by the rule that comes, but only some of them know it at once."""
    for number in range(GROUPS):
        world.send("p", b"put-job 1 group=%d\r\nx\r\n" % number)
    world.output("p")
    boss = world.connections["p"]
    boss.receive(world.now_ns, b"set-rules t 16\r\ngroup-rate: 1/m\n\r\n")
    pieces = 0
    while not (said := boss.take_output()):
        pieces += 1
        assert reserved(world) == 0
        boss.resume(world.now_ns)
    assert said == b"RULES_SET\r\n"
    assert pieces > 1
    world.send("w", b"reserve\r\n" * GROUPS)
    world.output("w")
    world.advance(60 * SECOND)
    assert world.output("w").count(b"RESERVED") == GROUPS


def test_bucket_of_a_group_goes_on(world: World) -> None:
    """With a rule of the same rate, and when its last job is gone, or its tube."""
    rules(world, rate := "group-rate: 1/h burst 3\n")
    world.advance(3 * 3600 * SECOND)

    def take() -> bool:
        id = put(world, "a")
        if reserved(world) != id:
            return False
        return say(world, "w", f"delete {id}") == "DELETED"

    assert take()
    rules(world, rate + "jobs-max: 9\n")
    assert [take(), take(), take()] == [True, True, False]
    world.advance(3 * 3600 * SECOND)
    assert say(world, "w", "reserve-with-timeout 0\r\ndelete 4").endswith("DELETED")
    for name in ("p", "w"):
        say(world, name, "ignore t\r\nuse default")
    assert say(world, "p", "stats-tube t") == "NOT_FOUND"
    for name in ("p", "w"):
        say(world, name, "watch t\r\nuse t")
    assert [take(), take(), take()] == [True, True, False]
    rules(world, "group-rate: 2/h\n")
    assert reserved(world) == 0, "another bucket is empty"
    world.advance(1800 * SECOND)
    assert reserved(world)
