"""The Django and FastAPI applications of the examples, and that docs/frameworks.md shows them as they are."""

import contextlib
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest

from beanpole import Client
from beanpole.testing import FakeServer
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


def variables(server: Server | FakeServer) -> dict[str, str]:
    url = server.url if isinstance(server, FakeServer) else f"{HOST}:{server.port}"
    return environment({"BEANPOLE_URL": url, "PYTHONUNBUFFERED": "1"})


TASKS = "django.tasks" if find_spec("django.tasks") else "django_tasks"

# --- Django -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of a copy of the Django application."""
    return shutil.copytree(ROOT / "examples" / "shop", tmp_path / "shop", ignore=shutil.ignore_patterns("*.sqlite3"))


def without_outbox(folder: Path) -> None:
    """Lets the client put, when a transaction has committed."""
    with (folder / "shop" / "settings.py").open("a") as settings:
        settings.write('TASKS["default"]["OPTIONS"] = {}\n')


def manage(folder: Path, server: Server | FakeServer, *arguments: str) -> str:
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
print(answer.status_code)
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
    without_outbox(shop)
    manage(shop, beanpole, "migrate", "--verbosity", "0")
    assert "No changes" in manage(shop, beanpole, "makemigrations", "--check", "--dry-run")
    assert manage(shop, beanpole, "shell", "--verbosity", "0", "--command", ROLLED_BACK) == ""
    with Client((HOST, beanpole.port)) as client:
        assert client.tubes() == ["default"], "nothing is put for an order that nobody has made"
        made = manage(shop, beanpole, "shell", "--verbosity", "0", "--command", REQUEST)
        assert made == "302\n"
        body = client.peek(1).body
        said = json.loads(body)
        assert (said["task"], said["args"], said["kwargs"]) == ("shop.tasks.send_receipt", [1], {})
        client.put(body, tube="receipts")
    with running(shop, beanpole, "manage", "beanpole_worker", "--queue", "receipts", "--verbosity", "2") as worker:
        wait_until(lambda: worker.messages.count("job done") == 2, "both are done", COMMAND_TIMEOUT_S)
        wait_until(lambda: not has_open(worker.popen.pid, shop / "shop.sqlite3"), "connections are closed")
        assert worker.stop() == 0
    assert worker.messages.count("To: ada@example.org") == 1, "the second job finds that it is done"
    with contextlib.closing(sqlite3.connect(shop / "shop.sqlite3")) as database:
        assert database.execute("SELECT email, receipt_sent FROM shop_order").fetchall() == [("ada@example.org", 1)]
    with FakeServer(old=True) as old:
        manage(shop, old, "shell", "--verbosity", "0", "--command", REQUEST)
        assert len(old.jobs("receipts")) == 1, "a server without tokens takes it as well"


@pytest.mark.long
def test_django_puts_by_its_outbox(shop: Path, beanpole: Server) -> None:
    manage(shop, beanpole, "migrate", "--verbosity", "0")
    manage(shop, beanpole, "check", "--database", "default", "--fail-level", "WARNING")
    manage(shop, beanpole, "shell", "--verbosity", "0", "--command", ROLLED_BACK + REQUEST)
    file = shop / "shop.sqlite3"
    with (
        running(shop, beanpole, "beanpole", "relay", "run", f"sqlite:///{file}"),
        running(shop, beanpole, "manage", "beanpole_worker") as worker,
        Client((HOST, beanpole.port)) as client,
        contextlib.closing(sqlite3.connect(file)) as database,
    ):
        count = "SELECT count(*) FROM beanpole_outbox"
        wait_until(lambda: "Thank you!" in worker.messages, "it is done", COMMAND_TIMEOUT_S)
        wait_until(lambda: database.execute(count).fetchone() == (0,), "the outbox is empty")
        assert client.stats().total_jobs == 1
        assert worker.stop() == 0
    assert worker.messages.count("To: ada@example.org") == 1
    assert "bob@example.org" not in worker.messages


PROBES = f"""
import os, signal
from beanpole import Dead
from {TASKS} import task

@task(takes_context=True)
def twice(context, word, *, end):
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    print("twice", word, end, context.attempt, context.task_result.id, flush=True)

@task
async def coroutine(number):
    print("coroutine", number, flush=True)

@task
def never():
    raise Dead("never")

def plain():
    print("must not be called", flush=True)
"""

