"""Commands for many jobs, a piece a turn, and connections that held many; and what is read of a client that waits."""

from collections.abc import Iterable

import pytest

from beanpole.engine import limits
from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server import limits as server_limits
from beanpole.server.connection import Connection
from beanpole.server.turn import Turn
from tests.unit.server.memory_transport import MemoryTransport

COUNT = 3 * limits.JOBS_PER_PIECE // 2
"""Ids of one digit less than 6 that a line of 8 KiB has room for, and more than one piece."""


def filled(count: int) -> tuple[Engine, Connection]:
    """An engine with some jobs, and a connection to it."""
    engine = Engine()
    producer = Connection(engine, 0)
    for _ in range(count):
        producer.receive(0, b"put 0 0 60 1\r\nx\r\n")
    producer.close(0)
    return engine, Connection(engine, 0)


def test_delete_of_more_jobs_than_a_piece_goes_on_in_the_next_turn() -> None:
    engine, connection = filled(COUNT)
    line = b"delete-many " + b" ".join(b"%d" % (id + 1) for id in range(COUNT)) + b" 9999\r\nlist-tube-used\r\n"
    connection.receive(0, line)
    assert connection.pending
    assert connection.take_output() == b""
    assert len(engine.jobs.jobs()) == COUNT - limits.JOBS_PER_PIECE
    connection.resume(0)
    assert connection.take_output() == b"DELETED %d 9999\r\nUSING default\r\n" % COUNT
    assert not connection.pending


def test_jobs_deleted_before_the_client_goes_are_deleted() -> None:
    engine, connection = filled(COUNT)
    connection.receive(0, b"delete-many " + b" ".join(b"%d" % (id + 1) for id in range(COUNT)) + b"\r\n")
    connection.close(0)
    assert len(engine.jobs.jobs()) == COUNT - limits.JOBS_PER_PIECE


@pytest.mark.parametrize("stays", [True, False])
def test_kick_of_more_jobs_than_a_turn_may_kick_goes_on_in_the_next_turn(stays: bool) -> None:
    engine = Engine()
    connection, other = Connection(engine, 0), Connection(engine, 0)
    count = 3 * limits.KICKS_PER_TURN
    for _ in range(count):
        connection.receive(0, b"put 0 1000 60 1\r\nx\r\n")
    connection.take_output()
    connection.receive(0, b"kick %d\r\n" % (2 * count))
    other.receive(0, b"stats-tube default\r\n")
    left = int(other.take_output().partition(b"current-jobs-delayed: ")[2].split()[0])
    assert left >= count - limits.KICKS_PER_TURN
    if not stays:
        connection.close(0)
        connection = other
        connection.receive(0, b"kick %d\r\n" % count)
    while connection.pending:
        connection.resume(0)
    assert connection.take_output() == b"KICKED %d\r\n" % (count if stays else left)


def test_reserve_of_a_thousand_jobs_of_many_tubes_is_in_order() -> None:
    engine = Engine()
    connection = Connection(engine, 0)
    for id in range(1000):
        connection.receive(0, b"watch t%d\r\nuse t%d\r\nput %d 0 60 1\r\nx\r\n" % (id % 37, id % 37, id * 7919 % 11))
    connection.take_output()
    connection.receive(0, b"reserve-many 1000 0\r\n")
    first, *lines = connection.take_output().split(b"\r\n")
    taken = [int(line.split()[1]) for line in lines if line.startswith(b"JOB ")]
    assert first == b"JOBS 1000"
    assert taken == sorted(range(1, 1001), key=lambda id: ((id - 1) * 7919 % 11, id))


class SendingTransport(MemoryTransport):
    """It remembers what was sent at a time."""

    def __init__(self, turn: Turn) -> None:
        super().__init__(turn)
        self.sent: list[bytes] = []

    def send_bytes(self, data: bytes) -> int:
        """Take it all."""
        self.sent.append(data)
        return len(data)


def run(turn: Turn, turns: int = 10) -> None:
    """Run some turns, more than what follows needs."""
    for now_ns in range(2, turns + 2):
        turn.run(now_ns)


def turn_of_engine(*, one_reply_per_send: bool = False) -> Turn:
    """A turn whose next one is run by the test."""
    log = Log()
    turn = Turn(Engine(now_ns=1, records=log.records), log, one_reply_per_send=one_reply_per_send)
    turn.run_soon = lambda: None
    return turn


