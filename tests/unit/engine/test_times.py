"""Which tubes have times of their own, and since when jobs are timed after a start; the model times everything else."""

from bisect import bisect_left

from beanpole.engine import limits
from beanpole.engine.check import check
from beanpole.engine.state.times import BOUNDS, JobTime, TubeTimes
from tests.unit.engine.queue import Queue


def times_of(queue: Queue, name: bytes) -> TubeTimes | None:
    return next(each for each in queue.engine.tube_list if each.name == name).times


def test_so_many_tubes_have_times_of_their_own() -> None:
    queue = Queue()
    names = [b"t%d" % number for number in range(limits.TUBES_TIMED_MAX + 2)]
    for name in names:
        queue.ask(b"watch %b\r\nput-job 1 tube=%b\r\na\r\nreserve\r\n" % (name, name))
    assert queue.engine.server_times.tube_count == limits.TUBES_TIMED_MAX
    assert [times_of(queue, names[at]) is None for at in (0, -3, -2, -1)] == [False, False, True, True]
    queue.ask(b"delete 1\r\nignore t0\r\n")
    queue.ask(b"delete %d\r\n" % len(names))
    times = times_of(queue, names[-1])
    assert times is not None
    assert [sum(times.counts(what)) for what in (JobTime.TIME_READY, JobTime.TIME_HELD)] == [0, 1]
    assert sum(queue.engine.server_times.counts(JobTime.TIME_READY)) == len(names)
    check(queue.engine)


def test_after_a_start_a_job_that_is_not_known_to_be_ready_for_longer_is_so_since_then() -> None:
    queue = Queue(now_ns=0)
    queue.ask(b"put 0 0 60 1\r\na\r\n")  # its moment is 0, as that of a job that was restored
    assert [job.since_ns for job in queue.engine.jobs.jobs()] == [0]
    queue.tick(2)
    queue.ask(b"reserve\r\n")
    times = queue.engine.server_times
    assert times.counts(JobTime.TIME_READY).index(1) == bisect_left(BOUNDS["job"], 2_000_000)
    assert times.sum(JobTime.TIME_READY) == 2_000_000
