"""A job stays reserved while its handler runs, however long that is; what happens when it does not; and how it ends."""

import asyncio
import threading

import pytest

from beanpole import Task, WorkerStuckError, exponential
from tests.e2e.process import wait_until
from tests.unit.worker.conftest import Shop


async def hang(_: Task[str]) -> None:
    """A handler on the loop that never ends by itself."""
    await asyncio.sleep(100)


def test_a_handler_may_take_longer_than_the_ttr(shop: Shop) -> None:
    go_on = threading.Event()
    worker = shop.worker(1)
    worker.handler(shop.tube)(lambda _: go_on.wait(20))
    shop.client.put("x", ttr=1)
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 1, "it runs")
        for _ in range(3):
            touches = shop.client.stats().cmd_touch
            wait_until(lambda touches=touches: shop.client.stats().cmd_touch > touches, "touched")  # type: ignore[misc]
            shop.server.advance(0.9)
            assert shop.tube_is(reserved=1)
        go_on.set()
        wait_until(lambda: worker.counters.done == 1, "done")
    assert worker.counters.lost == 0


def test_a_job_that_is_lost_ends_its_handler_and_comes_again(shop: Shop) -> None:
    ends: list[str] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, max_attempts=2)
    async def work(task: Task[str]) -> None:
        if task.attempt > 1:
            return
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    shop.client.put("x", ttr=1)
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 1, "it runs")
        shop.server.advance(1)  # the worker finds out when it touches the job
        wait_until(lambda: worker.counters.done == 1, "done by the second attempt")
        shop.wait_tube()
    assert ends == ["cancelled"]
    assert (worker.counters.lost, worker.counters.failed) == (1, 0)
    assert len(shop.events("job lost")) == 1


def test_a_job_is_not_done_twice_at_the_same_time(shop: Shop) -> None:
    """When the TTR is over another slot has the job, and waits for the first handler."""
    begun: list[int] = []
    ended: list[int] = []
    go_on = threading.Event()
    worker = shop.worker(3)
    worker.handler("other")(lambda _: None)

    @worker.handler(shop.tube)
    def work(task: Task[str]) -> None:
        begun.append(task.attempt)
        if task.attempt == 1:
            go_on.wait(20)
        ended.append(task.attempt)

    with shop.open(worker):
        shop.wait_waiting(3)
        shop.client.put("x", ttr=2)
        wait_until(lambda: begun, "the handler runs")
        shop.server.advance(2)
        wait_until(lambda: worker.counters.lost == 1, "lost")
        wait_until(lambda: worker.counters.reserved == 2, "the job came again")
        shop.client.put("y", tube="other")
        wait_until(lambda: worker.counters.done == 1, "what came later is done")
        assert (begun, ended) == ([1], [])
        go_on.set()
        wait_until(lambda: worker.counters.done == 2, "done by the second attempt")
        shop.wait_tube()
    assert (begun, ended) == ([1, 2], [1, 2])
    assert worker.counters.lost == 1


# --- Time-outs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swallows", [False, True])
def test_an_async_handler_that_takes_too_long_is_cancelled(shop: Shop, swallows: bool) -> None:
    ends: list[str] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, timeout=0.05, max_attempts=2, backoff=exponential(0, 0))
    async def take_too_long(_: Task[str]) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ends.append("cancelled")
            if not swallows:
                raise

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: worker.counters.running == 0, "the handler is over")
    assert ends == ["cancelled", "cancelled"]
    assert worker.counters.failed == 2
    assert shop.events("job dead")[0]["error"] == "TimeoutError: longer than 0.05 s"


