"""``beanpole worker --processes N``: several processes from one command, and another for each that ends."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from beanpole import Client
from tests.e2e.process import wait_until
from tests.e2e.worker.handlers import is_alive
from tests.e2e.worker.program import MODULE, Program, program
from tests.servers import HOST, START_TIMEOUT_S, Server


@pytest.fixture
def client(beanpole: Server) -> Iterator[Client[str]]:
    with Client((HOST, beanpole.port)) as made:
        yield made


def pids(worker: Program) -> set[int]:
    """The processes that the worker has started and that have not ended."""
    return {int(pid) for pid in Path(f"/proc/{worker.popen.pid}/task/{worker.popen.pid}/children").read_text().split()}


def wait_waiting(client: Client[str], tube: str, count: int) -> None:
    """Waits until so many connections wait for a job of a tube."""
    wait_until(
        lambda: tube in client.tubes() and client.stats_tube(tube).current_waiting == count,
        f"{count} wait",
        START_TIMEOUT_S,
    )


def test_jobs_are_done_in_several_processes(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    """Each holds as many as one process does."""
    with program(tmp_path, beanpole.port, "--processes", "3", "--concurrency", "2") as worker:
        wait_waiting(client, "loop", 6)
        for _ in range(6):
            client.put("sleep 1", tube="loop")
        worker.wait_ledger("end", 6)
        assert {pid for _, pid in worker.lines("end")} == pids(worker)
        assert len(pids(worker)) == 3
        assert worker.stop() == 0
    assert len(worker.events("worker stopped")) == 3
    assert client.stats().current_jobs_ready == 0


@pytest.mark.parametrize(("number", "whom"), [(signal.SIGTERM, "the parent"), (signal.SIGINT, "all")])
def test_a_signal_lets_the_handlers_of_all_finish(
    beanpole: Server, client: Client[str], tmp_path: Path, number: int, whom: str
) -> None:
    """Whether the parent gets it alone, or each of them, as from a terminal."""
    with program(tmp_path, beanpole.port, "--processes", "2", "--concurrency", "1") as worker:
        wait_waiting(client, "loop", 2)
        client.put("sleep 0.7", tube="loop")
        client.put("sleep 0.8", tube="thread")
        worker.wait_ledger("begin", 2)
        for pid in [worker.popen.pid, *(pids(worker) if whom == "all" else ())]:
            os.kill(pid, number)
        assert worker.wait_exit() == 0
        assert sorted(worker.ledger("end")) == ["sleep 0.7", "sleep 0.8"]


def test_a_second_signal_ends_all_at_once(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    id = client.put("sleep 100", tube="blocking")
    with program(tmp_path, beanpole.port, "--processes", "2") as worker:
        worker.wait_ledger("begin")
        wait_waiting(client, "loop", 7)
        children = pids(worker)
        worker.signal(signal.SIGTERM)
        wait_waiting(client, "loop", 3)
        worker.signal(signal.SIGTERM)
        assert worker.wait_exit() == 128 + signal.SIGTERM
        assert not any(is_alive(pid) for pid in children)
    wait_until(lambda: client.stats_job(id).state == "ready", "the server gives the job to others")


def test_processes_stop_when_their_parent_is_killed(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    with program(tmp_path, beanpole.port, "--processes", "2", "--concurrency", "1") as worker:
        wait_waiting(client, "loop", 2)
        client.put("sleep 0.7", tube="loop")
        worker.wait_ledger("begin")
        children = pids(worker)
        worker.signal(signal.SIGKILL)
        wait_until(lambda: not any(is_alive(pid) for pid in children), "they have ended")
    assert worker.ledger("end") == ["sleep 0.7"]
    assert len(worker.events("worker stopped")) == 2


def test_a_process_that_dies_is_replaced(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    client.put("kill", tube="thread")
    with program(tmp_path, beanpole.port, "--processes", "2") as worker:
        worker.wait_ledger("end")
        worker.wait_event("worker started", 3)
        (line,) = worker.events("worker process failed")
        assert (line["level"], line["signal"], line["in_s"]) == ("warning", "SIGKILL", 1)
        assert worker.ledger("begin") == ["kill", "kill"]
        assert worker.stop() == 0
        assert len(worker.events("worker stopped")) == 2


def test_a_process_that_was_stopped_is_replaced_at_once(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    with program(tmp_path, beanpole.port, "--processes", "2", "--concurrency", "1") as worker:
        wait_waiting(client, "loop", 2)
        old = min(pids(worker))
        os.kill(old, signal.SIGTERM)
        worker.wait_event("worker started", 3)
        (line,) = worker.events("worker process ended")
        assert (line["level"], line["pid"], line["code"], line["in_s"]) == ("info", old, 0, 0)
        assert worker.stop() == 0


@pytest.mark.parametrize("flags", [(), ("--processes", "2")])
def test_each_process_is_replaced_after_so_many_jobs(
    beanpole: Server, client: Client[str], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    bodies = [str(number) for number in range(30)]
    client.put_many(bodies, tube="thread")
    with program(tmp_path, beanpole.port, "--max-jobs", "5", *flags) as worker:
        worker.wait_ledger("end", 30)
        worker.wait_event("worker process ended", 5)
        assert {(line["code"], line["in_s"]) for line in worker.events("worker process ended")} == {(0, 0)}
        assert worker.stop() == 0
        assert sorted(worker.ledger("end"), key=int) == bodies
    assert max(Counter(pid for _, pid in worker.lines("begin")).values()) == 5


def test_pauses_grow_when_a_process_can_not_start_any_more(beanpole: Server, tmp_path: Path) -> None:
    """A module that was saved half-way does not end the others."""
    with program(tmp_path, beanpole.port, "--processes", "2") as worker:
        worker.wait_event("worker started", 2)
        (tmp_path / "handlers.py").write_text("this is wrong")
        os.kill(max(pids(worker)), signal.SIGTERM)
        worker.wait_event("worker process ", 3)
        assert [line["in_s"] for line in worker.events("worker process ")][:3] == [0, 1, 2]
        (tmp_path / "handlers.py").write_text(MODULE)
        worker.wait_event("worker started", 3)
        assert worker.stop() == 0


@pytest.mark.parametrize(
    ("module", "code", "sentence"),
    [
        ("import a_module_that_is_not_there", 1, "handlers can't be imported, see above"),
        ("from beanpole import Worker\nworker = Worker()", 5, "the worker has no handler"),
        ("import os\nos.abort()", 134, ""),
    ],
)
def test_what_can_not_start_says_so_once(
    beanpole: Server, tmp_path: Path, module: str, code: int, sentence: str
) -> None:
    (tmp_path / "handlers.py").write_text(module)
    with program(tmp_path, beanpole.port, "--processes", "8") as worker:
        assert worker.popen.wait(START_TIMEOUT_S) == code
    assert worker.messages.count(sentence) == 1 or not sentence
    assert worker.messages.count("Traceback") == (code == 1)


def test_each_process_has_metrics_and_a_name_of_its_own(beanpole: Server, client: Client[str], tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(MODULE.replace("concurrency=4", "concurrency=1, name='mailer'"))
    with program(tmp_path, beanpole.port, "--processes", "2", "--metrics", "unix:metrics") as worker:
        wait_waiting(client, "loop", 2)
        wait_until((tmp_path / "metrics.2").is_socket, "the second one listens")
        assert (tmp_path / "metrics").is_socket()
        assert {each.name for each in client.list_sessions()} >= {"mailer 1", "mailer 2"}
        assert worker.stop() == 0
        assert not (tmp_path / "metrics.2").exists()


def test_ports_of_metrics_follow_each_other(beanpole: Server, tmp_path: Path) -> None:
    with program(tmp_path, beanpole.port, "--processes", "2", "--metrics", f"{HOST}:0") as worker:
        worker.wait_event("worker started", 2)
        addresses = [line["addresses"][0] for line in worker.events("metrics are served")]
        assert len(set(addresses)) == 2
        for each in addresses:
            with urlopen(each.replace("http:", "http://") + "/metrics") as answer:  # noqa: S310 - http, see above
                assert b"beanpole_worker_slots 4" in answer.read()
        assert worker.stop() == 0
