"""A put for which the log has no space prepared waits for the next turn, and has not happened until then."""

import pytest

from beanpole.engine.engine import Engine
from beanpole.engine.state.records import Records, Room
from beanpole.server.connection import Connection

PUT = b"put 1 0 60 5\r\nhello\r\n"
PIECES = [[PUT], [PUT + b"list-tube-used\r\n"], [PUT[:8], PUT[8:]], [PUT[:-1], PUT[-1:]]]


class Answers(Records):
    """Says WAIT to the next puts, as often as it was told to, then something else."""

    def __init__(self) -> None:
        self.left = 0
        self.then = Room.OK

    def room_for_put(self, size: int) -> Room:  # noqa: ARG002 - the engine's call
        """Answer as told."""
        self.left -= 1
        return Room.WAIT if self.left >= 0 else self.then


@pytest.fixture
def records() -> Answers:
    return Answers()


@pytest.fixture
def connection(records: Answers) -> Connection:
    return Connection(Engine(records=records), 1)


def state(connection: Connection) -> set[str]:
    """What is true of a connection."""
    facts = {
        "pending": connection.pending,
        "producer": connection.session.producer,
        "finished": connection.finished,
    }
    return {name for name, holds in facts.items() if holds}


@pytest.mark.parametrize("pieces", PIECES)
def test_put_waits_and_has_not_happened(connection: Connection, records: Answers, pieces: list[bytes]) -> None:
    records.left = 3
    for piece in pieces:
        connection.receive(1, piece)
    left = 2
    assert state(connection) == {"pending"}
    while connection.pending:
        assert connection.take_output() == b""
        assert records.index == 0
        connection.resume(1)
        left -= 1
    assert left == -1
    assert state(connection) == {"producer"}
    rest = b"USING default\r\n" if pieces[0].endswith(b"used\r\n") else b""
    assert connection.take_output() == b"INSERTED 1\r\n" + rest
    connection.receive(1, b"peek 1\r\n")
    assert connection.take_output() == b"FOUND 1 5\r\nhello\r\n"
    connection.receive(1, b"stats\r\n")
    assert b"\ncmd-put: 1\n" in connection.take_output()


def test_put_that_waited_is_refused_when_the_disk_proves_full(connection: Connection, records: Answers) -> None:
    records.left, records.then = 1, Room.FULL
    connection.receive(1, PUT * 2)
    assert connection.pending
    connection.resume(1)
    assert connection.take_output() == b"OUT_OF_MEMORY\r\n" * 2
    assert not connection.pending


def test_input_that_arrives_meanwhile_keeps_its_place(connection: Connection, records: Answers) -> None:
    records.left = 2
    connection.receive(1, PUT[:-2])
    connection.receive(1, b"\r\n")
    connection.receive(1, b"put 0 0 60 2\r\nhi\r\nput 0")
    assert connection.take_output() == b""
    connection.resume(1)
    assert connection.take_output() == b"INSERTED 1\r\nINSERTED 2\r\n"
    connection.receive(1, b" 0 60 0\r\n\r\n")
    assert connection.take_output() == b"INSERTED 3\r\n"


def test_client_that_ends_while_its_put_waits(connection: Connection, records: Answers) -> None:
    records.left = 2
    connection.receive(1, PUT)
    connection.half_close(1)
    assert state(connection) == {"pending"}
    connection.resume(1)
    assert state(connection) == {"producer", "finished"}
    assert connection.take_output() == b"INSERTED 1\r\n"
