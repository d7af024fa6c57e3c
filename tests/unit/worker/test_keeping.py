"""A worker whose connections are lost by the server's side: where that keeps jobs, handlers do not notice."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from beanpole import ArgumentError, Task, Worker
from beanpole.testing import FakeServer
from tests.e2e.process import wait_until
from tests.unit.worker.conftest import Shop


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(patience=0.1) as running:
        yield running


class Work:
    """A handler that waits until a test lets it go on, or is cancelled."""

    def __init__(self, shop: Shop, **options: object) -> None:
        self.begun: list[int] = []
        self.cuts = 0
        self.may_end = threading.Event()
        self.worker = shop.worker(1, **options)
        self.worker.handler(shop.tube, max_attempts=None)(self.handle)
        shop.client.put("x", ttr=60)

    async def handle(self, task: Task[str]) -> None:
        self.begun.append(task.attempt)
        try:
            while not self.may_end.is_set():  # noqa: ASYNC110 - the test is in another thread
                await asyncio.sleep(0.002)
        except asyncio.CancelledError:
            self.cuts += 1
            raise

    def wait_begun(self, count: int = 1) -> None:
        wait_until(lambda: len(self.begun) == count, f"{count} attempts")


def resumed(shop: Shop, count: int = 1) -> None:
    wait_until(lambda: shop.client.stats()["sessions-resumed"] == count, "it has come back")


def test_a_handler_goes_on_over_the_next_connection(shop: Shop) -> None:
    work = Work(shop)
    with shop.open(work.worker):
        work.wait_begun()
        for count in (1, 2):
            shop.server.drop_connections()
            resumed(shop, count)
        wait_until(lambda: work.worker.counters.connections == 1, "it counts that")
        work.may_end.set()
        wait_until(lambda: work.worker.counters.done == 1, "done")
        shop.wait_tube()
    assert (work.begun, work.cuts, work.worker.counters.lost) == ([1], 0, 0)
    assert (len(shop.events("no connection")), len(shop.events("connected again"))) == (2, 2)


@pytest.mark.parametrize(("keep", "cuts"), [(0, 0), (10, 1)])
def test_a_job_that_did_not_wait_is_lost(shop: Shop, keep: int, cuts: int) -> None:
    """A handler that the worker can't go on with is stopped at once; without `keep` when it touches its job."""
    work = Work(shop, keep=keep)
    with shop.open(work.worker):
        work.wait_begun()
        shop.server.drop_connections(away=keep)
        wait_until(lambda: work.cuts == cuts, "it is stopped")
        if cuts:
            work.wait_begun(2)
        work.may_end.set()
        wait_until(lambda: work.worker.counters.done == 1, "done by the second attempt")
    assert (work.begun, work.cuts, work.worker.counters.lost) == ([1, 2], cuts, 1)


def test_a_job_waits_as_long_as_the_worker_says(shop: Shop) -> None:
    work = Work(shop, keep=600, keep_always=True)
    with shop.open(work.worker):
        work.wait_begun()
        shop.server.drop_connections()
        shop.server.advance(30)
        resumed(shop)
        work.may_end.set()
        wait_until(lambda: work.worker.counters.done == 1, "done")
    assert work.begun == [1]


def test_a_worker_that_stops_gives_back_at_once_whatever_is_kept(shop: Shop) -> None:
    work = Work(shop, keep=600, keep_always=True, grace=0.01)
    with shop.open(work.worker):
        work.wait_begun()
    assert shop.tube_is(ready=1)
    assert shop.client.stats()["sessions-lost"] == 0


@pytest.mark.parametrize("wrong", [-1, 601, 1.5])
def test_what_is_no_time_to_keep(wrong: int) -> None:
    worker = Worker(keep=wrong)
    worker.handler("t")(print)
    with pytest.raises(ArgumentError, match="keep"):
        asyncio.run(worker.serve())


@pytest.mark.parametrize(("away", "calls"), [(0, [2]), (10, [2, 2])])
def test_a_batch_is_kept_or_lost_as_one_job_is(shop: Shop, away: int, calls: list[int]) -> None:
    found: list[int] = []
    go_on = threading.Event()
    worker = shop.worker(1)

    @worker.handler(shop.tube, batch=2, max_attempts=None)
    def handle(tasks: list[Task[str]]) -> None:
        found.append(len(tasks))
        go_on.wait(20)

    shop.client.put_many(["x", "y"])
    with shop.open(worker):
        wait_until(lambda: found == [2], "it has both")
        shop.server.drop_connections(away=away)
        if not away:
            resumed(shop)
        go_on.set()
        wait_until(lambda: worker.counters.done == 2, "both are done")
    assert (found, worker.counters.lost) == (calls, 2 * (away > 0))
