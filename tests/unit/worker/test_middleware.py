"""Middleware: functions around handlers, which run where these do."""

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from beanpole import Dead, Task, Worker
from tests.e2e.process import wait_until
from tests.unit.worker.conftest import Shop

pytestmark = pytest.mark.parametrize("server", ["beanpole"], indirect=True)  # which one it is does not matter here

Call = Callable[[], Any]


def done(shop: Shop, worker: Worker, *bodies: str) -> None:
    """Lets a worker do some jobs."""
    shop.client.put_many(bodies or ["x"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done + worker.counters.buried == len(bodies or "x"), "done, or dead")


def test_the_first_is_the_outermost_and_each_has_the_thread_of_the_handler(shop: Shop) -> None:
    calls: list[str] = []
    threads: set[int] = set()
    worker = shop.worker(1)

    def named(name: str) -> Callable[[Task[str], Call], None]:
        def middleware(task: Task[str], call: Call) -> None:
            threads.add(threading.get_ident())
            calls.append(f"{name} {task.body}")
            call()
            calls.append(f"{name} ends")

        return middleware

    for name in ("outer", "inner"):
        worker.middleware(named(name))

    @worker.middleware
    async def elsewhere(_: Task[str], call: Callable[[], Awaitable[object]]) -> None:
        calls.append("async")
        await call()

    @worker.handler(shop.tube)
    def work(_: Task[str]) -> None:
        threads.add(threading.get_ident())
        calls.append("work")

    done(shop, worker)
    assert calls == ["outer x", "inner x", "work", "inner ends", "outer ends"]
    assert len(threads) == 1
    assert threads != {threading.main_thread().ident}


def test_coroutine_functions_are_around_coroutine_handlers(shop: Shop) -> None:
    calls: list[object] = []
    worker = shop.worker(1)

    @worker.middleware
    def elsewhere(_: Task[str], call: Call) -> None:
        calls.append("plain")
        call()

    @worker.middleware
    async def begin(_: Task[str], call: Callable[[], Awaitable[object]]) -> None:
        calls.append("begin")
        calls.append(await call())

    @worker.handler(shop.tube)
    async def work(_: Task[str]) -> str:
        return "worked"

    done(shop, worker)
    assert calls == ["begin", "worked"]


def test_what_it_raises_counts_as_raised_by_the_handler(shop: Shop) -> None:
    worker = shop.worker(1)

    @worker.middleware
    def translate(_: Task[str], call: Call) -> None:
        try:
            call()
        except KeyError as error:
            raise Dead("no such customer") from error

    @worker.handler(shop.tube)
    def fail(_: Task[str]) -> None:
        raise KeyError(7)

    done(shop, worker)
    [line] = shop.events("job dead")
    assert line["reason"] == "no such customer"
    assert line["exc_info"][0] is KeyError


@pytest.mark.parametrize(
    ("raised", "name", "said"),
    [
        (None, "error", "forgetful calls what it does not await"),
        (Dead("not today"), "reason", "not today"),  # an error of its own says more
    ],
)
def test_what_is_called_but_not_awaited_is_not_done(shop: Shop, raised: Exception | None, name: str, said: str) -> None:
    worker = shop.worker(1)
    began: list[str] = []

    @worker.middleware
    async def forgetful(_: Task[str], call: Callable[[], Awaitable[object]]) -> None:
        call()  # that is the mistake
        if raised is not None:
            raise raised

    @worker.handler(shop.tube, max_attempts=1)
    async def work(task: Task[str]) -> None:
        began.append(task.body)

    done(shop, worker)
    assert shop.events("job dead")[0][name].endswith(said)
    assert not began


def test_one_that_does_not_call_has_done_the_job(shop: Shop) -> None:
    worker = shop.worker(1)
    began: list[str] = []
    worker.handler(shop.tube)(lambda task: began.append(task.body))

    @worker.middleware
    def skip(task: Task[str], call: Call) -> None:
        if task.body != "again":
            call()

    done(shop, worker, "x", "again")
    assert began == ["x"]
