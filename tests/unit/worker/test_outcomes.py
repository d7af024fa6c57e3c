"""What comes of a job: done, retried, buried, and what the server and the program see of it."""

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from beanpole import Bury, Dead, JsonCodec, Outcome, Retry, Task, exponential
from tests.e2e.process import wait_until
from tests.unit.worker.conftest import Shop


async def async_nothing(_task: Task[Any]) -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("handler", [async_nothing, lambda _: None], ids=["loop", "thread"])
def test_a_job_that_is_done_is_deleted(shop: Shop, handler: Callable[[Task[Any]], object]) -> None:
    worker = shop.worker()
    worker.handler(shop.tube)(handler)
    shop.client.put_many(["do", "it", "now"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 3, "three jobs are done")
        shop.wait_tube()
    counters = worker.counters
    assert (counters.reserved, counters.done, counters.failed, counters.running) == (3, 3, 0, 0)
    assert not shop.events("job")


def test_a_handler_sees_the_job(shop: Shop) -> None:
    seen: list[Task[Any]] = []
    worker = shop.worker(codec=JsonCodec(), log_done=True)
    worker.handler("another", shop.tube)(seen.append)
    id = shop.client.put(json.dumps({"to": "you"}), priority=3, ttr=7)
    with shop.open(worker):
        wait_until(lambda: shop.events("job done"), "logged, as that was asked for")
    (task,) = seen
    assert (task.id, task.body, task.tube, task.attempt, task.max_attempts) == (id, {"to": "you"}, shop.tube, 1, 5)
    assert (task.stats.pri, task.stats.ttr) == (3, 7)
    assert shop.events("job done")[0]["id"] == id


def test_each_tube_has_its_handler(shop: Shop) -> None:
    seen: list[tuple[str, str]] = []
    worker = shop.worker()
    for name in ("a", "b"):
        worker.handler(name)(lambda task, name=name: seen.append((name, task.body)))
    for name in ("a", "b", "a"):
        shop.client.put(name, tube=name)
    shop.client.put("for nobody")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 3, "three jobs are done")
    assert sorted(seen) == [("a", "a"), ("a", "a"), ("b", "b")]
    assert shop.tube_is(ready=1)


def test_a_job_that_fails_is_tried_again_and_dead_after_the_last_attempt(shop: Shop) -> None:
    """Until it is kicked, which gives it all its attempts again."""
    attempts: list[int] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=3, backoff=exponential(0, 0))
    def fail(task: Task[str]) -> None:
        attempts.append(task.attempt)
        raise ValueError("bad luck")

    id = shop.client.put("x", priority=9)
    with shop.open(worker):
        wait_until(lambda: worker.counters.buried == 1, "dead")
        assert shop.client.stats_job(id).pri == 9
        shop.client.kick_job(id)
        wait_until(lambda: worker.counters.buried == 2, "dead again")
    assert attempts == [1, 2, 3, 1, 2, 3]
    failures = [(line["error"], line["max_attempts"], line["delay_s"]) for line in shop.events("job failed")]
    assert failures == [("ValueError: bad luck", 3, 0)] * 4
    dead = shop.events("job dead")[0]
    assert (dead["id"], dead["attempt"], dead["exc_info"][0]) == (id, 3, ValueError)
    counters = worker.counters
    assert (counters.failed, counters.retried, counters.buried, counters.done) == (6, 4, 2, 0)


FAILED, RETRIED, BURIED, DEAD = "job failed", "job retried", "job buried", "job dead"


@pytest.mark.parametrize(
    ("error", "state", "delay_s", "event", "said"),
    [
        (ValueError("bad luck"), "delayed", 60, FAILED, {"error": "ValueError: bad luck", "delay_s": 60}),
        (SystemExit(0), "delayed", 60, FAILED, {"error": "SystemExit: 0", "delay_s": 60}),
        (Retry(), "delayed", 60, RETRIED, {"delay_s": 60}),
        (Retry("too early", delay=70), "delayed", 70, RETRIED, {"reason": "too early", "delay_s": 70}),
        (Bury("nobody can do this"), "buried", 0, BURIED, {"reason": "nobody can do this", "exc_info": None}),
        (Dead("no such customer"), "buried", 0, DEAD, {"reason": "no such customer", "exc_info": None}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [True, False])
def test_what_comes_of_an_error(  # noqa: PLR0917 - a row of the table
    shop: Shop, error: BaseException, state: str, delay_s: int, event: str, said: dict[str, object], is_async: bool
) -> None:
    worker = shop.worker()

    def fail(_: Task[str]) -> None:
        raise error

    async def fail_async(_: Task[str]) -> None:
        raise error

    worker.handler(shop.tube, backoff=lambda attempt: 59.5 + attempt / 10)(fail_async if is_async else fail)
    shop.client.put("x", priority=9)
    with shop.open(worker):
        wait_until(lambda: shop.events("job"), "logged")
    [job] = shop.server.jobs()
    assert (job.state, job.delay, job.pri, worker.counters.failed) == (state, delay_s, 9, 1)
    [line] = shop.events("job")
    about = {"event": event, "id": job.id, "tube": shop.tube, "attempt": 1, "max_attempts": 5, **said}
    assert {name: value for name, value in line.items() if name in {*about, "reason", "error"}} == about


def test_a_body_that_cannot_be_decoded_is_buried_unseen(shop: Shop) -> None:
    seen: list[Any] = []
    errors: list[Any] = []
    worker = shop.worker(codec=JsonCodec())
    worker.handler(shop.tube)(seen.append)
    worker.on_error(lambda task, error: errors.append((task.body, str(error))))
    id = shop.client.put("{")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: errors, "the hook was called")
    assert not seen
    ((body, sentence),) = errors
    assert body == b"{"
    assert f"the body of job {id} can't be decoded" in sentence


def test_a_job_whose_attempts_never_ended_is_buried_unseen(shop: Shop) -> None:
    """As one that kills its workers."""
    seen: list[Any] = []
    worker = shop.worker()
    worker.handler(shop.tube, max_attempts=2)(seen.append)
    shop.client.put("x")
    for _ in range(2):
        shop.client.reserve(10)
        shop.client.close()
    with shop.open(worker):
        shop.wait_tube(buried=1)
    assert not seen


def test_a_job_that_was_given_back_has_its_last_attempt_again(shop: Shop) -> None:
    """As one that came to a worker that stopped."""
    seen: list[tuple[int, int]] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=1)
    def fail(task: Task[str]) -> None:
        seen.append((task.attempt, task.stats.reserves))
        raise ValueError

    shop.client.put("x")
    for _ in range(2):
        shop.client.release(shop.client.reserve(10))
    with shop.open(worker):
        shop.wait_tube(buried=1)
    assert seen == [(1, 3)]


