"""``beanpole worker --metrics``: what a scraper and a health check see of a worker that works."""

import contextlib
import http.client
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from beanpole import Client, __version__
from tests.e2e.process import serving, wait_until
from tests.e2e.worker.program import Program, program
from tests.servers import HOST, STOP_TIMEOUT_S, Server


def get(worker: Program, path: str) -> tuple[int, str]:
    """The status and text of an answer of the worker."""
    worker.wait_event("metrics are served")
    [address] = worker.events("metrics are served")[-1]["addresses"]
    host, _, port = address.removeprefix("http:").rpartition(":")
    with contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=STOP_TIMEOUT_S)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as answer:
            return answer.status, answer.read().decode()


def samples(worker: Program) -> dict[tuple[str, ...], float]:
    """What a scraper reads, by name and the values of labels."""
    status, text = get(worker, "/metrics")
    assert status == 200
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def ended(found: dict[tuple[str, ...], float], outcome: str) -> dict[str, float]:
    """How many attempts ended so, by tube."""
    name = "beanpole_worker_job_ends_total"
    return {key[1]: value for key, value in found.items() if key[0] == name and key[2] == outcome and value}


def test_the_numbers_are_those_of_all_handlers_wherever_they_run(beanpole: Server, tmp_path: Path) -> None:
    with Client((HOST, beanpole.port)) as client, program(tmp_path, beanpole.port, "--metrics", f"{HOST}:0") as worker:
        for tube in ("loop", "thread", "process", "process"):
            client.put("x", tube=tube)
        client.put("fail", tube="thread")
        client.put("sleep 100", tube="loop")

        def is_settled() -> bool:
            found = samples(worker)
            return sum(ended(found, "done").values()) == 5 and found["beanpole_worker_slots_in_use",] == 1

        wait_until(is_settled, "5 jobs done, and one that runs")
        found = samples(worker)
        assert ended(found, "done") == {"loop": 1, "thread": 2, "process": 2}
        assert ended(found, "retried") == {"thread": 1}
        assert found["beanpole_worker_job_seconds_count", "process", "done"] == 2
        assert found["beanpole_worker_job_seconds_bucket", "process", "done", "+Inf"] == 2
        assert found["beanpole_worker_job_attempts_bucket", "thread", "1"] == 2
        assert found["beanpole_worker_job_attempts_count", "thread"] == 3
        assert found["beanpole_worker_slots",] == 4
        assert found["beanpole_worker_slots_in_use",] == 1
        assert found["beanpole_worker_jobs_reserved_total",] == 7
        assert get(worker, "/health") == (200, "ok\n")


def test_a_worker_without_a_server_is_not_healthy(tmp_path: Path) -> None:
    with contextlib.ExitStack() as worked:
        with serving() as server:
            worker = worked.enter_context(program(tmp_path, server.port, "--metrics", f"{HOST}:0"))
            wait_until(lambda: get(worker, "/health") == (200, "ok\n"), "a connection")
        wait_until(lambda: get(worker, "/health") == (503, "no connection to the server\n"), "the loss")
        assert worker.stop() == 0


@pytest.mark.parametrize("address", ["nowhere.invalid:1", "127.0.0.1:x"])
def test_an_address_that_cannot_be_listened_on_is_refused(tmp_path: Path, address: str) -> None:
    with program(tmp_path, 1, "--metrics", address) as worker:
        assert worker.wait_exit() == 111
        assert "beanpole: " in worker.messages
        assert "Traceback" not in worker.messages


def test_a_worker_works_while_something_else_has_the_address_of_its_metrics(beanpole: Server, tmp_path: Path) -> None:
    with contextlib.ExitStack() as worked:
        with socket.create_server((HOST, 0)) as taken:
            address = f"{HOST}:{taken.getsockname()[1]}"
            worker = worked.enter_context(program(tmp_path, beanpole.port, "--metrics", address))
            worker.wait_event("metrics are not served")
            worked.enter_context(Client((HOST, beanpole.port))).put("x", tube="loop")
            worker.wait_ledger("end")
        assert get(worker, "/health") == (200, "ok\n")
        assert worker.stop() == 0


def test_sessions_show_which_worker_waits(beanpole: Server, tmp_path: Path) -> None:
    with Client((HOST, beanpole.port)) as client, program(tmp_path, beanpole.port) as worker:
        worker.wait_event("worker started")
        wait_until(lambda: sum(each.waiting is not None for each in client.list_sessions()) == 4, "4 slots wait")
        named = [each.name for each in client.list_sessions() if each.waiting is not None]
        about = f":{worker.popen.pid} worker loop,thread,process,blocking {__version__}"
        assert len(named) == 4
        assert all(each == socket.gethostname() + about for each in named)
