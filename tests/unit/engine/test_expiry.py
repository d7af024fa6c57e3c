"""Jobs that expire: however many are over at once, none is handed out, and other clients are served in between."""

import pytest

from beanpole.engine import limits
from beanpole.engine.check import check
from beanpole.engine.state.job import State
from tests.unit.engine.queue import SECOND_NS, Queue


def put(count: int, options: bytes = b"expire=5") -> bytes:
    """Puts of empty jobs."""
    return b"put-job 0 %b\r\n\r\n" % options * count


def test_many_are_over_at_once() -> None:
    server = Queue()
    count = 2 * limits.JOBS_PER_TICK + 10
    server.ask(put(count))
    server.ask(put(1, b"pri=4294967295"))
    server.now_ns += 6 * SECOND_NS  # no tick yet, as for a server that is late
    server.a.receive(server.now_ns, b"reserve\r\n")
    assert server.a.pending
    assert server.a.take_output() == b""
    assert server.engine.jobs.count == count + 1 - limits.ENDS_PER_TURN
    check(server.engine)
    server.tick()
    assert server.engine.jobs.count == count + 1 - limits.ENDS_PER_TURN - limits.JOBS_PER_TICK // 2
    assert 0 <= server.engine.next_deadline_ns <= server.now_ns
    assert server.ask(b"") == b"RESERVED %d 0\r\n\r\n" % (count + 1)
    assert server.engine.jobs.count == 1
    check(server.engine)
    assert b"jobs-expired: %d\n" % count in server.ask(b"stats\r\n")


@pytest.mark.parametrize("reserve", [b"reserve-with-timeout 0\r\n", b"reserve-many 5 0\r\n"])
def test_a_late_server_hands_out_nothing_that_is_over(reserve: bytes) -> None:
    server = Queue()
    server.ask(put(3) + put(1, b"pri=65537 expire=60"))
    server.now_ns += 5 * SECOND_NS
    assert b" 4 0" in server.ask(reserve)
    assert [job.id for job in server.engine.jobs.jobs()] == [4]
    server.ask(b"release 4 0 0\r\n")
    server.now_ns += 60 * SECOND_NS
    assert server.ask(b"reserve-job 4\r\n") == b"NOT_FOUND\r\n"
    assert server.ask(reserve) == b"TIMED_OUT\r\n"


@pytest.mark.parametrize("hand_out", [b"reserve\r\n", b"reserve-many 5 0\r\n", b"pause-tube default 0\r\n"])
@pytest.mark.parametrize("rules", [b"expire: 5 dead", b"expire: 5"])
def test_those_that_die_in_one_command_are_bounded_by_their_bytes(hand_out: bytes, rules: bytes) -> None:
    server = Queue()
    size = 10 * limits.FAILED_BYTES_PER_JOB
    server.ask(b"set-rules default %d\r\n%b\r\n" % (len(rules), rules))
    server.ask(b"pause-tube default 5\r\n" + b"put 0 0 60 %d\r\n%b\r\n" % (size, bytes(size)) * 200)
    if hand_out.startswith(b"pause"):
        server.b.receive(server.now_ns, b"reserve\r\n")
    else:
        server.ask(b"pause-tube default 0\r\n")
    server.now_ns += 6 * SECOND_NS
    server.a.receive(server.now_ns, hand_out)
    left = sum(job.state == State.READY for job in server.engine.jobs.jobs())
    assert left == (200 - (limits.ENDS_PER_TURN // 11 + 1) if rules.endswith(b"dead") else 0)
    server.tick()
    assert not any(job.state == State.READY for job in server.engine.jobs.jobs())
    check(server.engine)


def test_reserve_many_goes_on_behind_those_that_are_over() -> None:
    server = Queue()
    server.ask(put(limits.ENDS_PER_TURN + 5) + put(2, b"pri=4294967295"))
    server.now_ns += 5 * SECOND_NS
    server.a.receive(server.now_ns, b"reserve-many 2 0\r\n")
    assert server.a.pending
    assert server.ask(b"").startswith(b"JOBS 2\r\n")
    assert server.engine.jobs.count == 2


@pytest.mark.parametrize("more", [-1, 0, 1, limits.ENDS_PER_TURN])
def test_who_waits_gets_what_is_behind_those_that_are_over(more: int) -> None:
    """Also when the last of them is the last that may be passed over in a turn."""
    server = Queue()
    count = limits.JOBS_PER_TICK // 2 + limits.ENDS_PER_TURN + more
    server.ask(b"pause-tube default 5\r\n" + put(count))
    server.ask(put(1, b"pri=4294967295"))
    server.b.receive(server.now_ns, b"reserve\r\n")
    server.tick(5)  # the pause ends at the moment at which they are over
    for _ in range(5):
        server.tick()
    assert server.b.take_output() == b"RESERVED %d 0\r\n\r\n" % (count + 1)
    assert server.engine.jobs.count == 1
    check(server.engine)


def test_a_connection_that_ends_takes_what_is_over_with_it() -> None:
    server = Queue()
    server.ask(put(1, b"expire=5 key=k") + put(1, b"expire=50 key=l") + b"reserve\r\nreserve\r\n")
    server.now_ns += 6 * SECOND_NS
    server.a.close(server.now_ns)
    check(server.engine)
    assert server.ask(b"reserve\r\n", server.b) == b"RESERVED 2 0\r\n\r\n"
    assert server.ask(b"find-job default k\r\nput-job 0 key=k\r\n\r\n", server.b) == b"NOT_FOUND\r\nINSERTED 3\r\n"


def test_a_time_that_no_clock_reaches_is_none() -> None:
    server = Queue()
    server.now_ns = 2**62
    server.ask(put(1, b"delay=4294967295.999 expire=4294967295.999"))
    check(server.engine)
    assert server.engine.jobs.count == 1


def test_memory_is_given_back() -> None:
    server = Queue()
    server.ask(put(5_000, b"expire=5") + put(5_000, b"expire=50"))
    server.tick(5)
    check(server.engine)
    server.ask(b"clear-tube default\r\n")
    check(server.engine)
    assert server.engine.jobs.count == 0
