"""A job keeps its body, tags and counts while they grow and shrink, in its own memory or apart."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.job import Job, JobCount
from beanpole.server.connection import Connection

SIZES = st.sampled_from([0, 1, 3, 90, 100, 380, 400, 410, 412, 413, 420, 2_000])
STEPS = st.lists(st.tuples(st.sampled_from(["body", "failure", "release", "bury", "replace"]), SIZES), max_size=12)


def send(client: Connection, commands: bytes, times: int = 1) -> None:
    """Run commands, all of which find their job, some times."""
    for _ in range(times):
        client.receive(1, commands)
        assert b"NOT_FOUND" not in client.take_output()


def counted(job: Job) -> list[int]:
    """How often a job was reserved, and what else became of it."""
    return [job.count(what) for what in (JobCount.RESERVES, JobCount.RELEASES, JobCount.BURIES, JobCount.KICKS)]


@given(SIZES, STEPS)
def test_body_tags_and_counts_stay_what_they_were_set_to(size: int, steps: list[tuple[str, int]]) -> None:
    client = Connection(engine := Engine(), 1)
    body, failure, counts = b"b" * size, b"", Counter[str]()
    send(client, b"put-job %d key=k\r\n%b\r\n" % (size, body))
    for what, number in steps:
        times = min(number, 300)
        text = bytes([97 + number % 26]) * number
        if what == "body":
            send(client, b"change-body 1 %d\r\n%b\r\n" % (number, text))
            body = text
        elif what == "replace":
            send(client, b"put-job %d key=k taken=replace\r\n%b\r\n" % (number, text))
            body, failure = text, b""
        elif what == "failure":
            send(client, b"reserve\r\nfail-job 1 %d\r\n%b\r\n" % (min(number, 1_000), text[:1_000]))
            failure = text[:1_000]
            counts.update(reserves=1, releases=1)
        elif what == "bury":
            send(client, b"reserve\r\nbury 1 0\r\nkick-job 1\r\n", times)
            counts.update(reserves=times, buries=times, kicks=times)
        else:
            send(client, b"reserve\r\nrelease 1 0 0\r\n", times)
            counts.update(reserves=times, releases=times)
        (job,) = engine.jobs.jobs()
        assert job.text == body
        assert failure in job.tags
        assert counted(job) == [counts["reserves"], counts["releases"], counts["buries"], counts["kicks"]]
        check(engine)


def test_body_may_have_any_size() -> None:
    """Where it lies depends on numbers of one byte, which must not mean anything for a body that is longer."""
    client = Connection(engine := Engine(body_bytes_max=2**23), 1)
    for id, size in enumerate((*range(1_200), 65_533, 65_536, 2**23), 1):
        client.receive(1, b"put 0 0 9 %d\r\n%b\r\n" % (size, b"b" * size))
        assert [job.text for job in engine.jobs.jobs()] == [b"b" * size]
        client.receive(1, b"delete %d\r\n" % id)
        assert client.take_output() == b"INSERTED %d\r\nDELETED\r\n" % id
