"""Middleware: functions around handlers, which run where these do."""

import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from beanpole import Dead, Task
from tests.e2e.process import wait_until
from tests.e2e.worker.conftest import Shop
from tests.e2e.worker.handlers import in_process, note_around

pytestmark = pytest.mark.parametrize("server", ["beanpole"], indirect=True)  # which one it is does not matter here


def test_the_first_is_the_outermost_and_each_has_the_thread_of_the_handler(shop: Shop) -> None:
    calls: list[str] = []
    threads: set[int] = set()
    worker = shop.worker(1)

    def named(name: str) -> Callable[[Task[str], Callable[[], object]], None]:
        def middleware(task: Task[str], call: Callable[[], object]) -> None:
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

    shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done, "done")
    assert calls == ["outer x", "inner x", "work", "inner ends", "outer ends"]
    assert len(threads) == 1
    assert threads != {threading.main_thread().ident}


def test_coroutine_functions_are_around_coroutine_handlers(shop: Shop) -> None:
    calls: list[object] = []
    worker = shop.worker(1)

    @worker.middleware
    def elsewhere(_: Task[str], call: Callable[[], object]) -> None:
        calls.append("plain")
        call()

    @worker.middleware
    async def begin(_: Task[str], call: Callable[[], Awaitable[object]]) -> None:
        calls.append("begin")
        calls.append(await call())

    @worker.handler(shop.tube)
    async def work(_: Task[str]) -> str:
        return "worked"

    shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done, "done")
    assert calls == ["begin", "worked"]


def test_what_it_raises_counts_as_raised_by_the_handler(shop: Shop) -> None:
    worker = shop.worker(1)

    @worker.middleware
    def translate(_: Task[str], call: Callable[[], object]) -> None:
        try:
            call()
        except KeyError as error:
            raise Dead("no such customer") from error

    @worker.handler(shop.tube)
    def fail(_: Task[str]) -> None:
        raise KeyError(7)

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: shop.events("job dead"), "logged")
    [line] = shop.events("job dead")
    assert line["reason"] == "no such customer"
    assert line["exc_info"][0] is KeyError


def test_what_is_called_but_not_awaited_is_not_done(shop: Shop) -> None:
    worker = shop.worker(1)
    began: list[str] = []

    @worker.middleware
    async def forgetful(_: Task[str], call: Callable[[], Awaitable[object]]) -> None:
        call()  # that is the mistake

    @worker.handler(shop.tube, max_attempts=1)
    async def work(task: Task[str]) -> None:
        began.append(task.body)

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: shop.events("job dead"), "logged")
    assert shop.events("job dead")[0]["error"].endswith("forgetful calls what it does not await")
    assert not began


def test_an_error_of_a_middleware_counts_though_it_has_not_awaited(shop: Shop) -> None:
    worker = shop.worker(1)

    @worker.middleware
    async def picky(task: Task[str], call: Callable[[], Awaitable[object]]) -> None:
        rest = call()
        if task.body == "x":
            raise Dead("not today")
        await rest

    @worker.handler(shop.tube)
    async def work(_: Task[str]) -> None:
        pass

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: shop.events("job dead"), "logged")
    assert shop.events("job dead")[0]["reason"] == "not today"


def test_one_that_does_not_call_has_done_the_job(shop: Shop) -> None:
    worker = shop.worker(1)
    began: list[str] = []
    worker.handler(shop.tube)(lambda task: began.append(task.body))

    @worker.middleware
    def skip(task: Task[str], call: Callable[[], object]) -> None:
        if task.body != "again":
            call()

    shop.client.put_many(["x", "again"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 2, "done")
    assert began == ["x"]


def test_a_handler_in_a_process_has_its_middleware_there(shop: Shop, tmp_path: Path) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True)(in_process)
    worker.middleware(note_around)
    shop.client.put(f"do {tmp_path / 'pid'}")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done, "done")
    assert (tmp_path / "pid").read_text() == (tmp_path / "pid-around").read_text()
