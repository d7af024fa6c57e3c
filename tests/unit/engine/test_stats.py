"""What statistics say where the clock does not go on as they would like."""

from beanpole.engine.engine import Engine
from beanpole.server.connection import Connection

SECOND_NS = 1_000_000_000


def test_job_of_the_future_has_no_negative_age() -> None:
    """A start whose clock was set back, behind a torn last turn, finds one."""
    client = Connection(Engine(), 10 * SECOND_NS)
    client.receive(10 * SECOND_NS, b"put 0 0 100 1\r\nx\r\n")
    for now_s, age in ((13, b"3"), (8, b"0")):
        client.receive(now_s * SECOND_NS, b"stats-job 1\r\n")
        assert b"\nage: " + age + b"\n" in client.take_output(2**63)
