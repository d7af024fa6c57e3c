"""The heap through the engine: whatever goes in and out in whatever order, the first one out is the smallest."""

from bisect import insort

from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

PRI = st.integers(0, 5) | st.integers(0, 2**32 - 1)
STEPS = st.lists(
    st.tuples(st.just("put"), PRI) | st.tuples(st.sampled_from(["first", "delete"]), st.integers(0, 10**6))
)


def ask(connection: Connection, command: bytes) -> bytes:
    """The reply to a command."""
    connection.receive(1, command)
    return connection.take_output()


@given(STEPS)
def test_jobs_leave_by_priority_and_id(steps: list[tuple[str, int]]) -> None:
    connection = Connection(engine := Engine(), 1)
    there: list[tuple[int, int]] = []
    for what, number in steps:
        if what == "put":
            job_id = int(ask(connection, b"put %d 0 60 0\r\n\r\n" % number).split()[1])
            insort(there, (number, job_id))
        elif not there:
            assert ask(connection, b"peek-ready\r\n") == b"NOT_FOUND\r\n"
        elif what == "first":
            assert ask(connection, b"peek-ready\r\n") == b"FOUND %d 0\r\n\r\n" % there[0][1]
            assert ask(connection, b"reserve\r\n") == b"RESERVED %d 0\r\n\r\n" % there[0][1]
            assert ask(connection, b"delete %d\r\n" % there.pop(0)[1]) == b"DELETED\r\n"
        else:
            _, job_id = there.pop(number % len(there))
            assert ask(connection, b"delete %d\r\n" % job_id) == b"DELETED\r\n"
        check(engine)
    for _, job_id in there:
        assert ask(connection, b"reserve\r\n") == b"RESERVED %d 0\r\n\r\n" % job_id


@given(st.integers(1, 300), st.integers(0, 300))
def test_first_in_first_out(held: int, out_of_turn: int) -> None:
    """Room that the first ones leave is used again, also when one goes out of turn."""
    connection = Connection(engine := Engine(), 1)
    ids = list(range(1, held + 1))
    connection.receive(1, b"put 0 0 60 0\r\n\r\n" * held + b"reserve\r\n" * held)
    for step in range(3 * held):
        gone = ids.pop(out_of_turn % held if step == out_of_turn else 0)
        connection.receive(1, b"delete %d\r\nput 0 0 60 0\r\n\r\nreserve\r\n" % gone)
        ids.append(held + step + 1)
        if step % 100 == 0:
            check(engine)
    check(engine)
    connection.take_output()
    assert ask(connection, b"".join(b"delete %d\r\n" % id for id in ids)) == b"DELETED\r\n" * held
