"""Workers over a restart of their server: who comes back goes on with its jobs, and nobody does them twice."""

import os
import signal
from pathlib import Path

import pytest

from beanpole import Client
from tests.e2e.process import serving, wait_until
from tests.e2e.worker.program import MODULE, program
from tests.servers import HOST, kept_port

TUBES = ("loop", "thread", "process")

HELD = (
    MODULE
    + '''

def hold(task):
    """Waits until somebody opens the other end."""
    begin(task)
    os.close(os.open("go", os.O_RDONLY))
    note("end", task)


@worker.handler("held-loop")
async def hold_on_loop(task):
    await asyncio.to_thread(hold, task)


@worker.handler("held-thread")
def hold_in_thread(task):
    hold(task)


@worker.handler("held-process", process=True)
def hold_in_process(task):
    hold(task)
'''
)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("is_away", [False, True])
def test_jobs_under_way_are_done_once_over_a_restart(tmp_path: Path, end: signal.Signals, *, is_away: bool) -> None:
    """Some handlers end while the server is away, or all when the worker has come back."""
    (tmp_path / "handlers.py").write_text(HELD)
    os.mkfifo(tmp_path / "go")
    with kept_port() as port:
        flags = ("-b", str(tmp_path / "data"), "-l", HOST, "-p", str(port))
        with serving(*flags, listen=False) as server, Client((HOST, port)) as client:
            for tube in TUBES:
                client.put(tube, tube=f"held-{tube}")
            with program(tmp_path, port, "--verbose") as worker, program(tmp_path, port, "--verbose") as other:
                worker.wait_ledger("begin", 3)
                client.put("later", tube="loop")
                worker.wait_event("job done")
                server.signal(end)
                server.wait_exit()
                if is_away:
                    go(tmp_path)
                    worker.wait_ledger("end", 4)
                with serving(*flags, listen=False):
                    if not is_away:
                        wait_until(lambda: client.stats()["sessions-resumed"] == 3, "all have come back")
                        assert client.stats().current_jobs_ready == 0
                        go(tmp_path)
                    wait_until(lambda: client.stats().cmd_delete == 3, "all is done")
                    assert [each.stop() for each in (worker, other)] == [0, 0]
                assert sorted(worker.ledger("begin")) == sorted(["later", *TUBES])
                assert sorted(worker.ledger("end")) == sorted(["later", *TUBES])
                assert not worker.events("job lost")


def go(folder: Path) -> None:
    """Lets all handlers go on that wait."""
    os.close(os.open(folder / "go", os.O_WRONLY))


def test_a_worker_that_stops_or_dies_leaves_no_job_waiting(tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HELD)
    os.mkfifo(tmp_path / "go")
    with serving() as server, Client((HOST, server.port)) as client:
        id = client.put("x", tube="held-thread")
        with program(tmp_path, server.port, "--grace", "0.1") as worker:
            worker.wait_ledger("begin")
            assert worker.stop() == 0
        assert client.stats_job(id).state == "ready"
        with program(tmp_path, server.port) as worker:
            worker.wait_ledger("begin", 2)
            worker.signal(signal.SIGKILL)
            worker.wait_exit()
            wait_until(lambda: client.stats_job(id).state == "ready", "it is ready")
        assert client.stats()["sessions-lost"] == 0
