"""A job stays reserved while its handler runs, however long that is; and what happens when it does not."""

import asyncio
import signal
import socket
import threading
import time

import pytest

from beanpole import Task, WorkerStuckError, exponential
from tests.e2e.process import wait_until
from tests.e2e.worker.conftest import Shop
from tests.servers import HOST

# Tests in which a TTR must run out are for our server only: beanstalkd 1.12 forgets it at times, when the job came to a
# client that was waiting.


@pytest.mark.long
def test_a_handler_may_take_longer_than_the_ttr(shop: Shop) -> None:
    calls: list[str] = []
    worker = shop.worker(2)

    @worker.handler(f"{shop.tube}-loop")
    async def slow(task: Task[str]) -> None:
        calls.append(task.body)
        await asyncio.sleep(3.3)

    @worker.handler(f"{shop.tube}-thread")
    def slow_thread(task: Task[str]) -> None:
        calls.append(task.body)
        time.sleep(3.3)

    ids = [shop.client.put("x", ttr=2, tube=f"{shop.tube}-{place}") for place in ("loop", "thread")]
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 2, "both run")
        assert [shop.client.stats_job(id).state for id in ids] == ["reserved", "reserved"]
        wait_until(lambda: worker.counters.done == 2, "both are done")
    assert calls == ["x", "x"]
    assert worker.counters.lost == 0


@pytest.mark.long
@pytest.mark.parametrize("server", ["beanpole"], indirect=True)
def test_a_job_that_is_lost_ends_its_handler_and_comes_again(shop: Shop) -> None:
    """The handler keeps the loop from touching the job, until the TTR is over."""
    ends: list[str] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, max_attempts=2)
    async def work(task: Task[str]) -> None:
        if task.attempt > 1:
            return
        time.sleep(2.3)  # noqa: ASYNC251 - that is the mistake that is tried here
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    shop.client.put("x", ttr=1)
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 1, "done by the second attempt")
        shop.wait_tube()
    assert ends == ["cancelled"]
    assert worker.counters.lost == 1
    assert worker.counters.failed == 0
    assert len(shop.events("job lost")) == 1


@pytest.mark.long
@pytest.mark.parametrize("server", ["beanpole"], indirect=True)
def test_a_job_that_is_lost_before_it_began_is_left_alone(shop: Shop) -> None:
    """Both slots have the job while the loop is blocked, one after the other: then neither holds it."""
    attempts: list[int] = []
    worker = shop.worker(2)

    @worker.handler(shop.tube)
    async def work(task: Task[str]) -> None:
        attempts.append(task.attempt)
        if task.attempt == 1:
            time.sleep(2.6)  # noqa: ASYNC251 - see above
            await asyncio.sleep(100)

    with shop.open(worker):
        wait_until(lambda: shop.client.stats_tube(shop.tube).current_waiting == 2, "both slots wait")
        shop.client.put("x", ttr=1)
        wait_until(lambda: worker.counters.done == 1, "done at last")
        shop.wait_tube()
    assert attempts == [1, worker.counters.reserved]
    assert worker.counters.lost == worker.counters.reserved - 1


@pytest.mark.parametrize("server", ["beanpole"], indirect=True)
def test_a_job_is_not_done_twice_at_the_same_time(shop: Shop) -> None:
    """The server sleeps until the TTR is over; then another slot has the job, and waits for the first handler."""
    begun: list[int] = []
    ended: list[int] = []
    go_on = threading.Event()
    worker = shop.worker(3)
    worker.handler(f"{shop.tube}-other")(lambda _: None)

    @worker.handler(shop.tube)
    def work(task: Task[str]) -> None:
        begun.append(task.attempt)
        if task.attempt == 1:
            go_on.wait(20)
        ended.append(task.attempt)

    with shop.open(worker):
        wait_until(lambda: shop.client.stats_tube(shop.tube).current_waiting == 3, "all slots wait")
        shop.client.put("x", ttr=2)
        wait_until(lambda: begun, "the handler runs")
        shop.server.signal(signal.SIGSTOP)
        time.sleep(2.2)  # the TTR is over, whatever the server has read before
        shop.server.signal(signal.SIGCONT)
        wait_until(lambda: worker.counters.lost == 1, "lost")
        wait_until(lambda: worker.counters.reserved == 2, "the job came again")
        shop.client.put("y", tube=f"{shop.tube}-other")
        wait_until(lambda: worker.counters.done == 1, "what came later is done")
        assert (begun, ended) == ([1], [])
        go_on.set()
        wait_until(lambda: worker.counters.done == 2, "done by the second attempt")
        shop.wait_tube()
    assert (begun, ended) == ([1, 2], [1, 2])
    assert worker.counters.lost == 1


