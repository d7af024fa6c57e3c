"""A worker and a server that counts attempts by a rule: only one of them does, and which may change with each job."""

from collections.abc import Callable

import pytest

from beanpole import Client, Dead, JsonCodec, Task, exponential
from tests.e2e.process import wait_until
from tests.unit.worker.conftest import Shop

pytestmark = pytest.mark.parametrize("server", ["beanpole"], indirect=True)  # the other one has no rules


def reasons_of(shop: Shop, id: int) -> dict[str, str]:
    return {each.word: each.text for each in shop.client.explain(id).reasons}


def test_a_job_that_always_fails_is_dead_when_the_server_says_so(shop: Shop) -> None:
    shop.client.set_rules(shop.tube, {"attempts": 3, "backoff": "60 factor 2", "dead": "dead"})
    seen: list[tuple[int, int | None, bool]] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=1, backoff=lambda _: 3600)
    def fail(task: Task[str]) -> None:
        seen.append((task.attempt, task.max_attempts, task.counted))
        raise ValueError("bad luck")

    id = shop.client.put("x", priority=9)
    with shop.open(worker):
        wait_until(lambda: worker.counters.retried == 1, "failed")
        shop.server.advance(47)
        assert shop.tube_is(delayed=1), "a fifth less than the rule says, at the most"
        shop.server.advance(13)
        wait_until(lambda: worker.counters.retried == 2, "failed again")
        shop.server.advance(120)
        wait_until(lambda: worker.counters.buried, "dead")
    assert seen == [(1, 3, True), (2, 3, True), (3, 3, True)]
    counters = worker.counters
    assert (counters.failed, counters.retried, counters.buried) == (3, 2, 1)
    [job] = shop.client.list_jobs("dead", "ready").jobs
    assert (job.id, job.pri, job.origin) == (id, 9, shop.tube)
    reasons = reasons_of(shop, id)
    first, *_, last = reasons["failed"].splitlines()
    assert (first, last.strip()) == ("ValueError: bad luck", 'raise ValueError("bad luck")')
    assert reasons["died"].endswith(f"in {shop.tube}, after 3 attempts, as the last attempt failed")
    [line] = shop.events("job dead")
    assert (line["error"], line["attempt"]) == ("ValueError: bad luck", 3)
    assert shop.client.redrive("dead") == 1
    assert shop.client.stats_job(id).tube == shop.tube


def used_up(shop: Shop) -> int:
    """A job whose workers have died."""
    id = shop.client.put("7")
    for _ in range(2):
        shop.client.reserve(10)
        shop.client.close()
    return id


@pytest.mark.parametrize(
    ("put", "error", "first", "attempts"),
    [
        (lambda shop: shop.client.put("x"), ValueError("bad luck"), "ValueError: bad luck", "2 attempts"),
        (lambda shop: shop.client.put("x"), Dead("no such customer"), "no such customer", "1 attempt"),
        (lambda shop: shop.client.put("{"), None, "the body of job", "1 attempt"),
        (used_up, None, "2 attempts have begun, and the workers of some died", "3 attempts"),
    ],
    ids=["last", "Dead", "body", "used up"],
)
def test_a_job_that_a_worker_lets_die_keeps_why(
    shop: Shop, put: Callable[[Shop], int], error: Exception | None, first: str, attempts: str
) -> None:
    worker = shop.worker(1, codec=JsonCodec() if error is None else None)

    @worker.handler(shop.tube, max_attempts=2, backoff=exponential(0, 0))
    def fail(_: Task[str]) -> None:
        assert error is not None, "it was called"
        raise error

    id = put(shop)
    with shop.open(worker):
        shop.wait_tube(buried=1)
        wait_until(lambda: worker.counters.buried, "counted")
    reasons = reasons_of(shop, id)
    assert reasons["failed"].startswith(first)
    assert f"ago in {shop.tube}, after {attempts}, " in reasons["died"]
    assert [line["id"] for line in shop.events("job dead")] == [id]
    assert not shop.events("job buried")


def test_a_dead_job_that_is_brought_back_has_all_its_attempts_again(shop: Shop) -> None:
    """By the worker's own count, too: the server has none."""
    shop.client.set_rules(shop.tube, {"dead": "dead"})
    seen: list[int] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, max_attempts=2, backoff=exponential(0, 0))
    def fail(task: Task[str]) -> None:
        seen.append(task.attempt)
        raise ValueError("bad luck")

    id = shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: worker.counters.buried == 1, "dead")
        assert shop.client.move_jobs("dead", "ready") == 1
        wait_until(lambda: worker.counters.buried == 2, "dead again")
    assert seen == [1, 2, 1, 2]
    assert shop.client.stats_job(id).kicks == 1


def test_rules_may_come_and_go_between_the_attempts(shop: Shop) -> None:
    seen: list[tuple[int, int | None, bool]] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=10, backoff=exponential(0, 0))
    def work(task: Task[str]) -> None:
        seen.append((task.attempt, task.max_attempts, task.counted))
        with Client(shop.server.url) as client:
            if len(seen) == 1:
                client.set_rules(shop.tube, {"attempts": 5})
            elif len(seen) == 2:
                client.drop_rules(shop.tube)
            else:
                return
        raise ValueError

    shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done, "done")
    assert seen == [(1, 10, False), (2, 5, True), (3, 10, False)]
    assert [(line["delay_s"], line["max_attempts"]) for line in shop.events("job failed")] == [(0, 10), (None, 5)]
