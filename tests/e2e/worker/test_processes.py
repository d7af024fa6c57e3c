"""Handlers in processes: one that dies fails its job and nothing else."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole.testing import FakeServer
from tests.e2e.process import wait_until
from tests.e2e.worker.handlers import in_process, in_process_many, is_alive, note_around
from tests.unit.worker.conftest import Shop


@pytest.fixture
def shop() -> Iterator[Shop]:
    """A worker's server and tube."""
    with FakeServer() as server:
        made = Shop(server)
        with made.client:
            made.client.connect()
            yield made
        made.check_events()


def pid_in(file: Path) -> int:
    """The number that a process has written to a file; 0: it has not yet, or is about to."""
    return int(file.read_text() or 0) if file.exists() else 0


def test_a_process_that_fails_fails_only_its_job(shop: Shop, tmp_path: Path) -> None:
    """What it raises on purpose counts; a signal to the group, or a fork that returns twice, is no failure."""
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True, backoff=lambda _: 60)(in_process)
    worker.middleware(note_around)
    bodies = ["raise", "raise-private", "die", "exit", "retry", "bury", "terminate", "interrupt", "fork"]
    ids = dict(zip(bodies, shop.client.put_many([*bodies]), strict=True))
    shop.client.put(f"do {tmp_path / 'pid'}")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 4, "the others are done")
    assert {line["id"]: line["error"] for line in shop.events("job failed")} == {
        ids["raise"]: "ValueError: as the body says",
        ids["raise-private"]: "RuntimeError: PrivateError: as the body says",
        ids["die"]: "HandlerDiedError: the process of the handler ended with exit code -9",
        ids["exit"]: "HandlerDiedError: the process of the handler ended with exit code 7",
    }
    assert {job.id: job.delay for job in shop.server.jobs(state="delayed")}[ids["retry"]] == 70
    assert [(line["id"], line["reason"]) for line in shop.events("job buried")] == [(ids["bury"], "as the body says")]
    assert worker.counters.reserved == len(bodies) + 1
    assert (tmp_path / "pid").read_text() == (tmp_path / "pid-around").read_text(), "middleware runs in the process"


def test_a_process_is_there_before_the_first_job_and_after_one_that_has_killed_it(shop: Shop) -> None:
    worker = shop.worker(5)
    worker.handler("elsewhere")(lambda _: None)
    worker.handler(shop.tube, process=True, concurrency=1, max_attempts=1)(in_process)

    def pids() -> set[int | None]:
        return {each.pid for each in multiprocessing.active_children() if each.is_alive()}

    with shop.open(worker):
        shop.wait_waiting(6)
        before = pids()
        assert len(before) == 1, "one slot needs one"
        shop.client.put("die")
        shop.wait_tube(buried=1)
        shop.wait_waiting(6)
        assert len(pids()) == 1
        assert pids() != before


def test_what_a_process_says_of_the_jobs_of_a_batch(shop: Shop) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True, batch=10, backoff=lambda _: 60)(in_process_many)
    ids = shop.client.put_many(["raise", "retry", "raise-private", "done", "rest"])
    with shop.open(worker):
        wait_until(lambda: len(shop.events("job")) == 4, "all have ended")
    assert {line["id"]: line.get("error") for line in shop.events("job")} == {
        ids[0]: "ValueError: as the body says",
        ids[1]: None,
        ids[2]: "RuntimeError: PrivateError: as the body says",
        ids[4]: "OSError: of the call",
    }
    assert worker.counters.done == 1


def test_the_traceback_of_a_process_is_in_the_log(shop: Shop) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True, max_attempts=1)(in_process)
    shop.client.put("raise")
    with shop.open(worker):
        wait_until(lambda: shop.events("job dead"), "logged")
    note = str(shop.events("job dead")[0]["exc_info"][1].__notes__)
    assert "in process" in note
    assert "handlers.py" in note


def test_a_process_that_takes_too_long_is_killed(shop: Shop, tmp_path: Path) -> None:
    worker = shop.worker(1)
    # On a busy machine a process may need longer than that to begin: then the job is tried again at once.
    worker.handler(shop.tube, process=True, timeout=1.5, max_attempts=1000, backoff=lambda _: 0)(in_process)
    shop.client.put(f"hang-once {tmp_path / 'pid'}")
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 1, "another process works on")
    assert "TimeoutError" in shop.events("job failed")[0]["error"]
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_a_process_ends_with_the_worker(shop: Shop, tmp_path: Path) -> None:
    worker = shop.worker(2, grace=0.0)
    worker.handler(shop.tube, process=True)(in_process)
    shop.client.put_many([f"do {tmp_path / 'idle'}", f"hang {tmp_path / 'busy'}"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 1 and pid_in(tmp_path / "busy"), "one is done, one runs")
        pids = [pid_in(tmp_path / name) for name in ("idle", "busy")]
    wait_until(lambda: not any(map(is_alive, pids)), "both are gone")
    assert shop.tube_is(ready=1)