def test_cancel_is_two_replies_where_replies_are_sent_one_by_one() -> None:
    turn = turn_of_engine(one_reply_per_send=True)
    client = SendingTransport(turn)
    client.arrive(b"reserve\r\n", b"cancel-res", b"erve\r\n")
    run(turn)
    assert client.sent == [b"TIMED_OUT\r\n", b"CANCELLED\r\n"]


def test_replies_one_by_one_keep_their_order_whoever_waits_or_reads_slowly() -> None:
    turn = turn_of_engine(one_reply_per_send=True)
    waiting, slow = SendingTransport(turn), MemoryTransport(turn, room=0)
    waiting.arrive(b"reserve\r\nlist-tube-used\r\n")
    slow.arrive(b"put 0 0 60 1\r\nx\r\n" + b"list-tube-used\r\n" * 1000)
    run(turn)
    assert waiting.sent == [b"RESERVED 1 1\r\nx\r\n", b"USING default\r\n"]
    wanted = b"INSERTED 1\r\n" + b"USING default\r\n" * 1000
    for room in range(len(wanted)):
        slow.take(room)
        turn.run(20)
    assert slow.output == wanted


def test_input_behind_a_waiting_reserve_is_taken_only_as_far_as_it_may_cancel() -> None:
    turn = turn_of_engine()
    client = MemoryTransport(turn)
    client.arrive(b"reserve\r\n", b"list-tube-used\r\n", b"cancel-reserve\r\n", b"quit\r\n")
    run(turn)
    assert (client.woken_count, client.output) == (2, b"")
    producer = MemoryTransport(turn)
    producer.arrive(b"put 0 0 60 1\r\nx\r\n")
    run(turn)
    assert client.output == b"RESERVED 1 1\r\nx\r\nUSING default\r\nNOT_WAITING\r\n"
    assert client.closed


def test_a_client_that_waits_and_says_nothing_makes_no_turn_busy() -> None:
    turn = turn_of_engine()
    client = MemoryTransport(turn)
    client.arrive(b"reserve\r\n")
    run(turn)
    assert (client.woken_count, turn.busy) == (1, False)
    client.arrive(b"cancel-reserve\r")
    run(turn)
    assert (client.woken_count, turn.busy, client.output) == (2, False, b"")
    client.arrive(b"\n")
    run(turn)
    assert (turn.busy, client.output) == (False, b"TIMED_OUT\r\nCANCELLED\r\n")


def ready_in_many_tubes(count: int) -> bytes:
    """Watch as many tubes, each of which has a ready job."""
    return b"".join(b"watch t%d\r\nuse t%d\r\nput 0 0 600 1\r\nx\r\n" % (each, each) for each in range(count))


def stuck(count: int) -> bytes:
    """Bury as many jobs whose keys others hold by then."""
    keyed = b"put-job 1 key=k%d\r\nx\r\n"
    lines = keyed + b"reserve-job %d\r\nbury %d 0\r\n" + keyed
    return b"".join(lines % (each, 2 * each + 1, 2 * each + 1, each) for each in range(count))


HEADS = (b"JOBS", b"MOVED", b"KICKED", b"CANCELLED", b"RULES_SET", b"OK")


@pytest.mark.parametrize(
    ("before", "command", "most"),
    [
        (b"put 0 0 600 1\r\nx\r\n" * 20_000, b"list-jobs default ready 1\r\n", 4),
        (b"put 0 0 600 1\r\nx\r\n" * 20_000, b"move-jobs default ready 0 to=u\r\n", 4),
        (stuck(1000), b"kick 1\r\n", 1),
        (ready_in_many_tubes(500), b"reserve-many 1 0\r\n", 12),
        (b"".join(b"watch t%d\r\n" % each for each in range(1000)), b"reserve\r\ncancel-reserve\r\n", 12),
        (b"", b"set-rules t 11\r\nattempts: 2\r\n", 4),
        (b"".join(b"set-rules t%d 11\r\nattempts: 2\r\n" % each for each in range(100)), b"list-rules\r\n", 2),
    ],
    ids=["list", "move", "kick", "reserve", "cancel", "set", "rules"],
)
def test_a_short_reply_after_much_work_takes_the_share_of_that_work(before: bytes, command: bytes, most: int) -> None:
    """A hundred of them in one packet don't run in one turn: others would wait for all of it."""
    connection = Connection(Engine(), 0)
    connection.receive(0, before)
    while connection.pending or connection.choked:
        connection.take_output()
        connection.resume(0)
    connection.take_output()
    connection.receive(0, command * 100)
    heads = [line for line in connection.take_output().split(b"\r\n") if line.startswith(HEADS)]
    assert 1 <= len(heads) <= most
    assert connection.pending