def test_a_thread_that_takes_too_long_occupies_its_slot_until_it_ends(shop: Shop) -> None:
    go_on = threading.Event()
    done: list[str] = []
    worker = shop.worker(2)
    worker.handler(shop.tube, timeout=0.1, backoff=lambda _: 60)(lambda _: go_on.wait(20))
    worker.handler("quick")(lambda task: done.append(task.body))  # which may take its time

    shop.client.put("hang")
    with shop.open(worker):
        shop.wait_tube(delayed=1)
        wait_until(lambda: shop.events("a handler runs on"), "that is logged")
        assert worker.counters.running == 1
        shop.client.put_many(["1", "2", "3"], tube="quick")
        wait_until(lambda: done == ["1", "2", "3"], "the other slot goes on")
        go_on.set()
        wait_until(lambda: worker.counters.running == 0, "it has ended")
        shop.client.put_many(["4", "5"], tube="quick")
        wait_until(lambda: worker.counters.done == 5, "both slots go on")
    assert shop.tube_is(delayed=1)
    assert worker.counters.failed == 1


def test_a_worker_whose_slots_all_hang_gives_up(shop: Shop) -> None:
    go_on = threading.Event()
    worker = shop.worker(2, stuck_timeout=0.1)
    worker.handler(shop.tube, timeout=0.05, backoff=lambda _: 60)(lambda _: go_on.wait(20))
    shop.client.put_many(["1", "2"])
    try:
        with pytest.raises(WorkerStuckError, match="all 2 slots"):
            asyncio.run(asyncio.wait_for(worker.serve(), 20))
        assert len(shop.events("all slots are occupied by handlers that hang")) == 1
        assert shop.tube_is(delayed=2)
    finally:
        go_on.set()


def test_a_worker_goes_on_when_a_slot_is_free_again(shop: Shop) -> None:
    go_on = [threading.Event(), threading.Event()]
    worker = shop.worker(2, stuck_timeout=20)
    worker.handler(shop.tube, timeout=0.05, backoff=lambda _: 60)(lambda task: go_on[int(task.body)].wait(20))
    worker.handler("quick")(lambda _: None)  # which may take its time

    shop.client.put_many(["0", "1"])
    with shop.open(worker):
        for time_ in (1, 2):
            wait_until(lambda time_=time_: len(shop.events("all slots")) == time_, "all hang")  # type: ignore[misc]
            go_on[0].set()
            wait_until(lambda: worker.counters.running == 1, "one is free")
            shop.client.put("", tube="quick")
            wait_until(lambda time_=time_: worker.counters.done == time_, "it goes on")  # type: ignore[misc]
            go_on[0].clear()
            shop.client.put("0")
        wait_until(lambda: len(shop.events("all slots")) == 3, "all hang")
        for event in go_on:
            event.set()


def test_a_job_is_not_begun_again_while_its_first_handler_hangs(shop: Shop) -> None:
    """A thread that took too long runs on: later attempts wait for its end, and fail if that takes too long."""
    begun: list[int] = []
    go_on = threading.Event()
    worker = shop.worker(3)

    @worker.handler(shop.tube, timeout=0.2, backoff=exponential(0, 0), max_attempts=5)
    def work(task: Task[str]) -> None:
        begun.append(task.attempt)
        go_on.wait(20)

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: worker.counters.failed == 5, "all attempts have failed")
        wait_until(lambda: worker.counters.running == 1, "nobody waits any more")
        assert begun == [1]
        assert len(shop.events("a handler runs on")) == 1
        assert "an earlier attempt ran on" in shop.events("job dead")[0]["error"]
        go_on.set()
        wait_until(lambda: worker.counters.running == 0, "the first one has ended")
        shop.client.kick(1)
        wait_until(lambda: worker.counters.done == 1, "done")
    assert len(begun) >= 2, "again; more often if even that took too long, on a busy machine"


# --- The end ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_stops_lets_its_handlers_finish(shop: Shop) -> None:
    go_on = threading.Event()
    worker = shop.worker(2)
    worker.handler(shop.tube)(lambda _: go_on.wait(20))
    shop.client.put_many(["1", "2", "3"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 2, "two jobs run")
        worker.stop()
        go_on.set()
    assert worker.counters.done == 2
    assert shop.tube_is(ready=1)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_worker_that_can_wait_no_longer_releases_what_runs(shop: Shop, is_async: bool) -> None:
    go_on = threading.Event()
    worker = shop.worker(2, grace=0.1)
    worker.handler(shop.tube)(hang if is_async else lambda _: go_on.wait(20))
    shop.client.put("x", priority=7)
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 1, "the job runs")
    go_on.set()
    [job] = shop.server.jobs()
    assert (job.state, job.pri, job.releases) == ("ready", 7, 1)
    assert (worker.counters.released, worker.counters.failed) == (1, 0)


