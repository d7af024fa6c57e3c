"""Sessions of the server's own, which are not counted among those of its clients."""

import random
from typing import TYPE_CHECKING

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.protocol.decoder import Decoder
from beanpole.server.connection import Connection

if TYPE_CHECKING:
    from beanpole.engine.state.session import Session


def ask(engine: Engine, connection: Connection, lines: bytes) -> bytes:
    """Run commands, check the invariants, and return the replies."""
    connection.receive(1, lines)
    check(engine)
    return connection.take_output()


def numbers(connection: Connection, line: bytes) -> dict[str, str]:
    """Return statistics as a client reads them."""
    connection.receive(1, line)
    lines = connection.take_output().decode().split("\n")
    return dict(each.split(": ", 1) for each in lines if ": " in each)


def test_own_session_is_not_counted_among_those_of_clients() -> None:
    engine = Engine()
    client = Connection(engine, 1)
    before = numbers(client, b"stats\r\n"), numbers(client, b"stats-tube default\r\n")
    own = Connection(engine, 1, own=True)
    assert ask(engine, own, b"put 0 0 9 1\r\nx\r\nreserve-job 1\r\nrelease 1 0 0\r\n").startswith(b"INSERTED 1")
    after = numbers(client, b"stats\r\n"), numbers(client, b"stats-tube default\r\n")
    for kind in ("current-connections", "total-connections", "current-producers", "current-workers"):
        assert after[0][kind] == before[0][kind], kind
    for kind in ("current-using", "current-watching", "current-waiting"):
        assert after[1][kind] == before[1][kind], kind
    own.close(2)
    check(engine)
    assert (engine.session_count, engine.total_session_count) == (1, 1)


def test_own_session_that_waits_is_not_counted_but_served() -> None:
    engine = Engine()
    client = Connection(engine, 1)
    own = Connection(engine, 1, own=True)
    assert ask(engine, own, b"list-tubes-watched\r\nwatch a\r\nreserve\r\n") == b"OK 4\r\n---\n\r\nWATCHING 1\r\n"
    assert numbers(client, b"stats\r\n")["current-waiting"] == "0"
    assert numbers(client, b"stats-tube a\r\n")["current-waiting"] == "1"
    assert ask(engine, client, b"use a\r\nput 0 0 9 1\r\nx\r\n") == b"USING a\r\nINSERTED 1\r\n"
    assert own.take_output() == b"RESERVED 1 1\r\nx\r\n"
    own.close(2)
    check(engine)
    assert numbers(client, b"stats\r\n")["current-jobs-ready"] == "1"


def test_own_session_keeps_the_tube_that_it_uses() -> None:
    engine = Engine()
    own = Connection(engine, 1, own=True)
    assert ask(engine, own, b"use a\r\nuse default\r\nuse b\r\n") == b"USING a\r\nUSING default\r\nUSING b\r\n"
    assert [tube.name for tube in engine.tube_list] == [b"default", b"b"]
    own.close(2)
    check(engine)
    assert [tube.name for tube in engine.tube_list] == [b"default"]


def test_sessions_stay_in_order_while_they_come_and_go() -> None:
    chance = random.Random(12)
    engine = Engine()
    decoder = Decoder()
    decoder.receive(b"reserve\r\n")
    reserve = decoder.next_command()
    assert reserve is not None
    sessions: list[Session] = []
    for step in range(4000):
        if chance.random() < (0.7 if step < 2000 else 0.3) or not sessions:
            sessions.append(engine.open_session(step, own=chance.random() < 0.1))
            if chance.random() < 0.1:
                engine.apply(step, sessions[-1], reserve)
        else:
            engine.close_session(step, sessions.pop(chance.randrange(len(sessions))))
        if step % 50 == 0:
            check(engine)
    check(engine)
