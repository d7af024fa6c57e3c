"""The shop of the examples, started as docs/frameworks.md says, while its processes are killed and a person clicks.

At the end orders, mails and jobs are joined: each order has one job, which has sent its mail, and nothing else has one.
"""

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import psycopg
import pytest

from beanpole import BeanpoleError, Client
from tests.databases import program
from tests.e2e.cli.conftest import run
from tests.e2e.process import environment, wait_until
from tests.seeds import seeds
from tests.servers import START_TIMEOUT_S, STOP_TIMEOUT_S, missing_peer

pytestmark = [pytest.mark.repository, pytest.mark.database, pytest.mark.xdist_group("shop")]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "shop"

SETTINGS = """
EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = BASE / "mails"
MIDDLEWARE += ["shop.killing.middleware"]
"""

KILLING = """
import os, signal, sys

def middleware(get_response):
    '''Ends the process before the so manieth line of the view, or as it returns.'''
    def answer(request):
        left = int(request.headers.get("Kill-At", 0))

        def trace(frame, event, argument):
            nonlocal left
            if frame.f_code.co_name != "add_order":
                return None
            if event in {"line", "return"}:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace if left else None)
        return get_response(request)
    return answer
"""

LEDGER = """
import json
from django.conf import settings

@worker.middleware
def note(task, call):
    if task.tube == "receipts":
        with (settings.BASE / "ledger").open("a") as ledger:
            ledger.write(f"{json.loads(task.body)['args'][0]} {task.id}\\n")
    call()
"""

MOMENTS = 7
"""When the view can end: before each of its lines, before the commit at the end of the block, and as it returns."""

WAITING = {"postgresql": "select 1 from beanpole.inbox", "sqlite": "select 1 from beanpole_outbox"}

WEB_DEATHS = 2
"""Of one test: each means a new start of Django."""

STATES = [f"current-jobs-{state}" for state in ("ready", "reserved", "delayed", "buried")]


class Shop:
    """A shop that runs, and its data."""

    def __init__(self, kind: str, folder: Path, output: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.output = output
        wait_until(lambda: "web is process" in self.said, "it runs", START_TIMEOUT_S)
        self.pages = self.find(r"shop: +http://(\S+)/")
        self.console = self.find(r"console: +(http://\S+)/")
        self.data = Path(self.find(r"logs: +(\S+)"))
        self.browser = httpx2.Client(base_url=f"http://{self.pages}", timeout=START_TIMEOUT_S)
        self.wait_pages()

    @property
    def said(self) -> str:
        return self.output.read_text()

    def find(self, pattern: str) -> str:
        return str(re.findall(pattern, self.said)[-1])

    def wait_pages(self) -> None:
        def answers() -> bool:
            with contextlib.suppress(httpx2.TransportError):
                return self.browser.get("/").status_code == httpx2.codes.OK
            return False

        wait_until(answers, "the shop answers", START_TIMEOUT_S)

    def order(self, kill_at: int = 0) -> None:
        """Orders something; if the process is to end in between, it does."""
        token = self.browser.cookies["csrftoken"]
        order = {"email": "ada@example.org", "csrfmiddlewaretoken": token}
        with contextlib.ExitStack() as stack:
            if kill_at:
                stack.enter_context(pytest.raises(httpx2.TransportError))
            answer = self.browser.post("/orders", data=order, headers={"Kill-At": str(kill_at)})
            assert answer.status_code == httpx2.codes.FOUND, answer.text
        self.wait_pages()

    def kill(self, name: str) -> None:
        started = self.said.count(f"{name} is process")
        os.kill(int(self.find(rf"{name} is process (\d+)")), signal.SIGKILL)
        wait_until(lambda: self.said.count(f"{name} is process") > started, f"{name} is started again")

    def queue(self) -> str:
        """The program that clients are served by: of a cluster, the node that leads."""
        if self.kind == "sqlite":
            return "server"
        found: list[str] = []

        def is_led() -> bool:
            done = run("cluster", "leader", f"postgresql://shop@/shop?host={self.data}", "--json")
            found.extend(f"node-{each['leader']}" for each in done.objects if done.code == 0)
            return bool(found)

        wait_until(is_led, "a node leads", START_TIMEOUT_S)
        return found[0]

    def query(self, statement: str) -> list[Any]:
        """What the database says."""
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self.data / "shop.sqlite3")) as database:
                return database.execute(statement).fetchall()
        with psycopg.connect(host=str(self.data), user="shop", dbname="shop") as connection:
            return connection.execute(statement).fetchall()

    def mails(self, pattern: str) -> list[str]:
        """What the subjects of mails say."""
        texts = [each.read_text() for each in (self.folder / "mails").glob("*.log")]
        return re.findall(rf"^Subject: {pattern}$", "\n".join(texts), re.MULTILINE)

    def client(self) -> Client[str]:
        """A client of a server that answers; it waits when that is started again."""
        client = Client(self.find(r"queue: +(\S+)"), patience=START_TIMEOUT_S)

        def answers() -> bool:
            with contextlib.suppress(BeanpoleError):
                return bool(client.stats())
            return False

        wait_until(answers, "the queue answers", START_TIMEOUT_S)
        return client