ENQUEUE = f"""
import asyncio
from datetime import timedelta
from django.utils import timezone
from beanpole.django.interface import InvalidTask
from {TASKS}.signals import task_enqueued
from shop.probes import *
seen = []
task_enqueued.connect(lambda task_result, **_: seen.append(task_result.id), weak=False)
made = [
    twice.enqueue("a", end=["b", None]),
    coroutine.using(priority=100).enqueue(1),
    asyncio.run(coroutine.using(priority=-100).aenqueue(2)),
    coroutine.using(run_after=timezone.now() + timedelta(seconds=1000)).enqueue(3),
    coroutine.using(run_after=timezone.now() - timedelta(seconds=1000)).enqueue(4),
    never.enqueue(),
]
assert seen == [each.id for each in made]
try:
    coroutine.using(run_after=timezone.now() + timedelta(days=50_000))
except InvalidTask as error:
    assert "run_after must be within 4294967295 seconds" in str(error)
    try:
        coroutine.enqueue(object())
    except TypeError:
        print(made[0].id)
"""


@pytest.mark.long
def test_a_task_of_django_keeps_what_its_job_can_say(shop: Path, beanpole: Server) -> None:
    without_outbox(shop)
    (shop / "shop" / "probes.py").write_text(PROBES)
    id = manage(shop, beanpole, "shell", "--verbosity", "0", "--command", ENQUEUE).strip()
    with Client((HOST, beanpole.port)) as client:
        assert client.stats()["once-tokens"] == 6, "a put whose reply is lost is done once"
        assert [client.stats_job(number).pri for number in range(1, 7)] == [65536, 39936, 91136, 65536, 65536, 65536]
        assert 900 < client.stats_job(4).delay <= 1000
        plain = json.dumps({**json.loads(client.peek(2).body), "task": "shop.probes.plain"})
        client.put("no JSON")
        client.put(plain, delay=1000)
        with running(shop, beanpole, "manage", "beanpole_worker", "--concurrency", "1") as worker:
            assert worker.wait_exit() == -signal.SIGKILL
        with running(shop, beanpole, "manage", "beanpole_worker") as worker:
            wait_until(lambda: client.stats_tube("default").current_jobs_buried == 2, "two are dead")
            wait_until(lambda: client.stats().current_jobs_ready + client.stats().current_jobs_reserved == 0, "done")
            client.kick_job(8)
            wait_until(lambda: "shop.probes.plain is no task" in worker.messages, "it fails")
            assert worker.stop() == 0
        assert worker.messages.count(f"twice a ['b', None] 2 {id}") == 1
        assert [f"coroutine {number}" in worker.messages for number in (2, 3, 4)] == [True, False, True]
        assert "must not be called" not in worker.messages


WRONG = """
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command

def add(name, **options):
    settings.TASKS[name] = {"BACKEND": "beanpole.django.BeanpoleBackend", "OPTIONS": options}

settings.TASKS["default"].update(QUEUES=["a b"], OPTIONS={"inboxes": 1, "database": "other"})
add("url", url="http://x", inbox=True)
add("none", outbox=True, database=None)
add("both", inbox=True, outbox=True)
add("outbox", outbox=True)
call_command("migrate", verbosity=0)
call_command("migrate", "beanpole", "zero", verbosity=0)
apps.set_installed_apps([each for each in settings.INSTALLED_APPS if each != "beanpole.django"])
print(*sorted(each.id + " " + each.msg for each in run_checks(databases=["default"])), sep="\\n")
"""


@pytest.mark.long
def test_django_checks_the_settings(shop: Path, beanpole: Server) -> None:
    (shop / "wrong.py").write_text(WRONG)
    (shop / "shop" / "tasks.py").write_text("")
    (shop / "shop" / "urls.py").write_text("urlpatterns = []")
    said = manage(shop, beanpole, "shell", "--verbosity", "0", "--command", "import wrong").splitlines()
    assert [line.split(":")[0] for line in said] == [
        "beanpole.E001 TASKS['default']",
        "beanpole.E002 TASKS['default']",
        "beanpole.E002 TASKS['url']",
        "beanpole.E003 TASKS['default']",
        "beanpole.E004 TASKS['both']",
        "beanpole.E004 TASKS['none']",
        "beanpole.E004 TASKS['url']",
        "beanpole.E007 TASKS['none']",
        "beanpole.E007 TASKS['outbox']",
        "beanpole.E008 TASKS['both']",
        "beanpole.W009 the database 'default' has no table beanpole_outbox",
    ]


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
    transport = httpx2.HTTPTransport(uds=str(folder / "socket"))
    with (
        running(folder, beanpole, "uvicorn", "app:app", "--uds", "socket") as app,
        httpx2.Client(transport=transport, base_url="http://localhost", timeout=START_TIMEOUT_S) as client,
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
    assert set(blocks) == {
        *(f"shop/{each}.py" for each in ("tasks", "views", "worker")),
        "app.py",
        "test_app.py",
    }
    for name, text in blocks.items():
        folder = "shop" if name.startswith("shop/") else "fastapi"
        assert text == (ROOT / "examples" / folder / name).read_text().partition('"""\n\n')[2], name
