"""A server that starts again has other jobs with the same ids: nothing that was meant for those before touches them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beanpole.client import Client
from tests import forks
from tests.e2e.console.api import asked
from tests.e2e.console.process import TOKEN, Console, console, token_file
from tests.e2e.process import environment, wait_until
from tests.servers import STOP_TIMEOUT_S

JOBS = {"server": "one", "tube": "default", "state": "ready"}


@contextmanager
def server(path: Path) -> Iterator["Client[bytes]"]:
    """A server without a log, and a client of it; it is killed at the end."""
    command = [sys.executable, "-m", "beanpole", "serve", "-l", f"unix:{path}", "--ready-file", f"{path}.ready"]
    process = forks.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
    try:
        wait_until(Path(f"{path}.ready").exists, "the server serves")
        with Client(f"unix:{path}", None) as client:
            yield client
    finally:
        process.kill()
        process.wait(STOP_TIMEOUT_S)
        Path(f"{path}.ready").unlink(missing_ok=True)


@contextmanager
def served_at(path: Path) -> Iterator[Console]:
    with token_file() as flags, console("--url", f"one=unix:{path}", *flags) as served:
        yield served


def test_a_dry_run_ends_with_its_server(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with served_at(path) as served:
        with server(path) as client:
            client.put_many([b"old"] * 3)
            deletes = {"verb": "delete", **JOBS}
            dry = asked(served, "/actions", method="POST", body={**deletes, "dry_run": True}, token=TOKEN)["dry_run"]
            assert dry["count"] == 3
        with server(path) as client:
            client.put_many([b"new"] * 3)
            wait_until(lambda: served.get("/health").status == 200, "the console sees the new server")
            fields = {**deletes, "highest": dry["highest"], "mark": "x"}
            answer = served.post("/actions", fields, TOKEN)
            assert answer.status == 409
            assert "The server has started again since the dry run" in answer.text
            assert client.stats_tube("default").current_jobs_ready == 3


def test_an_undo_ends_with_its_server(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with served_at(path) as served:
        with server(path) as client:
            id = client.put(b"old")
            buries = {"verb": "bury", "server": "one", "ids": [id]}
            run = asked(served, "/actions", method="POST", body=buries, token=TOKEN)["run"]
            assert run["done"] == 1
        with server(path) as client:
            assert client.put(b"new") == id
            client.reserve_job(id)
            client.bury(id)
            wait_until(lambda: served.get("/health").status == 200, "the console sees the new server")
            answer = served.post(f"/actions/{run['id']}/undo", {}, TOKEN)
            assert answer.status == 409
            assert "other jobs may have these ids" in answer.text
            assert client.stats_job(id).state == "buried"