@pytest.fixture(scope="module", params=["postgresql", pytest.param("sqlite", marks=pytest.mark.long)])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    if request.param == "postgresql" and program("initdb") is None:
        missing_peer("initdb")
    folder = shutil.copytree(
        EXAMPLE, tmp_path_factory.mktemp("shop") / "shop", ignore=shutil.ignore_patterns("*.sqlite3")
    )
    for name, more in (("settings.py", SETTINGS), ("killing.py", KILLING), ("worker.py", LEDGER)):
        with (folder / "shop" / name).open("a") as file:
            file.write(more)
    flags = ["--sqlite"] if request.param == "sqlite" else []
    with (folder / "output").open("wb") as output:
        popen = subprocess.Popen(
            [sys.executable, "run.py", *flags], cwd=folder, stdout=output, stderr=output, env=environment()
        )
    try:
        shop = Shop(request.param, folder, folder / "output")
        yield shop
        shop.browser.close()
    finally:
        popen.terminate()
        popen.wait(STOP_TIMEOUT_S)


def test_staff_sees_the_job_of_an_order_and_gets_a_report(shop: Shop) -> None:
    with shop.client() as client:
        wait_until(client.all_schedules, "the schedule is set")
        client.fire_schedule("nightly-report")
        wait_until(lambda: shop.mails(r"\d+ orders on \S+"), "the report is mailed")
        client.pause_tube("receipts", 3600)
        shop.order()
        wait_until(lambda: client.stats_tube("receipts").current_jobs_ready == 1, "the job is there")
        shop.browser.get("/admin/login/")
        who = {"username": "shop", "password": "shop", "csrfmiddlewaretoken": shop.browser.cookies["csrftoken"]}
        shop.browser.post("/admin/login/", data=who)
        ((link, order),) = re.findall(r'href="(/orders/(\d+)/job)"', shop.browser.get("/admin/shop/order/").text)
        page = shop.browser.get(link, follow_redirects=True)
        assert str(page.url).startswith(f"{shop.console}/jobs/")
        assert "shop.tasks.send_receipt" in page.text
        client.pause_tube("receipts", 0)
    wait_until(lambda: shop.mails(r"Your order (\d+)") == [order], "the mail is sent")
    wait_until(lambda: "has no job" in shop.browser.get(link).text, "the job is deleted")


@pytest.mark.parametrize("seed", seeds(1, "SHOP_SEED"))
def test_each_order_has_one_job_and_its_mail(shop: Shop, seed: int) -> None:
    random = Random(seed)
    deaths = [("web", moment) for moment in random.sample(range(1, MOMENTS + 1), WEB_DEATHS)]
    deaths += [(name, 0) for name in ("worker", "queue")]
    random.shuffle(deaths)
    for name, moment in deaths:
        for _ in range(random.randint(1, 5)):
            shop.order()
        if name == "web":
            shop.order(moment)
        else:
            shop.kill(shop.queue() if name == "queue" else name)
    wait_until(lambda: not shop.query("select id from shop_order where not receipt_sent"), "all have mails")
    wait_until(lambda: not shop.query(WAITING[shop.kind]), "no row waits")
    with shop.client() as client:
        wait_until(lambda: not any(client.stats_tube("receipts")[each] for each in STATES), "no job waits")
    orders = {str(number) for (number,) in shop.query("select id from shop_order")}
    jobs: dict[str, set[str]] = defaultdict(set)
    for line in (shop.folder / "ledger").read_text().splitlines():
        order, job = line.split()
        jobs[order].add(job)
    assert set(shop.mails(r"Your order (\d+)")) == orders
    assert set(jobs) == orders
    assert {order: each for order, each in jobs.items() if len(each) != 1} == {}
