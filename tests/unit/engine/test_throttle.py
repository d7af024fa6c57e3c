"""Limits of tubes at many tokens and with many tubes and patterns; the model shows that they hold."""

from itertools import pairwise

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.limits import NAMES_PER_TURN
from beanpole.engine.state.tube import Buckets
from beanpole.server.connection import Connection
from beanpole.testing.world import World

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(("rule", "interval_ns"), [("7/s burst 1", 142_857_143), ("90/m burst 4", 666_666_667)])
def test_every_token_is_used_where_there_are_jobs_and_workers(rule: str, interval_ns: int) -> None:
    """A worker that takes one job after the other gets one with each token, at the moment when it comes."""
    world = World()
    world.connect("w")
    world.send("w", f"set-rules default {len(rule) + 6}\r\nrate: {rule}\r\n".encode() + b"put 0 0 60 0\r\n\r\n" * 50)
    world.output("w")
    world.send("w", b"reserve\r\n")
    for id in range(1, 41):
        world.advance(interval_ns - 1)
        assert world.output("w") == b"", "a token came too early"
        world.advance(1)
        assert world.output("w") == b"RESERVED %d 0\r\n\r\n" % id
        world.send("w", b"delete %d\r\nreserve\r\n" % id)
        assert world.output("w") == b"DELETED\r\n"
    world.check()


def many_tubes(count: int) -> tuple[Engine, Connection]:
    """An engine with many tubes, and who watches them."""
    engine = Engine(now_ns=1)
    watcher = Connection(engine, 1)
    watcher.receive(1, b"".join(b"watch t%d\r\n" % number for number in range(count)))
    while watcher.pending:
        watcher.resume(1)
    return engine, watcher


def limited(engine: Engine) -> int:
    return sum(getattr(tube.rules, "concurrency", 0) == 5 for tube in engine.tube_list)


SET = b"set-rules t* 15\r\nconcurrency: 5\n\r\n"
COUNT = 12_000


def test_buckets_are_kept_for_no_more_tubes_than_there_may_be() -> None:
    """Two jobs an hour of each tube: one that was forgotten gives one more, the first of many gives two again."""
    world = World()
    world.connect("a")
    world.send("a", b"set-rules b* 19\r\nrate: 1/h burst 2\r\n\r\n")
    world.advance(2 * 3600 * SECOND_NS)
    world.engine.buckets = Buckets(4)

    def take(name: str, most: int) -> bytes:
        """Reserve from a tube what it gives, and leave it."""
        world.output("a")
        put, left = f"put-job 1 tube={name}\r\nx\r\n" * 2, f"clear-tube {name}\r\nignore {name}\r\n"
        world.send("a", f"{put}watch {name}\r\nreserve-many {most} 0\r\n".encode())
        said = world.output("a")
        ids = [line.split()[1].decode() for line in said.splitlines() if line.startswith(b"JOB ")]
        world.send("a", f"delete-many {' '.join(ids)}\r\n{left}".encode())
        return next(line for line in said.splitlines() if line.startswith(b"JOBS "))

    tubes = [f"b{number}" for number in range(6)]
    assert {take(name, 1) for name in tubes} == {b"JOBS 1"}
    assert take("b5", 2) == b"JOBS 1"
    assert take("b0", 2) == b"JOBS 2"


def test_rules_come_to_many_tubes_in_pieces() -> None:
    engine, watcher = many_tubes(COUNT)
    boss, other = Connection(engine, 1), Connection(engine, 1)
    boss.receive(1, SET + b"list-tube-used\r\n")
    assert 0 < limited(engine) < COUNT
    other.receive(1, b"use t-new\r\nlist-tube-used\r\n")
    assert other.take_output() == b"USING t-new\r\n" * 2
    said = boss.take_output()
    while boss.pending:
        assert said == b"" or limited(engine) == COUNT + 1
        boss.resume(1)
        said += boss.take_output()
    assert said == b"RULES_SET\r\nUSING default\r\n"
    assert limited(engine) == COUNT + 1
    watcher.close(1)
    while 0 <= engine.next_deadline_ns <= 1:
        engine.tick(1)
    boss.receive(1, b"drop-rules t*\r\n")
    assert limited(engine) == 0


def test_rules_come_to_every_tube_although_the_client_is_gone() -> None:
    engine, _ = many_tubes(COUNT)
    boss = Connection(engine, 1)
    boss.receive(1, SET)
    assert limited(engine) < COUNT
    boss.close(1)
    with_rules = [limited(engine)]
    while 0 <= engine.next_deadline_ns <= 1:
        engine.tick(1)
        with_rules.append(limited(engine))
    assert with_rules[-1] == COUNT
    assert 0 < max(later - sooner for sooner, later in pairwise(with_rules)) <= NAMES_PER_TURN


def test_a_thousand_patterns_and_no_more() -> None:
    world = World()
    world.connect("a")
    world.send("a", b"".join(b"set-rules t%d 0\r\n\r\n" % number for number in range(1000)))
    assert world.output("a") == b"RULES_SET\r\n" * 1000
    world.send("a", b"set-rules u 0\r\n\r\nset-rules t5 15\r\nconcurrency: 5\n\r\n")
    assert world.output("a") == b"BAD_RULES 0 there are rules for 1000 patterns already\r\nRULES_SET\r\n"


def test_list_rules_goes_on_where_a_page_ends() -> None:
    world = World()
    world.connect("a")
    dead = b"dead: " + b"d" * 200 + b"\n"
    world.send("a", b"".join(b"set-rules t%03d %d\r\n%b\r\n" % (number, len(dead), dead) for number in range(700)))
    world.output("a")
    found: list[bytes] = []
    pages, page = 0, [b""]
    while page:
        after = b" after=" + found[-1] if found else b""
        world.send("a", b"list-rules%b\r\n" % after)
        page = [line.split(b'"')[1] for line in world.output("a").split(b"\n") if b"pattern" in line]
        found += page
        pages += 1
    assert found == [b"t%03d" % number for number in range(700)]
    assert pages > 2
