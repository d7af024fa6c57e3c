"""A worker that stops after a number of jobs, so that what its handlers leak goes with it."""

import asyncio
import threading

import pytest

from beanpole import Task
from tests.e2e.process import wait_until
from tests.e2e.worker.conftest import Shop


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
    said = [(line["running"], line["grace_s"], line["why"]) for line in shop.events("stopping")]
    assert said[0][1:] == (None, "max_jobs"), "nobody waits, and they have all their time"
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