def test_a_worker_that_is_cancelled_gives_everything_back(shop: Shop) -> None:
    worker = shop.worker(2)
    ends: list[str] = []

    @worker.handler(shop.tube)
    async def work(task: Task[str]) -> None:
        try:
            await hang(task)
        finally:
            ends.append("ended")

    async def main() -> None:
        serving = asyncio.create_task(worker.serve())
        while worker.counters.running < 2:  # noqa: ASYNC110 - a test may look again and again
            await asyncio.sleep(0.002)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    shop.client.put_many(["1", "2", "3"])
    asyncio.run(asyncio.wait_for(main(), 20))
    shop.wait_tube(ready=3)
    assert ends == ["ended", "ended"]


def test_a_worker_serves_again_after_its_stop_but_not_twice_at_once(shop: Shop) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube)(lambda _: None)
    for number in (1, 2):
        shop.client.put("x")
        with shop.open(worker):
            wait_until(lambda number=number: worker.counters.done == number, "done")  # type: ignore[misc]
            with pytest.raises(RuntimeError, match="serves already"):
                asyncio.run(worker.serve())


def test_a_worker_stops_when_so_many_jobs_have_begun(shop: Shop) -> None:
    seen: list[int] = []
    worker = shop.worker(3, max_jobs=5)
    worker.handler(shop.tube)(lambda task: seen.append(task.attempt))
    shop.client.put_many(map(str, range(20)))
    asyncio.run(asyncio.wait_for(worker.serve(), 20))
    assert seen == [1] * 5
    assert worker.counters.done == 5
    shop.wait_tube(ready=15)
    asyncio.run(asyncio.wait_for(worker.serve(), 20))
    assert worker.counters.done == 10, "it counts again from 0"


@pytest.mark.parametrize("is_async", [True, False])
def test_jobs_that_run_then_have_all_their_time(shop: Shop, is_async: bool) -> None:
    go_on = threading.Event()
    worker = shop.worker(2, max_jobs=2, grace=0.0)

    async def wait(task: Task[str]) -> None:
        while task.body == "slow" and not go_on.is_set():  # noqa: ASYNC110 - a test may look again and again
            await asyncio.sleep(0.01)

    worker.handler(shop.tube)(wait if is_async else lambda task: task.body == "fast" or go_on.wait(20))
    shop.client.put_many(["slow", "fast", "not mine"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 1, "the last one is done")
        wait_until(lambda: worker.counters.connections == 1, "the other slot has ended")
        go_on.set()
        wait_until(lambda: shop.events("worker stopped"), "it stops by itself")
    said = [(line["grace_s"], line["why"]) for line in shop.events("stopping")]
    assert said[0] == (None, "max_jobs"), "nobody waits, and they have all their time"
    assert (worker.counters.done, worker.counters.released) == (2, 0)
    shop.wait_tube(ready=1)


def test_who_stops_it_then_waits_for_the_time_of_grace_only(shop: Shop) -> None:
    go_on = threading.Event()
    worker = shop.worker(1, max_jobs=1, grace=0.05)
    worker.handler(shop.tube)(lambda _: go_on.wait(20))
    shop.client.put("x")
    try:
        with shop.open(worker):
            wait_until(lambda: shop.events("stopping"), "it runs, and was the last one")
        assert worker.counters.released == 1
        said = [(line["running"], line["grace_s"], line["why"]) for line in shop.events("stopping")]
        assert said == [(1, None, "max_jobs"), (1, 0.05, "stop")]
        shop.wait_tube(ready=1)
    finally:
        go_on.set()
