"""A moment of the wall clock is a delay from the put on, as exact as one."""

import pytest

from beanpole.engine.state.job import State
from tests.unit.engine.queue import SECOND_NS, Queue

HOUR_NS = 3600 * SECOND_NS
DELAY_S_END = 2**32


def server_of(wall_s: int) -> Queue:
    """A server whose wall clock shows this, and whose own clock another time."""
    server = Queue(now_ns=7 * SECOND_NS)
    server.engine.wall_lead_ns = (wall_s - 7) * SECOND_NS
    return server


def state_of(server: Queue) -> State:
    [job] = server.engine.jobs.jobs()
    return State(job.state)


@pytest.mark.parametrize("set_by_ns", [0, -HOUR_NS, HOUR_NS])
def test_it_is_due_then_whoever_sets_the_wall_clock_in_between(set_by_ns: int) -> None:
    server = server_of(1_800_000_000)
    assert server.ask(b"put-job 1 at=1800000002.5\r\nx\r\n") == b"INSERTED 1\r\n"
    server.engine.wall_lead_ns += set_by_ns
    server.now_ns += 2_500_000_000 - 1
    server.tick()
    assert state_of(server) == State.DELAYED
    server.now_ns += 1
    server.tick()
    assert state_of(server) == State.READY


@pytest.mark.parametrize("wall_s", [0, 1_800_000_000, DELAY_S_END - 1])
def test_it_is_at_most_as_far_ahead_as_a_delay_leads(wall_s: int) -> None:
    server = server_of(wall_s)
    assert server.ask(b"put-job 8 at=%d\r\ndelete 1\r\n" % (wall_s + DELAY_S_END)) == b"BAD_FORMAT\r\n"
    assert server.ask(b"put-job 1 at=%d.999\r\nx\r\n" % (wall_s + DELAY_S_END - 1)) == b"INSERTED 1\r\n"
    server.tick(DELAY_S_END - 0.002)
    assert state_of(server) == State.DELAYED
    server.tick(0.001)
    assert state_of(server) == State.READY
