"""What is timed of jobs and of those who wait for them: each event once, by the clock of the turns."""

from bisect import bisect_left

import pytest

from beanpole.engine import limits
from beanpole.engine.check import check
from beanpole.engine.engine import Engine
from beanpole.engine.state.times import BOUNDS, Histogram, JobTime, ServerTimes, TubeTimes
from beanpole.engine.state.tube import Tube
from beanpole.server.connection import Connection

SECOND_NS = 10**9
NAMES = {"ready": JobTime.TIME_READY, "held": JobTime.TIME_HELD, "late": JobTime.TIME_LATE}


class Server:
    """An engine with two clients, and a clock."""

    def __init__(self, now_ns: int = SECOND_NS) -> None:
        self.now_ns = now_ns
        self.engine = Engine(now_ns=now_ns)
        self.a, self.b = Connection(self.engine, now_ns), Connection(self.engine, now_ns)

    def say(self, data: bytes, client: Connection | None = None) -> None:
        client = client or self.a
        client.receive(self.now_ns, data)
        client.take_output()

    def after(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND_NS)
        self.engine.tick(self.now_ns)

    def tube(self, name: bytes = b"default") -> Tube:
        return next(each for each in self.engine.tube_list if each.name == name)

    def times(self) -> dict[str, tuple[int, ...]]:
        """What was timed over all tubes, and of no tube something else."""
        check(self.engine)
        return seen(self.engine.server_times)


def counted(*seconds: float) -> tuple[int, ...]:
    """The places and the sum of these times of jobs."""
    counts = [0] * (len(BOUNDS["job"]) + 1)
    for each in seconds:
        counts[bisect_left(BOUNDS["job"], round(each * 1e6))] += 1
    return (*counts, round(sum(seconds) * 1e6))


def seen(times: TubeTimes | ServerTimes) -> dict[str, tuple[int, ...]]:
    return {name: (*times.counts(what), times.sum(what)) for name, what in NAMES.items() if any(times.counts(what))}


def waits(histogram: Histogram) -> tuple[int, ...]:
    return (*histogram.counts, histogram.sum)


@pytest.mark.parametrize("reserve", [b"reserve\r\n", b"reserve-job 1\r\n", b"reserve-many 3 0\r\n"])
def test_ready_until_somebody_reserves_it(reserve: bytes) -> None:
    server = Server()
    server.say(b"put 0 0 60 1\r\na\r\n")
    server.after(0.3)
    server.say(reserve)
    assert server.times() == {"ready": counted(0.3)}
    assert seen(server.tube().times) == server.times()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "end",
    [
        b"delete 1\r\n",
        b"release 1 0 0\r\n",
        b"release 1 0 9\r\n",
        b"bury 1 0\r\n",
        b"snooze-job 1 9\r\n",
        b"fail-job 1 0\r\n\r\n",
        b"fail-job 1 0 dead=now\r\n\r\n",
        b"delete-many 1\r\n",
        b"quit\r\n",
    ],
)
def test_held_until_it_is_in_nobodys_hands(end: bytes) -> None:
    server = Server()
    server.say(b"put 0 0 60 1\r\na\r\nreserve\r\n")
    server.after(2)
    server.say(b"touch 1\r\n")
    server.after(2.5)
    if end == b"quit\r\n":
        server.a.close(server.now_ns)
    else:
        server.say(end)
    assert server.times()["held"] == counted(4.5)


def test_held_until_its_time_to_run_is_over() -> None:
    server = Server()
    server.say(b"put 0 0 4 1\r\na\r\nreserve\r\n")
    server.after(7)
    assert server.times() == {"ready": counted(0), "held": counted(7)}


def test_a_job_that_was_not_ready_did_not_wait_ready() -> None:
    server = Server()
    server.say(b"put 0 9 60 1\r\na\r\nput 0 0 60 1\r\nb\r\nreserve\r\nbury 2 0\r\n")
    server.after(3)
    server.say(b"reserve-job 1\r\nreserve-job 2\r\n")
    assert server.times() == {"ready": counted(0), "held": counted(0)}


