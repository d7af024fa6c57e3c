"""No command touches the disk: each call of a directory, a file or a runner fails while one runs (`disk.Ban`).

That holds for every seeded run too. Here are the cases in which a log would want a file at once.
"""

import pytest

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.log.log import Policy
from beanpole.server.connection import Connection
from tests.simulation.disk import SimDisk
from tests.simulation.life import Client, Life, Promises
from tests.simulation.runner import NS_PER_S, Clock

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


def change(life: Life, client: Client, id: int) -> None:
    """Every command that changes a job or a tube, for one job, in one turn."""
    for verb, line in (
        (b"reserve-job", b"reserve-job %d"),
        (b"touch", b"touch %d"),
        (b"release", b"release %d 5 1"),
        (b"kick-job", b"kick-job %d"),
        (b"reserve-job", b"reserve-job %d"),
        (b"bury", b"bury %d 7"),
    ):
        life.send(client, verb, line % id, id)
    life.send(client, b"kick", b"kick 1")
    for seconds in (100, 0):
        life.send(client, b"pause-tube", b"pause-tube default %d" % seconds)


def use_up(life: Life) -> None:
    """One client does what can be done, then leaves while it holds a job and another's time runs out."""
    client = life.connect()
    for id in range(1, life.engine.next_job_id):
        change(life, client, id)
        end_turn(life)
    for _ in range(2):
        life.send(client, b"reserve", b"reserve-with-timeout 0")
    life.clock.now_ns += 101 * NS_PER_S
    life.tick()
    life.send(client, b"reserve", b"reserve-with-timeout 0")
    life.disconnect(client)
    end_turn(life)


def delete_all(life: Life, client: Client) -> None:
    for id in range(1, life.engine.next_job_id):
        life.send(client, b"delete", b"delete %d" % id, id)
    end_turn(life)
    assert life.engine.jobs.count == 0
    assert life.promises.deleted == life.promises.put


@pytest.mark.parametrize("body_bytes", [10, 900, SEGMENT_BYTES, 5 * SEGMENT_BYTES])
@pytest.mark.parametrize("capacity", [None, 8 * SEGMENT_BYTES, 40 * SEGMENT_BYTES])
def test_no_command_touches_the_disk(body_bytes: int, capacity: int | None) -> None:
    life = start(capacity)
    client = life.connect()
    for _ in range(3):
        for _ in range(BURST):
            put(life, client, body_bytes)
        end_turn(life)
    assert life.space.full == (capacity is not None and body_bytes > 10)
    use_up(life)
    check(life.engine)
    delete_all(life, client)


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
