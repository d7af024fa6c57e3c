"""What comes of a job: done, retried, buried, and what the server and the program see of it."""

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from beanpole import Bury, JsonCodec, Outcome, Retry, Task, exponential
from tests.e2e.process import wait_until
from tests.e2e.worker.conftest import Shop
from tests.e2e.worker.handlers import in_process


@pytest.mark.parametrize("place", ["loop", "thread", "process"])
def test_a_job_that_is_done_is_deleted(shop: Shop, place: str) -> None:
    worker = shop.worker()
    if place == "process":
        worker.handler(shop.tube, process=True)(in_process)
    elif place == "thread":
        worker.handler(shop.tube)(lambda _: None)
    else:
        worker.handler(shop.tube)(async_nothing)
    shop.client.put_many(["do", "it", "now"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 3, "three jobs are done")
        shop.wait_tube()
    counters = worker.counters
    assert (counters.reserved, counters.done, counters.failed, counters.running) == (3, 3, 0, 0)
    assert not shop.events("job")


async def async_nothing(_task: Task[Any]) -> None:
    await asyncio.sleep(0)


def call(function: Callable[[Task[Any]], object], task: Task[Any]) -> object:
    return function(task)


def test_a_handler_sees_the_job(shop: Shop) -> None:
    seen: list[Task[Any]] = []
    worker = shop.worker(codec=JsonCodec())
    worker.handler(f"{shop.tube}-2", shop.tube)(seen.append)
    id = shop.client.put(json.dumps({"to": "you"}), priority=3, ttr=7)
    with shop.open(worker):
        wait_until(lambda: worker.counters.done, "done")
    (task,) = seen
    assert (task.id, task.body, task.tube, task.attempt, task.max_attempts) == (id, {"to": "you"}, shop.tube, 1, 5)
    assert (task.stats.pri, task.stats.ttr) == (3, 7)


def test_each_tube_has_its_handler(shop: Shop) -> None:
    seen: list[tuple[str, str]] = []
    worker = shop.worker()
    for name in ("a", "b"):
        worker.handler(f"{shop.tube}-{name}")(lambda task, name=name: seen.append((name, task.body)))
    for name in ("a", "b", "a"):
        shop.client.put(name, tube=f"{shop.tube}-{name}")
    shop.client.put("for nobody")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 3, "three jobs are done")
    assert sorted(seen) == [("a", "a"), ("a", "a"), ("b", "b")]
    assert shop.tube_is(ready=1)


def test_a_job_that_fails_is_tried_again_and_buried_after_the_last_attempt(shop: Shop) -> None:
    attempts: list[int] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=3, backoff=exponential(0, 0))
    def fail(task: Task[str]) -> None:
        attempts.append(task.attempt)
        raise ValueError("bad luck")

    id = shop.client.put("x", priority=9)
    with shop.open(worker):
        shop.wait_tube(buried=1)
    assert attempts == [1, 2, 3]
    assert shop.client.stats_job(id).pri == 9
    failures = [(line["error"], line["max_attempts"], line["delay_s"]) for line in shop.events("job failed")]
    assert failures == [("ValueError: bad luck", 3, 0)] * 2
    (dead,) = shop.events("job dead")
    assert (dead["id"], dead["attempt"], dead["exc_info"][0]) == (id, 3, ValueError)
    counters = worker.counters
    assert (counters.failed, counters.retried, counters.buried, counters.done) == (3, 2, 1, 0)


def test_a_job_that_is_kicked_has_all_its_attempts_again(shop: Shop) -> None:
    attempts: list[int] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=2, backoff=exponential(0, 0))
    async def fail(task: Task[str]) -> None:
        attempts.append(task.attempt)
        raise ValueError

    id = shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        shop.client.kick_job(id)
        wait_until(lambda: worker.counters.buried == 2, "buried again")
    assert attempts == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("error", "delay_s"), [(ValueError(), 60), (Retry(), 60), (Retry(delay=70), 70), (SystemExit(0), 60)]
)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_job_that_fails_waits(shop: Shop, error: BaseException, delay_s: int, is_async: bool) -> None:
    worker = shop.worker()

    def fail(_: Task[str]) -> None:
        raise error

    async def fail_async(_: Task[str]) -> None:
        raise error

    worker.handler(shop.tube, backoff=lambda attempt: 59.5 + attempt / 10)(fail_async if is_async else fail)
    id = shop.client.put("x", priority=9)
    with shop.open(worker):
        shop.wait_tube(delayed=1)
    stats = shop.client.stats_job(id)
    assert (stats.delay, stats.pri, stats.releases) == (delay_s, 9, 1)


def test_bury_buries_at_once(shop: Shop) -> None:
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=None)
    def bury(_: Task[str]) -> None:
        raise Bury("nobody can do this")

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: worker.counters.failed, "counted")
    (buried,) = shop.events("job buried")
    assert buried["reason"] == "nobody can do this"
    assert buried["exc_info"] is None
    assert "error" not in buried


def test_a_retry_is_no_failure_in_the_log(shop: Shop) -> None:
    worker = shop.worker()

    @worker.handler(shop.tube)
    def retry(task: Task[str]) -> None:
        raise Retry("too early" if task.attempt == 1 else "", delay=0 if task.attempt < 3 else 60)

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(delayed=1)
        wait_until(lambda: len(shop.events("job retried")) == 3, "all are logged")
    lines = shop.events("job retried")
    assert [line["log_level"] for line in lines] == ["info"] * 3
    assert [line.get("reason") for line in lines] == ["too early", None, None]
    assert [(line["delay_s"], line["attempt"], line["max_attempts"]) for line in lines][1:] == [(0, 2, 5), (60, 3, 5)]
    assert not shop.events("job failed")


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
    worker.handler(shop.tube, backoff=lambda _: 60)(partial(call, async_nothing))
    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(delayed=1)
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


# --- Hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_are_called_after_the_handler(shop: Shop) -> None:
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
    def after(_: Task[str], outcome: Outcome) -> None:
        calls.append(outcome)

    shop.client.put_many(["good", "bad"])
    with shop.open(worker):
        wait_until(lambda: len(calls) == 5, "all is over")
    assert calls[:3] == ["work", Outcome.DONE, "work"]
    assert isinstance(calls[3], ValueError)
    assert calls[4] is Outcome.BURIED


def test_what_a_hook_raises_afterwards_is_logged(shop: Shop) -> None:
    worker = shop.worker()
    worker.handler(shop.tube)(async_nothing)

    @worker.after
    def fail(_: Task[str], _outcome: Outcome) -> None:
        raise ValueError("in the hook")

    shop.client.put_many(["1", "2"])
    with shop.open(worker):
        wait_until(lambda: len(shop.events("a hook failed")) == 2, "logged")
    assert worker.counters.done == 2
    line = shop.events("a hook failed")[0]
    assert (line["attempt"], line["error"]) == (1, "ValueError: in the hook")
    assert line["hook"].endswith("<locals>.fail")


def test_successes_are_logged_if_asked_for(shop: Shop) -> None:
    worker = shop.worker(log_done=True)
    worker.handler(shop.tube)(async_nothing)
    id = shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: shop.events("job done"), "logged")
    assert shop.events("job done")[0]["id"] == id


# --- Never more than it can run ---------------------------------------------------------------------------------------


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

    bodies = [str(number) for number in range(500)]
    shop.client.put_many(bodies)
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 500, "all are done")
    assert sorted(done) == sorted(bodies)
    assert worker.counters.retried == 72