@pytest.mark.parametrize("options", [b"delay=5", b"delay=5 expire=99", b"delay=5 key=a"])
def test_late_from_when_its_delay_was_over(options: bytes) -> None:
    server = Server()
    server.say(b"put-job 1 %b\r\na\r\n" % options)
    server.after(6)
    server.say(b"change-job 1 pri=7\r\n")
    server.after(2)
    server.say(b"reserve\r\nrelease 1 0 0\r\nreserve\r\n")
    assert server.times() == {"ready": counted(3, 0), "late": counted(3), "held": counted(0)}


@pytest.mark.parametrize(
    "command",
    [b"kick 1\r\n", b"kick-job 1\r\n", b"reserve-job 1\r\n", b"change-job 1 delay=0\r\n"],
)
def test_a_job_is_not_late_that_did_not_wait_for_the_end_of_its_delay(command: bytes) -> None:
    server = Server()
    server.say(b"put 0 9 60 1\r\na\r\n")
    server.after(3)
    server.say(command + b"reserve-with-timeout 0\r\n")
    server.after(20)
    assert "late" not in server.times()


@pytest.mark.parametrize("command", [b"move-jobs default ready 9 to=t\r\n", b"change-job 1 tube=t\r\n"])
def test_in_another_tube_the_time_begins_again(command: bytes) -> None:
    server = Server()
    server.say(b"watch t\r\nput 0 5 60 1\r\na\r\n")
    server.after(8)
    server.say(command)
    server.after(2)
    server.say(b"reserve\r\n")
    assert server.times() == {"ready": counted(2)}
    assert seen(server.tube(b"t").times) == server.times()  # type: ignore[arg-type]


@pytest.mark.parametrize("reserve", [b"reserve\r\n", b"reserve-with-timeout 9\r\n", b"reserve-many 5 9\r\n"])
def test_a_reserve_waits_until_it_gets_a_job(reserve: bytes) -> None:
    server = Server()
    server.say(reserve)
    server.after(1.5)
    server.say(b"put 0 0 60 1\r\na\r\nput 0 0 60 1\r\nb\r\n", server.b)
    server.after(1)
    server.say(reserve)
    server.say(b"reserve-with-timeout 0\r\n")
    server.say(b"reserve-with-timeout 1\r\n", server.b)
    server.after(2)
    assert waits(server.engine.server_times.reserve_wait) == counted(1.5, 0)


def test_a_tube_that_goes_takes_nothing_from_the_server() -> None:
    server = Server()
    for _ in range(3):
        server.say(b"use t\r\nwatch t\r\nput 0 0 60 1\r\na\r\nreserve\r\n")
        server.after(1)
        server.say(b"delete %d\r\nuse default\r\nignore t\r\n" % (server.engine.next_job_id - 1))
        assert server.engine.server_times.tube_count == 0
    assert server.times() == {"ready": counted(0, 0, 0), "held": counted(1, 1, 1)}


def test_so_many_tubes_have_times_of_their_own() -> None:
    server = Server()
    names = [b"t%d" % number for number in range(limits.TUBES_TIMED_MAX + 2)]
    for name in names:
        server.say(b"watch %b\r\nput-job 1 tube=%b\r\na\r\nreserve\r\n" % (name, name))
    assert server.engine.server_times.tube_count == limits.TUBES_TIMED_MAX
    assert [server.tube(name).times is None for name in (names[0], names[-3], names[-2], names[-1])] == [0, 0, 1, 1]
    server.say(b"delete 1\r\nignore t0\r\n")
    server.say(b"delete %d\r\n" % len(names))
    assert seen(server.tube(names[-1]).times) == {"held": counted(0)}  # type: ignore[arg-type]
    assert sum(server.engine.server_times.counts(JobTime.TIME_READY)) == len(names)
    check(server.engine)


def test_after_a_start_a_job_that_is_not_known_to_be_ready_for_longer_is_so_since_then() -> None:
    server = Server(now_ns=0)
    server.say(b"put 0 0 60 1\r\na\r\n")  # its moment is 0, as that of a job that was restored
    assert [job.since_ns for job in server.engine.jobs.jobs()] == [0]
    server.after(2)
    server.say(b"reserve\r\n")
    assert server.times() == {"ready": counted(2)}
