"""The table of jobs: it holds what was put and not deleted, while it grows and shrinks bucket by bucket."""

from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 90))))
def test_table_holds_what_was_put_and_not_deleted(steps: list[tuple[bool, int]]) -> None:
    connection = Connection(engine := Engine(), 1)
    there: list[int] = []
    last = 0
    for putting, count in steps:
        if putting:
            connection.receive(1, b"put 0 0 60 0\r\n\r\n" * count)
            there += range(last + 1, last + count + 1)
            last += count
        elif there:
            gone = there[:: max(1, len(there) // count)][:count]
            connection.receive(1, b"".join(b"delete %d\r\n" % job_id for job_id in gone))
            there = [job_id for job_id in there if job_id not in set(gone)]
        connection.take_output()
        engine.jobs.check()
        assert engine.jobs.count == len(there)
        assert sorted(job.id for job in engine.jobs.jobs()) == there


def test_table_finds_each_of_many_jobs_and_no_other() -> None:
    count = 5_000
    connection = Connection(engine := Engine(), 1)
    for _ in range(count // 500):
        connection.receive(1, b"put 0 0 60 0\r\n\r\n" * 500)
    connection.take_output()
    for job_id in range(2, count, 2):
        connection.receive(1, b"delete %d\r\n" % job_id)
    connection.take_output()
    for job_id in range(1, count):
        connection.receive(1, b"peek %d\r\n" % job_id)
        assert connection.take_output() == (b"FOUND %d 0\r\n\r\n" % job_id if job_id % 2 else b"NOT_FOUND\r\n")
    for alias in (0, count + 1, 2**32 + 1, 2**63 + 1, 2**64 - 1):
        connection.receive(1, b"peek %d\r\n" % alias)
        assert connection.take_output() == b"NOT_FOUND\r\n"
    engine.jobs.check()


def test_table_finds_the_jobs_of_a_segment_in_pieces() -> None:
    count = 20_000
    connection = Connection(engine := Engine(), 1)
    for _ in range(count // 500):
        connection.receive(1, b"put 0 0 60 0\r\n\r\n" * 500)
    connection.take_output()
    ids, at = engine.jobs.ids_in(0, 0)
    pieces = 1
    while at:
        more, at = engine.jobs.ids_in(0, at)
        ids += more
        pieces += 1
    assert sorted(ids) == sorted(job.id for job in engine.jobs.jobs())
    assert pieces > 1
    assert engine.jobs.ids_in(1, 0)[0] == []