def test_a_plain_function_that_returns_a_coroutine_did_not_do_the_job(shop: Shop) -> None:
    worker = shop.worker()
    worker.handler(shop.tube, backoff=lambda _: 60)(partial(lambda function, task: function(task), async_nothing))
    shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: shop.events("job failed"), "logged")
    assert "async def" in shop.events("job failed")[0]["error"]


@pytest.mark.parametrize("mistake", [ZeroDivisionError(), "soon", None, -1, float("nan"), float("inf"), SystemExit()])
def test_a_backoff_that_fails_is_named_and_the_job_waits(shop: Shop, mistake: object) -> None:
    def broken_backoff(_attempt: int) -> Any:  # noqa: ANN401 - that is the mistake
        if isinstance(mistake, BaseException):
            raise mistake
        return mistake

    worker = shop.worker(1)

    @worker.handler(shop.tube, backoff=broken_backoff)
    def fail(_: Task[str]) -> None:
        raise ValueError("bad luck")

    id = shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: worker.counters.retried, "it is retried")
    if mistake == -1:  # as soon as possible
        assert not shop.events("a backoff failed")
        return
    line = shop.events("a backoff failed")[0]
    assert (line["id"], line["tube"], line["attempt"]) == (id, shop.tube, 1)
    assert line["backoff"].endswith(
        "test_outcomes.test_a_backoff_that_fails_is_named_and_the_job_waits.<locals>.broken_backoff"
    )
    assert issubclass(line["exc_info"][0], Exception | SystemExit)
    assert shop.events("job failed")[0]["delay_s"] == 1
    assert worker.counters.lost == 0
    assert not shop.events("the worker failed")


def test_hooks_are_called_after_the_handler_and_what_they_raise_is_logged(shop: Shop) -> None:
    calls: list[Any] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, max_attempts=1)
    def work(task: Task[str]) -> None:
        calls.append("work")
        if task.body == "bad":
            raise ValueError(task.body)

    @worker.on_error
    async def on_error(_: Task[str], error: BaseException) -> None:
        calls.append(error)

    @worker.after
    def fail(_: Task[str], outcome: Outcome) -> None:
        calls.append(outcome)
        raise ValueError("in the hook")

    shop.client.put_many(["good", "bad"])
    with shop.open(worker):
        wait_until(lambda: len(shop.events("a hook failed")) == 2, "all is over")
    assert calls[:3] == ["work", Outcome.DONE, "work"]
    assert isinstance(calls[3], ValueError)
    assert calls[4] is Outcome.BURIED
    line = shop.events("a hook failed")[0]
    assert (line["attempt"], line["error"]) == (1, "ValueError: in the hook")
    assert line["hook"].endswith("<locals>.fail")


def test_a_worker_never_holds_more_than_it_can_run(shop: Shop) -> None:
    go = threading.Event()
    worker = shop.worker(3)
    worker.handler(shop.tube)(lambda _: go.wait(20))
    shop.client.put_many(map(str, range(20)))
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 3, "three jobs run")
        wait_until(lambda: worker.counters.connections == 3, "all are connected")
        assert shop.tube_is(ready=17, reserved=3)
        go.set()
        wait_until(lambda: worker.counters.done == 20, "all are done")
    assert worker.counters.reserved == 20


def test_hundreds_of_jobs_are_done_once_each(shop: Shop) -> None:
    done: list[str] = []
    worker = shop.worker(8)

    @worker.handler(shop.tube, backoff=exponential(0, 0))
    def work(task: Task[str]) -> None:
        if task.attempt == 1 and int(task.body) % 7 == 0:
            raise ValueError
        done.append(task.body)

    bodies = [str(number) for number in range(300)]
    shop.client.put_many(bodies)
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 300, "all are done")
    assert sorted(done) == sorted(bodies)
    assert worker.counters.retried == 43
