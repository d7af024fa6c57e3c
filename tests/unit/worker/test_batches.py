"""Handlers that are called with many jobs at once, and what comes of each."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from beanpole import Bury, Dead, JobFunction, JsonCodec, Task
from tests.e2e.process import wait_until
from tests.unit.worker.conftest import Shop

Tasks = list[Task[Any]]


def bodies(calls: list[Tasks]) -> list[list[Any]]:
    return [[task.body for task in tasks] for tasks in calls]


def test_a_batch_has_what_is_there_and_no_more_than_fits(shop: Shop) -> None:
    calls: list[Tasks] = []
    worker = shop.worker(log_done=True)
    worker.handler("other")(lambda _: None)
    worker.handler(shop.tube, batch=3)(calls.append)
    shop.client.put_many([str(number) for number in range(7)])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 7, "all are done")
        shop.wait_tube()
    assert bodies(calls) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert all(task.tube == shop.tube and task.attempt == 1 for task in calls[0])
    assert len(shop.events("job done")) == 7
    assert worker.slots == 3, "two that are shared, and that of the batches"


def test_a_batch_that_is_not_full_waits_for_more(shop: Shop) -> None:
    calls: list[Tasks] = []
    worker = shop.worker()
    worker.handler(shop.tube, batch=3, linger=1)(calls.append)
    with shop.open(worker):
        shop.wait_waiting(1)
        shop.client.put("first")
        shop.wait_tube(reserved=1)
        shop.client.put_many(["second", "third", "too much"])
        wait_until(lambda: worker.counters.done == 4, "all are done")
    assert bodies(calls) == [["first", "second", "third"], ["too much"]]


def test_a_worker_that_stops_gives_back_what_lingers(shop: Shop) -> None:
    worker = shop.worker()
    worker.handler(shop.tube, batch=3, linger=100)(lambda _: None)
    with shop.open(worker):
        shop.wait_waiting(1)
        shop.client.put("x")
        shop.wait_tube(reserved=1)
    assert shop.tube_is(ready=1)
    assert worker.counters.released == 1


def test_the_handler_says_what_came_of_one_and_the_rest_follows_the_call(shop: Shop) -> None:
    worker = shop.worker()
    ended: dict[str, object] = {}

    @worker.handler(shop.tube, batch=10, backoff=lambda _: 60)
    def work(tasks: Tasks) -> None:
        by_body = {task.body: task for task in tasks}
        by_body["done"].done()
        by_body["dead"].fail(Dead("no such customer"))
        by_body["wrong"].fail(KeyError("wrong"))
        with pytest.raises(TypeError):
            by_body["rest"].fail("a sentence")  # type: ignore[arg-type]
        raise ValueError("of the call")

    worker.after(lambda task, outcome: ended.update({task.body: str(outcome)}))
    ids = dict(
        zip(["done", "dead", "wrong", "rest"], shop.client.put_many(["done", "dead", "wrong", "rest"]), strict=True)
    )
    with shop.open(worker):
        wait_until(lambda: len(ended) == 4, "all have ended")
    assert ended == {"done": "done", "dead": "buried", "wrong": "retried", "rest": "retried"}
    errors = {line["id"]: line["error"] for line in shop.events("job failed")}
    assert errors == {ids["wrong"]: "KeyError: 'wrong'", ids["rest"]: "ValueError: of the call"}
    assert shop.tube_is(delayed=2, buried=1)
    assert (worker.counters.failed, worker.counters.running) == (3, 0)


def test_a_job_that_is_lost_takes_the_others_not_with_it(shop: Shop) -> None:
    """Another slot has it then, and waits for the first."""
    worker = shop.worker()
    go_on = threading.Event()
    worker.handler(shop.tube, batch=10, concurrency=2)(lambda _: go_on.wait(20))
    shop.client.put("stays", ttr=100)
    shop.client.put("lost", ttr=1)
    with shop.open(worker):
        wait_until(lambda: worker.counters.running == 1, "they run")
        shop.server.advance(1)
        wait_until(lambda: worker.counters.running == 2, "the other slot has it")
        assert worker.counters.lost == 0, "the first handler runs on"
        go_on.set()
        wait_until(lambda: worker.counters.done == 2, "the lost one is done by another attempt")
    assert worker.counters.lost == 1


def test_a_body_that_cannot_be_read_is_dead_and_no_other(shop: Shop) -> None:
    calls: list[Tasks] = []
    worker = shop.worker(codec=JsonCodec())
    worker.handler(shop.tube, batch=10)(calls.append)
    shop.client.put_many(["1", "{", "3"])
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: worker.counters.done == 2, "the others are done")
    assert sorted(body for call in bodies(calls) for body in call) == [1, 3]


def test_a_function_for_batches_puts_one_job_at_a_time(shop: Shop) -> None:
    calls: list[Tasks] = []
    worker = shop.worker()

    @worker.function(shop.tube, batch=10)
    async def send(tasks: Tasks) -> None:
        calls.append(tasks)

    assert isinstance(send, JobFunction)
    for each in ({"to": 1}, [2], "three"):
        send.put(each)
    with pytest.raises(TypeError, match="JSON"):
        send.put(object())
    shop.client.put("no JSON")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: worker.counters.done == 3, "all are done")
    assert [body for call in bodies(calls) for body in call] == [{"to": 1}, [2], "three"]


def test_a_handler_has_no_more_slots_than_its_own_and_takes_none_of_others(shop: Shop) -> None:
    """Long jobs of one occupy its slots, and those of another are done meanwhile."""
    worker = shop.worker(2)
    go_on = threading.Event()
    at_once: list[int] = []
    running = 0
    lock = threading.Lock()

    @worker.handler("thumbnails", "previews", concurrency=2)
    def shrink(_: Task[str]) -> None:
        nonlocal running
        with lock:
            running += 1
            at_once.append(running)
        go_on.wait(20)
        with lock:
            running -= 1

    worker.handler(shop.tube)(lambda _: None)
    shop.client.put_many(["x"] * 4, tube="thumbnails")
    shop.client.put_many(["x"] * 2, tube="previews")
    shop.client.put_many(["x"] * 5)
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 5 and len(at_once) == 2, "the mails do not wait")
        go_on.set()
        wait_until(lambda: worker.counters.done == 11, "all are done")
    assert max(at_once) == 2
    assert worker.slots == 4


@pytest.mark.parametrize("wanted", ["raised", "returned", "returned-on-loop", "returned-through-middleware"])
def test_a_handler_may_return_what_it_may_raise(shop: Shop, wanted: str) -> None:
    """The reason stays with the job where the server keeps one."""
    worker = shop.worker()
    reason = Bury("look at this")

    def bury(_: Task[str]) -> Bury:
        if wanted == "raised":
            raise reason
        return reason

    async def bury_on_loop(_: Task[str]) -> Bury:
        return reason

    worker.handler(shop.tube)(bury_on_loop if wanted == "returned-on-loop" else bury)
    if wanted == "returned-through-middleware":

        @worker.middleware
        def around(_: Task[str], call: Callable[[], object]) -> None:
            call()

    id = shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: shop.events("job buried"), "logged")
    assert shop.events("job buried")[0]["reason"] == "look at this"
    if "explain" in shop.client.features():
        assert "look at this" in str(shop.client.explain(id).reasons)


def test_what_is_buried_stays_where_the_dead_go_elsewhere(shop: Shop) -> None:
    if "set-rules" not in shop.client.features():
        pytest.skip("this server has no rules")
    shop.client.set_rules(shop.tube, {"dead": "graves"})
    worker = shop.worker()

    @worker.handler(shop.tube)
    def bury(_: Task[str]) -> None:
        raise Bury("look at this")

    shop.client.put("x")
    with shop.open(worker):
        shop.wait_tube(buried=1)
