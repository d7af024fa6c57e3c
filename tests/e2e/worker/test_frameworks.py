"""The Django and FastAPI applications of the examples, and that docs/frameworks.md shows them as they are."""

import contextlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from beanpole import Client
from tests.e2e.process import environment, wait_until
from tests.e2e.worker.program import Program
from tests.servers import HOST, START_TIMEOUT_S, Server

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parents[3]

COMMAND_TIMEOUT_S = 300.0
"""Seconds for a command that imports a whole framework, and may have a busy machine to do so."""


@contextmanager
def running(folder: Path, server: Server, *command: str) -> Iterator[Program]:
    """A Python module that runs in a folder, with the address of a server."""
    with (folder / "messages").open("ab") as output:
        popen = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=folder, stdout=output, stderr=output, env=variables(server)
        )
    try:
        yield Program(popen, folder)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()


def variables(server: Server) -> dict[str, str]:
    return environment({"BEANPOLE_URL": f"{HOST}:{server.port}", "PYTHONUNBUFFERED": "1"})


# --- Django -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of a copy of the Django application."""
    return shutil.copytree(ROOT / "examples" / "django", tmp_path / "django")


def manage(folder: Path, server: Server, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=folder,
        env=variables(server),
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


REQUEST = """
from django.test import Client
answer = Client().post("/orders", {"email": "ada@example.org"})
print(answer.status_code, answer.json())
"""

ROLLED_BACK = """
from django.db import transaction
from django.test import Client
with transaction.atomic():
    Client().post("/orders", {"email": "bob@example.org"})
    transaction.set_rollback(True)
"""


@pytest.mark.long
def test_django_puts_after_the_commit_and_a_worker_does_it(shop: Path, beanpole: Server) -> None:
    manage(shop, beanpole, "migrate", "--verbosity", "0")
    assert "No changes" in manage(shop, beanpole, "makemigrations", "--check", "--dry-run")
    assert manage(shop, beanpole, "shell", "--verbosity", "0", "--command", ROLLED_BACK) == ""
    with Client((HOST, beanpole.port)) as client:
        assert client.tubes() == ["default"], "nothing is put for an order that nobody has made"
        made = manage(shop, beanpole, "shell", "--verbosity", "0", "--command", REQUEST)
        assert made == "201 {'order': 1}\n"
        assert client.peek(1).body == '{"order_id":1}'
        client.put('{"order_id":1}', tube="receipts")
    with running(shop, beanpole, "beanpole", "worker", "shop.worker:worker", "--processes", "1", "-V") as worker:
        worker.wait_event("job done", 2)
        (child,) = Path(f"/proc/{worker.popen.pid}/task/{worker.popen.pid}/children").read_text().split()
        wait_until(lambda: not has_open(int(child), shop / "shop.sqlite3"), "the middleware closes connections")
        assert worker.stop() == 0
    assert worker.messages.count("To: ada@example.org") == 1, "the second job finds that it is done"
    with contextlib.closing(sqlite3.connect(shop / "shop.sqlite3")) as database:
        assert database.execute("SELECT email, receipt_sent FROM shop_order").fetchall() == [("ada@example.org", 1)]


def has_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open."""
    files = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            files.append(each.readlink())
    return path in files


# --- FastAPI ----------------------------------------------------------------------------------------------------------


def test_fastapi_puts_in_a_request_and_works_beside_it(tmp_path: Path, beanpole: Server) -> None:
    folder = shutil.copytree(ROOT / "examples" / "fastapi", tmp_path / "fastapi")
    transport = httpx.HTTPTransport(uds=str(folder / "socket"))
    with (
        running(folder, beanpole, "uvicorn", "app:app", "--uds", "socket") as app,
        httpx.Client(transport=transport, base_url="http://localhost", timeout=START_TIMEOUT_S) as client,
    ):
        wait_until(lambda: "running on" in app.messages, "it answers", COMMAND_TIMEOUT_S)
        wait_until(lambda: client.get("/health").json() == {"worker": "works"}, "the worker works")
        for number, target in ((1, "/pictures/cat.png?width=64"), (2, "/pictures/dog.png")):
            answer = client.post(target)
            assert (answer.status_code, answer.json()) == (202, {"job": number})
        wait_until(lambda: "cat.png is 64 wide\n" in app.messages and "dog.png is 200" in app.messages, "both are done")
        done = {"ready": 0, "reserved": 0, "all": 2}
        wait_until(lambda: client.get("/queue").json() == done, "they are deleted")
        client.post("/pictures/last.png")
        app.signal(signal.SIGTERM)
        assert app.wait_exit() in {0, -signal.SIGTERM}
        assert "Application shutdown complete" in app.messages
        assert "Traceback" not in app.messages
    with Client((HOST, beanpole.port)) as queue:
        wait_until(lambda: queue.stats().current_jobs_reserved == 0, "nothing is held")
        left = queue.stats().current_jobs_ready
    assert left + app.messages.count("last.png is") == 1


@pytest.mark.long
def test_the_worker_of_the_fastapi_application_runs_by_itself(tmp_path: Path, beanpole: Server) -> None:
    folder = shutil.copytree(ROOT / "examples" / "fastapi", tmp_path / "fastapi")
    with Client((HOST, beanpole.port)) as client:
        client.put('{"picture": "cat.png"}', tube="thumbnails")
    with running(folder, beanpole, "beanpole", "worker", "app:worker") as worker:
        wait_until(lambda: "cat.png is 200 wide\n" in worker.messages, "it is done", COMMAND_TIMEOUT_S)
        assert worker.stop() == 0


@pytest.mark.long
def test_the_tests_of_the_fastapi_application(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "examples" / "fastapi", tmp_path / "fastapi")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_TIMEOUT_S,
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


# --- The page ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_files_of_the_examples() -> None:
    page = (ROOT / "docs" / "frameworks.md").read_text()
    blocks = dict(re.findall(r"^```python\n# (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert set(blocks) == {"shop/tasks.py", "shop/views.py", "shop/worker.py", "app.py", "test_app.py"}
    for name, text in blocks.items():
        folder = "django" if name.startswith("shop/") else "fastapi"
        assert text == (ROOT / "examples" / folder / name).read_text().partition('"""\n\n')[2], name
