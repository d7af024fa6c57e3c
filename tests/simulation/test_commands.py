"""No command touches the disk: each call of a directory, a file or a runner fails while one runs (`disk.Ban`).

That holds for every seeded run too. Here are the cases in which a log would want a file at once.
"""

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.log import Policy
from beanpole.server.connection import Connection
from tests.simulation.disk import SimDisk
from tests.simulation.life import Client, Life, Promises
from tests.simulation.runner import Clock

SEGMENT_BYTES = 4096
BURST = 40


def start(capacity: int | None = None) -> Life:
    disk = SimDisk()
    disk.capacity = capacity
    return Life(disk, Clock(), Policy(0), SEGMENT_BYTES, Promises())


def put(life: Life, client: Client, size: int) -> None:
    life.send(client, b"put", b"put 1 0 100 %d" % size, body=bytes(size))


def end_turn(life: Life) -> None:
    life.end_turn()
    life.runner.settle()
    life.deliver()
    assert not life.failed


def test_burst_begins_segments_without_files() -> None:
    """A turn that fills several segments leaves files to its end."""
    life = start()
    client = life.connect()
    end_turn(life)
    files = life.log.open.number
    for _ in range(BURST):
        put(life, client, 300)
    assert life.records.segment > files + 3
    assert life.log.open.number == files
    end_turn(life)
    assert life.log.open.number == life.records.segment


def test_command_that_touches_the_disk_is_noticed() -> None:
    disk = SimDisk()
    engine = Engine(facts=lambda: {"files": str(len(disk.names()))})
    connection = Connection(engine, 1)
    with pytest.raises(AssertionError, match="names"), disk.ban.while_a_command_runs():
        connection.receive(1, b"stats\r\n")
    connection = Connection(engine, 1)
    connection.receive(1, b"stats\r\n")
    assert connection.take_output().startswith(b"OK ")
