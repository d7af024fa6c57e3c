"""Limits of tubes under random use: never more than they say, and nobody waits for what they would allow."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beanpole.engine.engine import Engine
from beanpole.engine.limits import NAMES_PER_TURN
from beanpole.server.connection import Connection
from beanpole.testing.world import World

SECOND_NS = 1_000_000_000
UNITS = {"s": 1, "m": 60, "h": 3600}
WORKERS = "vwxyz"


class Tube:
    """The tube `t` with rules, clients that put, reserve and go, and when each job was handed out."""

    def __init__(self, *rules: str) -> None:
        self.world = World()
        self.world.connect("boss")
        self.set_rules(*rules)
        self.said("boss", b"use t\r\n")
        self.taken_ns: list[int] = []
        self.most_held = 0
        self.held: dict[str, list[int]] = {}

    def set_rules(self, *rules: str) -> None:
        text = "".join(f"{rule}\n" for rule in rules).encode()
        assert self.said("boss", b"set-rules t %d\r\n%b\r\n" % (len(text), text)) == b"RULES_SET\r\n"

    def said(self, name: str, data: bytes) -> bytes:
        self.world.send(name, data)
        return self.world.output(name)

    def put(self, count: int) -> None:
        self.said("boss", b"put-job 1 tube=t ttr=3\r\nx\r\n" * count)

    def work(self, name: str, what: str) -> None:
        """One thing that a worker does, unless it waits."""
        if name not in self.held:
            self.world.connect(name)
            self.held[name] = []
            self.world.send(name, b"watch t\r\nignore default\r\n")
            self.world.output(name)
        session = self.world.connections[name].session
        held = self.held[name]
        if what == "leave":
            self.world.disconnect(name)
            del self.held[name]
        elif not session.waiting:
            id = held[0] if held else 0
            lines = {"reserve": "reserve", "many": "reserve-many 3 1", "now": "reserve-with-timeout 0"}
            lines |= {"delete": f"delete {id}", "release": f"release {id} 0 0", "bury": f"bury {id} 0"}
            lines |= {"delay": f"release {id} 0 1", "fail": f"fail-job {id} 0\r\n", "touch": f"touch {id}"}
            self.world.send(name, lines[what].encode() + b"\r\n")
            if what in {"delete", "release", "bury", "delay", "fail"} and held:
                held.pop(0)
        self.note()

    def note(self) -> None:
        """Takes note of the jobs that were handed out."""
        for name in list(self.held):
            for line in self.world.output(name).split(b"\r\n"):
                words = line.split()
                if words and words[0] in {b"RESERVED", b"JOB"}:
                    self.held[name].append(int(words[1]))
                    self.taken_ns.append(self.world.now_ns)
        self.most_held = max(self.most_held, *(tube.reserved_count for tube in self.world.engine.tube_list), 0)
        self.world.check()  # of which one thing is that nobody waits while the tube is open and has a job

    def pass_time(self, duration_ns: int, *, late: bool) -> None:
        if late:
            self.world.jump(duration_ns)
        else:
            end_ns = self.world.now_ns + duration_ns
            while self.world.step(end_ns):
                self.note()
        self.note()


works = st.tuples(
    st.sampled_from(WORKERS),
    st.sampled_from(["reserve"] * 4 + ["many", "now", "delete", "delete", "release", "bury", "delay", "fail", "leave"]),
)
waits = st.tuples(st.integers(0, 3 * SECOND_NS), st.booleans())
others = st.sampled_from(["put", "put", "kick", "pause", "resume", "again", "forget"])
deeds = st.lists(st.one_of(works, works, waits, others), max_size=60)


def run(tube: Tube, deeds: list[Any], rules: list[str]) -> None:
    """Does what was drawn."""
    tube.put(5)
    for deed in deeds:
        if isinstance(deed, tuple) and isinstance(deed[0], str):
            tube.work(*deed)
        elif isinstance(deed, tuple):
            tube.pass_time(deed[0], late=deed[1])
        elif deed == "put":
            tube.put(3)
        elif deed == "again":  # another limit beside it, which starts no bucket anew
            tube.set_rules(*rules, "jobs-max: 100")
        elif deed == "forget":
            for name in list(tube.held):
                tube.work(name, "leave")
            tube.said("boss", b"use default\r\nclear-tube t\r\nuse t\r\n")
        else:
            lines = {"kick": b"kick 9\r\n", "pause": b"pause-tube t 2\r\n", "resume": b"pause-tube t 0\r\n"}
            tube.said("boss", lines[deed])
        tube.note()


@settings(deadline=None, max_examples=150)
@given(
    st.integers(1, 9), st.sampled_from("ssm"), st.one_of(st.none(), st.integers(1, 5)), deeds, st.integers(0, SECOND_NS)
)
def test_no_window_sees_more_than_the_rate(
    count: int, unit: str, burst: int | None, deeds: list[Any], jump: int
) -> None:
    rule = f"rate: {count}/{unit}" + ("" if burst is None else f" burst {burst}")
    tube = Tube(rule)
    began_ns = tube.world.now_ns
    tube.pass_time(jump, late=True)
    run(tube, deeds, [rule])
    size = burst if burst is not None else max(1, -(-count // UNITS[unit]))
    per_ns = Fraction(count, UNITS[unit] * SECOND_NS)
    times = tube.taken_ns
    assert len(times) <= (tube.world.now_ns - began_ns) * per_ns, "the bucket was not empty at first"
    for first, at_ns in enumerate(times):
        for last in range(first, len(times)):
            assert last - first + 1 <= size + (times[last] - at_ns) * per_ns, (first, last, times)


@pytest.mark.parametrize(("rule", "interval_ns"), [("7/s burst 1", 142_857_143), ("90/m burst 4", 666_666_667)])
def test_every_token_is_used_where_there_are_jobs_and_workers(rule: str, interval_ns: int) -> None:
    """A worker that takes one job after the other gets one with each token, at the moment when it comes."""
    tube = Tube(f"rate: {rule}")
    began_ns = tube.world.now_ns
    tube.put(50)
    for _ in range(40):
        tube.work("w", "reserve")
        tube.pass_time(interval_ns, late=False)
        tube.work("w", "delete")
    assert tube.taken_ns == [began_ns + (1 + i) * interval_ns for i in range(40)]


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 4), deeds)
def test_never_more_are_held_than_may_be(most: int, deeds: list[Any]) -> None:
    tube = Tube(f"concurrency: {most}")
    run(tube, deeds, [f"concurrency: {most}"])
    assert tube.most_held <= most


# --- rules and many tubes ---------------------------------------------------------------------------------------------


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
    world.engine.tubes_max = 4

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
