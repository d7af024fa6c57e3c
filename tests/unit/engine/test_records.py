"""What the engine records."""

from beanpole.engine.engine import Engine
from beanpole.engine.state.records import Records
from beanpole.server.connection import Connection


def recorded(records: Records, *lines: bytes) -> list[int]:
    """How many records each line makes."""
    connection = Connection(Engine(records=records), 0)
    counts = []
    for line in lines:
        before = records.index
        connection.receive(0, line + b"\r\n")
        counts.append(records.index - before)
    return counts


COMMANDS = (b"put 0 0 100 1\r\nx", b"reserve", b"touch 1", b"release 1 0 0", b"reserve-job 1", b"delete 1")


def test_reservation_is_no_record_unless_the_log_wants_it() -> None:
    assert recorded(Records(), *COMMANDS) == [1, 0, 0, 1, 0, 1]
    assert recorded(Records(wants_reservations=True), *COMMANDS) == [1, 1, 1, 1, 1, 1]


def test_a_hand_out_that_ends_a_key_is_one_record() -> None:
    put = b"put-job 1 key=k until=reserve\r\nx"
    assert recorded(Records(), put, b"reserve", b"bury 1 0", b"reserve-job 1") == [1, 1, 1, 1]
    assert recorded(Records(), put.replace(b" key", b" delay=9 key"), b"reserve-job 1", b"release 1 0 0") == [1, 1, 1]
    assert recorded(Records(wants_reservations=True), put, b"bury 1 0", b"reserve-job 1") == [1, 0, 2]


def test_reserved_waits_for_the_record_of_its_reservation() -> None:
    records = Records(wants_reservations=True)
    engine = Engine(records=records)
    worker, producer = Connection(engine, 0), Connection(engine, 0)
    worker.receive(0, b"reserve\r\n")
    producer.receive(0, b"put 0 0 100 1\r\nx\r\n")
    assert worker.take_output(records.index - 1) == b""
    assert worker.take_output(records.index) == b"RESERVED 1 1\r\nx\r\n"
