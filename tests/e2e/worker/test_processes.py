"""Handlers in processes: one that dies fails its job and nothing else."""

from pathlib import Path

import pytest

from tests.e2e.process import wait_until
from tests.e2e.worker.conftest import Shop
from tests.e2e.worker.handlers import in_process

pytestmark = pytest.mark.parametrize("server", ["beanpole"], indirect=True)  # which one it is does not matter here


def is_alive(pid: int) -> bool:
    """Whether there is a process; one that has ended and was not waited for is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_in(file: Path) -> int:
    """The number that a process has written to a file; 0: it has not yet, or is about to."""
    return int(file.read_text() or 0) if file.exists() else 0


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise", "ValueError: as the body says"),
        ("raise-private", "RuntimeError: PrivateError: as the body says"),
        ("die", "HandlerDiedError: the process of the handler ended with exit code -9"),
        ("exit", "HandlerDiedError: the process of the handler ended with exit code 7"),
    ],
)
def test_a_process_that_fails_fails_only_its_job(shop: Shop, body: str, error: str) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True, backoff=lambda _: 60)(in_process)
    shop.client.put_many([body, "do", "do"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 2, "the others are done")
        shop.wait_tube(delayed=1)
    assert [line["error"] for line in shop.events("job failed")] == [error]


def test_what_a_process_raises_on_purpose_counts(shop: Shop) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True)(in_process)
    shop.client.put_many(["retry", "bury"])
    with shop.open(worker):
        shop.wait_tube(delayed=1, buried=1)
    assert shop.client.stats_job(shop.client.peek_delayed().id).delay == 70
    assert shop.events("job buried")[0]["reason"] == "as the body says"


def test_the_traceback_of_a_process_is_in_the_log(shop: Shop) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True, max_attempts=1)(in_process)
    shop.client.put("raise")
    with shop.open(worker):
        shop.wait_tube(buried=1)
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


def test_signals_to_the_group_do_not_end_a_process(shop: Shop) -> None:
    """When systemd or a terminal tells every process to stop, handlers still have the time of grace."""
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True)(in_process)
    shop.client.put_many(["terminate", "interrupt"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 2, "both are done")


def test_a_handler_that_forks_and_returns_twice_is_done_once(shop: Shop) -> None:
    worker = shop.worker(1)
    worker.handler(shop.tube, process=True)(in_process)
    shop.client.put_many(["fork", "do"])
    with shop.open(worker):
        wait_until(lambda: worker.counters.done == 2, "both are done")
    assert worker.counters.reserved == 2
