"""Which output may leave a connection: replies wait until what they depend on is durable, and their order is kept."""

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

PUT = b"put 0 0 60 0\r\n\r\n"


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_reply_to_a_put_is_held_until_it_is_durable(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.receive(1, PUT)
    index = engine.records.index
    assert index > 0
    assert connection.take_output(index - 1) == b""
    assert connection.take_output(index) == b"INSERTED 1\r\n"
    assert connection.take_output(index) == b""


def test_reply_that_depends_on_nothing_is_not_held(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.receive(1, b"list-tube-used\r\n")
    assert connection.take_output(0) == b"USING default\r\n"


def test_reply_behind_a_held_one_keeps_its_place(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.receive(1, PUT)
    first = engine.records.index
    assert connection.take_output(0) == b""
    connection.receive(1, b"list-tube-used\r\n")
    assert connection.take_output(0) == b""
    connection.receive(1, PUT)
    assert connection.take_output(first) == b"INSERTED 1\r\nUSING default\r\n"
    assert connection.take_output(engine.records.index) == b"INSERTED 2\r\n"


def test_reply_before_a_held_one_leaves_when_it_was_there_first(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.receive(1, b"list-tube-used\r\n")
    assert connection.take_output(0) == b"USING default\r\n"
    connection.receive(1, PUT)
    assert connection.take_output(0) == b""


def test_output_of_others_is_not_held(engine: Engine) -> None:
    writer, reader = Connection(engine, 1), Connection(engine, 1)
    writer.receive(1, PUT)
    reader.receive(1, b"list-tube-used\r\n")
    assert reader.take_output(0) == b"USING default\r\n"
    assert writer.take_output(0) == b""


@given(st.lists(st.sampled_from(["put", "ask", "sync", "take", "both"]), max_size=60))
def test_nothing_leaves_too_early_late_or_out_of_order(steps: list[str]) -> None:
    """After each step what has left is a beginning of all replies: all that is durable, and no put that is not."""
    connection = Connection(engine := Engine(), 1)
    replies: list[tuple[int, bytes]] = []
    puts = durable = 0
    got = b""
    for step in steps:
        if step in ("put", "both"):
            puts += 1
            connection.receive(1, PUT + b"list-tube-used\r\n" * (step == "both"))
            replies.append((engine.records.index, b"INSERTED %d\r\n" % puts + b"USING default\r\n" * (step == "both")))
        elif step == "ask":
            connection.receive(1, b"list-tube-used\r\n")
            replies.append((0, b"USING default\r\n"))
        elif step == "sync":
            durable = engine.records.index
        got += connection.take_output(durable)
        free = next((place for place, (index, _) in enumerate(replies) if index > durable), len(replies))
        assert got == b"".join(reply for _, reply in replies[:free])


def test_quit_finishes_the_connection(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.receive(1, b"list-tube-used\r\nquit\r\nlist-tube-used\r\n")
    assert connection.finished
    assert connection.take_output() == b"USING default\r\n"


def test_half_close_finishes_the_connection_when_all_input_has_run(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.receive(1, b"reserve\r\nlist-tube-used\r\nuse unfinished")
    before = connection.finished
    connection.half_close(1)
    connection.resume(1)
    assert (before, connection.finished) == (False, True)
    assert connection.take_output() == b"TIMED_OUT\r\nUSING default\r\n"


def test_closing_twice_does_nothing(engine: Engine) -> None:
    connection = Connection(engine, 1)
    connection.close(1)
    connection.close(1)
    assert engine.session_count == 0


def test_ends_of_replies_may_be_wanted(engine: Engine) -> None:
    connection = Connection(engine, 1, one_reply_per_send=True)
    connection.receive(1, b"list-tube-used\r\n" * 50 + PUT + b"peek-ready\r\n")
    assert connection.take_output() == b"USING default\r\n" * 50 + b"INSERTED 1\r\nFOUND 1 0\r\n\r\n"


def test_memory_of_sent_output_is_given_back_while_some_is_held(engine: Engine) -> None:
    """With group commit a busy client always has a reply that waits; what was sent before it must not pile up."""
    size, rounds = 60_000, 2_000
    connection = Connection(engine, 1)
    connection.receive(1, b"put 0 0 60 %d\r\n%b\r\n" % (size, bytes(size)))
    connection.take_output()
    before = resident_bytes()
    for _ in range(rounds):
        connection.receive(1, b"peek 1\r\n" + PUT)
        connection.take_output(engine.records.index - 1)
    grown = resident_bytes() - before
    assert grown < rounds * size // 8, f"{rounds} replies that were sent take {grown} bytes"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
