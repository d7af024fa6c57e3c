"""A job that somebody cancels while its handler runs."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole import Outcome, StatsJob, Task, current_task
from beanpole.testing import FakeServer
from beanpole.worker.attempt import CANCELLABLE_TOUCH_S, Attempt
from beanpole.worker.client import WorkerClient
from beanpole.worker.executor import Child
from beanpole.worker.handler import make_handler
from tests.e2e.process import wait_until
from tests.e2e.worker.handlers import in_process, is_alive
from tests.unit.worker.conftest import Shop


@pytest.fixture
def shop() -> Iterator[Shop]:
    """A worker's server, which can cancel, and tube."""
    with FakeServer(patience=0.1) as server:
        made = Shop(server)
        with made.client:
            made.client.connect()
            yield made
        made.check_events()


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_ends_whose_job_is_cancelled(shop: Shop, is_async: bool) -> None:
    ends: list[object] = []
    worker = shop.worker(1)

    async def wait() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ends.append("told")
            raise

    def look() -> None:
        task = current_task()
        assert task is not None
        while not task.cancelled:
            time.sleep(0.002)  # as a handler works on
        ends.append("told")

    worker.after(lambda _, outcome: ends.append(outcome))
    worker.function(shop.tube, cancellable=True)(wait if is_async else look)
    shop.client.put("{}", ttr=1, key="k")  # touched each half second
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 1, "it runs")
        shop.client.cancel_key(shop.tube, "k")
        wait_until(lambda: worker.counters.running == 0, "it has ended")
    assert ends == ["told", Outcome.LOST]
    assert shop.server.jobs() == []


@pytest.mark.parametrize(
    ("ttr", "is_cancellable", "touch_s"), [(60, True, CANCELLABLE_TOUCH_S), (60, False, 30), (2, True, 1)]
)
def test_how_often_its_job_is_touched(ttr: int, is_cancellable: bool, touch_s: float) -> None:
    async def main() -> float:
        handler = make_handler(
            in_process, max_attempts=5, backoff=float, timeout_s=None, process=False, cancellable=is_cancellable
        )
        task: Task[object] = Task(1, "x", StatsJob(raw={}, ttr=ttr, tube="t"), 1, 5)
        return Attempt(WorkerClient(("127.0.0.1", 1)), [task], handler).touch_s

    assert asyncio.run(main()) == touch_s


def test_what_runs_in_a_process_ends_there_and_the_process_goes_on(tmp_path: Path) -> None:
    child, ended = Child(), list[object]()

    def run(body: str) -> None:
        ended.append(child.run(in_process, Task(1, body, StatsJob(raw={}), 1, 5)))

    try:
        hanging = threading.Thread(target=run, args=(f"hang {tmp_path / 'first'}",))
        hanging.start()
        wait_until((tmp_path / "first").exists, "it runs")
        child.interrupt()
        hanging.join()
        run(f"do {tmp_path / 'second'}")
        run("terminate")  # by somebody else, who sends it to all processes
    finally:
        child.kill()
    assert [type(each) for each in ended] == [SystemExit, type(None), type(None)]
    assert (tmp_path / "first").read_text() == (tmp_path / "second").read_text()


def test_a_process_that_does_not_end_is_killed(shop: Shop, tmp_path: Path) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True, cancellable=True)(in_process)
    id, pid = shop.client.put(f"stubborn {tmp_path / 'pid'}", ttr=1), tmp_path / "pid"
    with shop.open(worker):
        wait_until(lambda: pid.exists() and pid.read_text(), "it runs")
        shop.client.cancel_job(id)
        wait_until(lambda: worker.counters.running == 0, "it has ended")
        assert not is_alive(int(pid.read_text()))
        assert worker.counters.lost == 1