def test_a_page_of_one_tube_takes_a_small_share() -> None:
    connection = Connection(Engine(), 0)
    connection.receive(0, b"stats-tubes limit=1\r\n" * 10)
    assert not connection.pending
    assert connection.take_output().count(b"name: default") == 10


def turns_of(connection: Connection, data: bytes) -> int:
    """Turns that it takes to answer what a client sends."""
    connection.receive(0, data)
    turns = 1
    while connection.pending:
        connection.resume(0)
        turns += 1
    return turns


def turns_of_page(names: Iterable[int]) -> int:
    """Turns that a page of stats-tubes takes, when the tubes were made in some order."""
    connection = Connection(Engine(), 0)
    turns_of(connection, b"".join(b"watch t%04d\r\n" % each for each in names))
    connection.take_output()
    turns = turns_of(connection, b"stats-tubes limit=100\r\n")
    assert connection.take_output().count(b"- name: ") == 100
    return turns


def test_a_page_of_tubes_takes_more_turns_where_more_names_are_sorted() -> None:
    """The search looks at the latest tube first: where it has the greatest name, each is a candidate for a while."""
    assert turns_of_page(range(4000)) >= turns_of_page(range(4000, 0, -1)) + 5


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        (b"clear-tube default\r\n", b"CLEARED 0\r\n"),
        (b"move-jobs default ready 9 to=t\r\n", b"MOVED 0\r\n"),
        (b"list-jobs default ready 9\r\n", b"JOBS 0\r\n"),
        (b"find-job default k\r\n", b"NOT_FOUND\r\n"),
        (b"delete-many 1\r\n", b"DELETED 0 1\r\n"),
    ],
)
def test_that_there_is_no_job_is_said_when_its_delete_is_durable(command: bytes, reply: bytes) -> None:
    """A crash could bring it back, and then the answer would have been wrong."""
    engine = Engine()
    one, other = Connection(engine, 0), Connection(engine, 0)
    one.receive(0, b"put-job 0 key=k\r\n\r\ndelete 1\r\n")
    other.receive(0, command)
    assert engine.records.index == 2
    assert other.take_output(1) == b""
    assert other.take_output(2) == reply


# --- the end of connections that hold many jobs -----------------------------------------------------------------------


def holder_of(turn: Turn, count: int) -> MemoryTransport:
    """A client that holds jobs."""
    client = MemoryTransport(turn)
    client.arrive(b"put 0 0 60 1\r\nx\r\nreserve\r\n" * count)
    for _ in range(10_000):
        if client.output.count(b"RESERVED") == count:
            return client
        turn.run(1)
    raise AssertionError("the jobs are not reserved")


def reserved(turn: Turn) -> int:
    """How many jobs are reserved."""
    client = MemoryTransport(turn)
    client.arrive(b"stats\r\n")
    while not client.output:
        turn.run(1)
    turn.end(1, client.connection)
    return int(client.output.partition(b"current-jobs-reserved: ")[2].split()[0])


def test_who_reads_the_end_of_its_connection_finds_all_its_jobs_back() -> None:
    turn = turn_of_engine()
    client = holder_of(turn, 3 * limits.MOVES_PER_TURN)
    client.arrive(b"quit\r\n")
    turn.run(1)
    assert (client.connection.closed, client.closed) == (True, False)
    assert reserved(turn) > 0
    for _ in range(3):
        turn.run(1)
    assert client.closed
    assert reserved(turn) == 0


def test_jobs_that_come_back_are_paid_for() -> None:
    """In a turn in which they do fewer commands of others run."""
    turn = turn_of_engine()
    client = holder_of(turn, 3 * limits.MOVES_PER_TURN)
    others = [MemoryTransport(turn) for _ in range(server_limits.TURN_COST_NS // server_limits.SHARE_COST_NS + 10)]
    served = []
    for leaves in (False, True):
        for other in others:
            other.arrive(b"list-tube-used\r\n" * 2 * (server_limits.SHARE_COST_NS // limits.COMMAND_COST_NS))
        turn.run(1)  # in which nobody is known to use much
        for other in others:
            other.output = b""
        if leaves:
            turn.end(1, client.connection)
        turn.run(1)
        served.append(sum(other.output.count(b"USING") for other in others))
        while turn.busy:
            turn.run(1)
    before_ns, after_ns = (limits.COMMAND_COST_NS * each for each in served)
    assert server_limits.TURN_COST_NS // 2 <= after_ns < 0.9 * before_ns