@pytest.mark.parametrize("swallows", [False, True])
def test_an_async_handler_that_takes_too_long_is_cancelled(shop: Shop, swallows: bool) -> None:
    ends: list[str] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, timeout=0.05, max_attempts=2, backoff=exponential(0, 0))
    async def hang(_: Task[str]) -> None:
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
    quick = f"{shop.tube}-quick"
    worker.handler(quick)(lambda task: done.append(task.body))  # which may take its time

    shop.client.put("hang")
    with shop.open(worker):
        shop.wait_tube(delayed=1)
        wait_until(lambda: shop.events("a handler runs on"), "that is logged")
        assert worker.counters.running == 1
        shop.client.put_many(["1", "2", "3"], tube=quick)
        wait_until(lambda: done == ["1", "2", "3"], "the other slot goes on")
        go_on.set()
        wait_until(lambda: worker.counters.running == 0, "it has ended")
        shop.client.put_many(["4", "5"], tube=quick)
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
    quick = f"{shop.tube}-quick"
    worker.handler(quick)(lambda _: None)  # which may take its time

    shop.client.put_many(["0", "1"])
    with shop.open(worker):
        for time_ in (1, 2):
            wait_until(lambda time_=time_: len(shop.events("all slots")) == time_, "all hang")  # type: ignore[misc]
            go_on[0].set()
            wait_until(lambda: worker.counters.running == 1, "one is free")
            shop.client.put("", tube=quick)
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


@pytest.mark.parametrize("server", ["beanpole"], indirect=True)
def test_a_job_that_comes_while_the_worker_stops_goes_back(shop: Shop) -> None:
    """The server is asleep: when it wakes, it has the job and the worker's end to see to, in any order."""
    worker = shop.worker(2)
    seen: list[str] = []
    worker.handler(shop.tube)(lambda task: seen.append(task.body))
    with shop.open(worker), socket.create_connection((HOST, shop.server.port), 20) as producer:
        wait_until(lambda: shop.client.stats_tube(shop.tube).current_waiting == 2, "both slots wait")
        producer.sendall(b"use %s\r\n" % shop.tube.encode())
        assert producer.recv(100).startswith(b"USING")
        shop.server.signal(signal.SIGSTOP)
        try:
            producer.sendall(b"put 7 0 60 1\r\nx\r\n")
            worker.stop()
            wait_until(lambda: shop.events("worker stopped"), "it does not wait for the server")
        finally:
            shop.server.signal(signal.SIGCONT)
        assert producer.recv(100).startswith(b"INSERTED")
    shop.wait_tube(ready=1)
    assert shop.client.stats_job(shop.client.peek_ready()).pri == 7
    assert seen == []


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

    async def hang(_: Task[str]) -> None:
        await asyncio.sleep(100)

    worker.handler(shop.tube)(hang if is_async else lambda _: go_on.wait(20))
    id = shop.client.put("x", priority=7)
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 1, "the job runs")
    try:
        assert shop.tube_is(ready=1)
        assert shop.client.stats_job(id).pri == 7
        assert worker.counters.released == 1
        assert worker.counters.failed == 0
    finally:
        go_on.set()


def test_a_worker_that_is_cancelled_gives_everything_back(shop: Shop) -> None:
    worker = shop.worker(2)
    begun: list[None] = []
    ends: list[str] = []
    both_run = asyncio.Event()

    @worker.handler(shop.tube)
    async def hang(_: Task[str]) -> None:
        begun.append(None)
        if len(begun) == 2:
            both_run.set()
        try:
            await asyncio.sleep(100)
        finally:
            ends.append("ended")

    async def main() -> None:
        serving = asyncio.create_task(worker.serve())
        await both_run.wait()
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
