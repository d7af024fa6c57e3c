"""A worker and a server that counts attempts by a rule: only one of them does, and which may change with each job."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from beanpole import Bury, Client, Dead, JsonCodec, Retry, Task, exponential
from tests.e2e.process import wait_until
from tests.e2e.worker.conftest import Shop
from tests.servers import HOST, Server, beanpole_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has rules."""
    with beanpole_server() as running:
        yield running


def test_a_job_that_always_fails_is_dead_when_the_server_says_so(shop: Shop) -> None:
    dead = f"{shop.tube}-dead"
    shop.client.set_rules(shop.tube, {"attempts": 3, "backoff": "0.2 factor 2", "dead": dead})
    seen: list[tuple[int, int | None, bool]] = []
    began: list[float] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=1, backoff=lambda _: 3600)
    def fail(task: Task[str]) -> None:
        began.append(time.monotonic())
        seen.append((task.attempt, task.max_attempts, task.counted))
        raise ValueError("bad luck")

    id = shop.client.put("x", priority=9)
    with shop.open(worker):
        wait_until(lambda: worker.counters.buried, "dead")
    assert seen == [(1, 3, True), (2, 3, True), (3, 3, True)]
    assert began[1] - began[0] >= 0.16, "a fifth less than the rule says, at the most"
    assert began[2] - began[1] >= 0.32
    counters = worker.counters
    assert (counters.failed, counters.retried, counters.buried) == (3, 2, 1)
    [job] = shop.client.list_jobs(dead, "ready").jobs
    assert (job.id, job.pri, job.origin) == (id, 9, shop.tube)
    reasons = {each.word: each.text for each in shop.client.explain(id).reasons}
    first, *_, last = reasons["failed"].splitlines()
    assert (first, last.strip()) == ("ValueError: bad luck", 'raise ValueError("bad luck")')
    assert reasons["died"].endswith(f"in {shop.tube}, after 3 attempts, as the last attempt failed")
    [line] = shop.events("job dead")
    assert (line["error"], line["attempt"]) == ("ValueError: bad luck", 3)
    assert shop.client.redrive(dead) == 1
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
    reasons = {each.word: each.text for each in shop.client.explain(id).reasons}
    assert reasons["failed"].startswith(first)
    assert f"ago in {shop.tube}, after {attempts}, " in reasons["died"]
    assert [line["id"] for line in shop.events("job dead")] == [id]
    assert not shop.events("job buried")


@pytest.mark.parametrize("rules", [{}, {"dead": "{}-dead"}], ids=["buried", "moved"])
def test_a_dead_job_that_is_brought_back_has_all_its_attempts_again(shop: Shop, rules: dict[str, str]) -> None:
    """By the worker's own count, too: the server has none."""
    grave = rules["dead"].format(shop.tube) if rules else shop.tube
    if rules:
        shop.client.set_rules(shop.tube, {"dead": grave})
    seen: list[int] = []
    worker = shop.worker(1)

    @worker.handler(shop.tube, max_attempts=2, backoff=exponential(0, 0))
    def fail(task: Task[str]) -> None:
        seen.append(task.attempt)
        raise ValueError("bad luck")

    id = shop.client.put("x")
    with shop.open(worker):
        for deaths in (1, 2):
            wait_until(lambda deaths=deaths: worker.counters.buried == deaths, "dead")  # type: ignore[misc]
            if deaths == 1:
                assert shop.client.move_jobs(grave, "ready" if rules else "buried") == 1
    assert seen == [1, 2, 1, 2]
    assert shop.client.stats_job(id).kicks == 1


def test_rules_may_come_and_go_between_the_attempts(shop: Shop) -> None:
    seen: list[tuple[int, int | None, bool]] = []
    worker = shop.worker()

    @worker.handler(shop.tube, max_attempts=10, backoff=exponential(0, 0))
    def work(task: Task[str]) -> None:
        seen.append((task.attempt, task.max_attempts, task.counted))
        with Client((HOST, shop.server.port)) as client:
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


def test_a_stop_is_no_attempt(shop: Shop) -> None:
    shop.client.set_rules(shop.tube, {"attempts": 1})
    go_on = threading.Event()
    seen: list[int] = []

    def hang(task: Task[str]) -> None:
        seen.append(task.attempt)
        go_on.wait(20)

    worker = shop.worker(1, grace=0.05)
    worker.handler(shop.tube)(hang)
    id = shop.client.put("x")
    try:
        with shop.open(worker):
            wait_until(lambda: seen, "the handler runs")
        assert worker.counters.released == 1
        stats = shop.client.stats_job(id)
        assert (stats.state, stats.releases) == ("ready", 1)
    finally:
        go_on.set()
    worker = shop.worker(1)
    worker.handler(shop.tube)(hang)
    with shop.open(worker):
        wait_until(lambda: worker.counters.done, "done by the only attempt")
    assert seen == [1, 1]


@pytest.mark.parametrize(
    ("error", "state", "least_s", "most_s"),
    [
        (Retry("later", delay=70), "delayed", 70, 70),
        (Retry(), "delayed", 47, 60),
        (Bury("never"), "buried", 0, 0),
        (Dead("never"), "buried", 0, 0),
    ],
)
def test_what_a_handler_asks_for(shop: Shop, error: Exception, state: str, least_s: int, most_s: int) -> None:
    shop.client.set_rules(shop.tube, {"attempts": 2, "backoff": 60})
    worker = shop.worker(1)

    @worker.handler(shop.tube)
    def fail(_: Task[str]) -> None:
        raise error

    id = shop.client.put("x")
    with shop.open(worker):
        wait_until(lambda: worker.counters.failed, "it has failed")
    stats = shop.client.stats_job(id)
    assert stats.state == state
    assert least_s <= stats.delay <= most_s
