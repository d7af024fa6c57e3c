"""Sessions that watch very many tubes reserve and wait as others do, and look at few of their tubes for that."""

from random import Random

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.limits import WIDE_WATCHES
from beanpole.server.connection import Connection

TUBES = 12
SESSIONS = 5
STEPS = 1_500
SECOND = 1_000_000_000


class Pair:
    """Two engines that are told the same: one has no wide sessions, in the other nearly all are."""

    def __init__(self, wide_watches: int) -> None:
        self.now_ns = 1
        self.engines = [Engine(now_ns=1, wide_watches=limit) for limit in (1 << 30, wide_watches)]
        self.connections = [[Connection(engine, 1) for _ in range(SESSIONS)] for engine in self.engines]

    def say(self, at: int, data: bytes) -> None:
        for connections in self.connections:
            connections[at].receive(self.now_ns, data)

    def settle(self) -> None:
        """Let those go on who were woken, and compare what all were told."""
        for engine in self.engines:
            engine.tick(self.now_ns)
            while woken := engine.take_woken():
                for session in woken:
                    owner = session.owner
                    assert isinstance(owner, Connection)
                    owner.resume(self.now_ns)
            check(engine)
        replies = [[each.take_output() for each in connections] for connections in self.connections]
        assert replies[0] == replies[1]

    def reconnect(self, at: int) -> None:
        for engine, connections in zip(self.engines, self.connections, strict=True):
            connections[at].close(self.now_ns)
            connections[at] = Connection(engine, self.now_ns)

    def is_waiting(self, at: int) -> bool:
        return self.connections[0][at].session.waiting


def command(rng: Random, next_id: int) -> bytes:
    """One that changes who can have which job."""
    tube = b"t%d" % rng.randrange(TUBES)
    id = rng.randint(max(1, next_id - 12), next_id)
    delay = rng.choice((0, 0, 0, 1))
    lines = (
        b"watch %b" % tube,
        b"watch %b" % tube,
        b"ignore %b" % tube,
        b"put-job 1 tube=%b pri=%d delay=%d ttr=2\r\nx" % (tube, rng.randrange(4), delay),
        b"put-job 1 tube=%b pri=%d expire=1\r\nx" % (tube, rng.randrange(4)),
        b"use %b\r\nput 1 0 3 1\r\nx" % tube,
        b"reserve",
        b"reserve-with-timeout 0",
        b"reserve-with-timeout 2",
        b"reserve-many %d 0" % rng.randint(1, 5),
        b"reserve-many 2 1",
        b"delete %d" % id,
        b"release %d %d %d" % (id, rng.randrange(4), delay),
        b"bury %d 1" % id,
        b"kick-job %d" % id,
        b"kick 3",
        b"change-job %d pri=%d" % (id, rng.randrange(4)),
        b"change-job %d tube=%b" % (id, tube),
        b"pause-tube %b %d" % (tube, rng.choice((0, 1))),
        b"set-rules %b 15\r\nconcurrency: 1\n" % tube,
        b"set-rules %b 9\r\nrate: 1/s" % tube,
        b"drop-rules %b" % tube,
        b"clear-tube %b" % tube,
        b"stats-tube %b" % tube,
        b"explain-tube %b" % tube,
        b"list-tubes-watched",
    )
    return rng.choice(lines) + b"\r\n"


@pytest.mark.parametrize("seed", range(6))
def test_wide_sessions_get_what_others_get(seed: int) -> None:
    rng = Random(seed)
    pair = Pair(wide_watches=rng.choice((0, 2, 4)))
    for _ in range(STEPS):
        at = rng.randrange(SESSIONS)
        if rng.random() < 0.03:
            pair.reconnect(at)
        elif not pair.is_waiting(at):
            pair.say(at, command(rng, pair.engines[0].next_job_id))
        elif rng.random() < 0.3:
            pair.say(at, b"cancel-reserve\r\n")
        if rng.random() < 0.2:
            pair.now_ns += rng.choice((SECOND // 10, SECOND, 3 * SECOND))
        pair.settle()


def engine_with_wide_sessions(count: int) -> tuple[Engine, list[Connection]]:
    """Sessions that watch more tubes than others may."""
    engine = Engine(now_ns=1)
    connections = [Connection(engine, 1) for _ in range(count)]
    for connection in connections:
        for each in range(WIDE_WATCHES + 1):
            connection.receive(1, b"watch t%d\r\n" % each)
        connection.take_output()
    return engine, connections


def run(connection: Connection, commands: bytes) -> list[bytes]:
    """What is answered in each turn that commands take."""
    connection.receive(1, commands)
    said = [connection.take_output()]
    while connection.pending:
        connection.resume(1)
        said.append(connection.take_output())
    return said


def test_who_finds_many_tubes_emptied_goes_on_in_the_next_turn() -> None:
    """Others have taken the jobs, of which it was told once."""
    _, (late, quick) = engine_with_wide_sessions(2)
    run(quick, b"".join(b"put-job 1 tube=t%d\r\nx\r\n" % each for each in range(WIDE_WATCHES)))
    run(quick, b"reserve-many 1000 0\r\n" * (WIDE_WATCHES // 1000))
    assert run(late, b"reserve-with-timeout 0\r\n") == [b""] * (WIDE_WATCHES // 1000) + [b"TIMED_OUT\r\n"]
    late.receive(1, b"stats\r\n")
    assert b"\ncmd-reserve-with-timeout: 1\n" in late.take_output()


def test_watched_names_are_listed_in_pieces() -> None:
    _, (connection,) = engine_with_wide_sessions(1)
    first, *rest = run(connection, b"list-tubes-watched\r\n")
    assert first == b""
    names = b"".join(b"- t%d\n" % each for each in range(WIDE_WATCHES + 1))
    text = b"---\n- default\n" + names
    assert b"".join(rest) == b"OK %d\r\n%b\r\n" % (len(text), text)
