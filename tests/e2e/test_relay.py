"""`beanpole relay` as a process, with real databases and a real server, any of which may be killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

import beanpole
from tests import forks
from tests.databases import Database, DatabaseServers, MariaServer
from tests.e2e.cli.conftest import run
from tests.e2e.process import Process, environment, log_lines, serving, wait_until
from tests.servers import HOST, STOP_TIMEOUT_S

KINDS = {"postgresql": None, "mariadb": MariaServer}
ROWS = 300


class Relay:
    """A relay that runs."""

    def __init__(self, url: str, port: int, path: Path) -> None:
        self.path = path
        command = [sys.executable, "-W", "error", "-m", "beanpole", "relay", "run", "--to", f"{HOST}:{port}"]
        with path.open("wb") as output:
            self.popen = forks.Popen(command, env=environment({"BEANPOLE_OUTBOX_URL": url}), stderr=output)

    def has(self, event: str) -> bool:
        return any(each["event"] == event for each in log_lines(self.path.read_text()))

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(STOP_TIMEOUT_S)


@pytest.fixture(params=list(KINDS))
def database(request: pytest.FixtureRequest, database_servers: DatabaseServers) -> Iterator[Database]:
    kind = KINDS[request.param]
    with database_servers.database(kind) if kind else database_servers.database() as found:
        done = run("relay", "init", found.url)
        assert (done.code, done.lines[0][:30]) == (0, "Table beanpole_outbox is made.")
        yield found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    with serving("-b", str(tmp_path / "log")) as process:
        yield process


@pytest.fixture
def start(database: Database, server: Process, tmp_path: Path) -> Iterator[Callable[[], Relay]]:
    """Starts a relay from the database to the server; what still runs at the end is killed."""
    with ExitStack() as stack:

        def begin() -> Relay:
            relay = Relay(database.url, server.port, tmp_path / f"relay{len(list(tmp_path.iterdir()))}")
            stack.enter_context(relay.popen)
            stack.callback(relay.popen.kill)
            return relay

        yield begin


def insert(database: Database, numbers: range, tube: str = "mail") -> None:
    rows = ", ".join(f"('{tube}', '{each}')" for each in numbers)
    database.run(f"insert into beanpole_outbox (tube, body) values {rows}")  # noqa: S608 - ours


def waiting(database: Database) -> int:
    with database.connected() as connection:
        return int(connection.exec_driver_sql("select count(*) from beanpole_outbox").scalar_one())


@contextmanager
def worker(server: Process) -> Iterator[beanpole.Client[str]]:
    with beanpole.Client((HOST, server.port), watch="mail") as client:
        yield client


def take_all(client: beanpole.Client[str], count: int) -> list[int]:
    """Does jobs until there have been so many, and none is left."""
    found: list[int] = []
    while len(found) < count or client.stats_tube("mail").current_jobs_ready:
        jobs = client.reserve_many(100, 60)
        found += [int(each.body) for each in jobs]
        client.delete_many(jobs)
    return found


def test_row_becomes_a_job_when_its_transaction_commits(
    database: Database, server: Process, start: Callable[[], Relay]
) -> None:
    relay = start()
    with worker(server) as client, database.connected() as application:
        insert_one = "insert into beanpole_outbox (tube, body, pri, delay) values ('mail', '{}', 7, {})"
        application.exec_driver_sql(insert_one.format("1", 0))
        application.rollback()
        application.exec_driver_sql(insert_one.format("2", 0))
        application.exec_driver_sql(insert_one.format("3", 1000))
        application.commit()
        job = client.reserve(60)
        assert (job.body, client.stats_job(job).pri) == ("2", 7)
        wait_until(lambda: waiting(database) == 0, "the table is empty")
        (late,) = client.list_jobs("mail", "delayed", bodies=10).jobs
        assert 900 < (late.delay or 0) <= 1000
    assert relay.stop() == 0
    assert relay.has("relay stopped")


def test_each_row_is_one_job_whichever_relay_is_killed(
    database: Database, server: Process, start: Callable[[], Relay]
) -> None:
    with worker(server) as client:
        start()
        doomed = [start() for _ in range(3)]
        found: list[int] = []
        for turn, relay in enumerate(doomed):
            insert(database, range(turn * ROWS, (turn + 1) * ROWS))
            found += take_all(client, 1)
            relay.stop(signal.SIGKILL)
        found += take_all(client, ROWS * len(doomed) - len(found))
        wait_until(lambda: waiting(database) == 0, "the table is empty")
        assert sorted(found) == list(range(ROWS * len(doomed)))
        assert not client.stats_tube("mail").total_jobs - len(found)


def test_database_that_is_killed_is_waited_for(database: Database, server: Process, start: Callable[[], Relay]) -> None:
    relay = start()
    with worker(server) as client:
        insert(database, range(1))
        assert take_all(client, 1) == [0]
        database.server.kill()
        wait_until(lambda: relay.has("the database is away"), "it has noticed")
        database.server.start()
        insert(database, range(1, 2))
        assert take_all(client, 1) == [1]
    wait_until(lambda: relay.has("it goes on"), "it says so")


def test_application_may_insert_while_a_relay_holds_its_rows(
    database: Database, server: Process, start: Callable[[], Relay]
) -> None:
    """In MariaDB, too, which would lock the end of the table."""
    start()
    with worker(server) as client:
        insert(database, range(1))
        assert take_all(client, 1) == [0]
        with server.frozen():
            insert(database, range(1, 2))
            for each in range(2, 50):
                insert(database, range(each, each + 1))
        assert sorted(take_all(client, 49)) == list(range(1, 50))


DJANGO = """
import json, sys
import pymysql
pymysql.version_info = (2, 2, 7)  # of the driver that Django wants, which has to be compiled
pymysql.install_as_MySQLdb()
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["beanpole.django"],
    DATABASES={"default": json.loads(sys.argv[1])},
    TASKS={"default": {
        "BACKEND": "beanpole.django.BeanpoleBackend", "QUEUES": ["mail"], "OPTIONS": {"outbox": True},
    }},
)
import django
django.setup()
from django.core.management import call_command
from django.db import transaction
from beanpole.django.interface import tasks

@tasks.task(queue_name="mail")
def order(number):
    pass

call_command("migrate", verbosity=0)
for number in (1, 2):
    with transaction.atomic():
        order.enqueue(number)
        transaction.set_rollback(number == 1)
"""


@pytest.mark.long
def test_django_makes_the_table_and_fills_it(
    database: Database, server: Process, start: Callable[[], Relay], tmp_path: Path
) -> None:
    database.run("drop table beanpole_outbox")
    url = make_url(database.url)
    place = {"HOST": url.query.get("host", ""), "OPTIONS": {k: v for k, v in url.query.items() if k == "unix_socket"}}
    engine = {"postgresql": "postgresql", "mariadb": "mysql"}[url.get_backend_name()]
    settings = {"ENGINE": f"django.db.backends.{engine}", "NAME": url.database, "USER": url.username, **place}
    script = tmp_path / "tasks.py"
    script.write_text(DJANGO)
    subprocess.run([sys.executable, script, json.dumps(settings)], check=True)
    start()
    with worker(server) as client:
        assert json.loads(client.reserve(60).body)["args"] == [2]
    wait_until(lambda: waiting(database) == 0, "the table is empty")


def test_rows_that_somebody_holds_stay_and_the_others_go_on(
    database: Database, server: Process, start: Callable[[], Relay]
) -> None:
    with worker(server) as client, database.connected("READ COMMITTED") as application:
        insert(database, range(50))
        application.exec_driver_sql("update beanpole_outbox set pri = 7 where number in (11, 21)")
        start()
        assert sorted(take_all(client, 48)) == [each for each in range(50) if each not in {10, 20}]
        wait_until(lambda: waiting(database) == 2, "the others are deleted")
        application.commit()
        assert sorted(take_all(client, 2)) == [10, 20]


def test_what_is_missing_is_one_sentence(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    file.write_bytes(b"")
    place = database.url.replace("/test", "/none")
    for url, more, code, said in (
        (database.url, ("--table", "else; where"), 5, "a table is called NAME or SCHEMA.NAME"),
        (database.url, ("--table", "elsewhere"), 2, "there is no table elsewhere; make it: beanpole relay init"),
        (f"sqlite:///{file}", (), 2, "there is no table beanpole_outbox"),
        (f"sqlite:///{tmp_path}/none.db", (), 2, "there is no file"),
        (place, (), 2, "none"),
        ("postgresql+psycopg2://shop/x", (), 2, "the driver of the database is missing"),
        (f"postgresql:///x?host={tmp_path}", (), 4, "the database can't be reached"),
        ("mariadb://127.0.0.1:1/x?none=1", (), 5, "the driver does not take this URL"),
        ("postgresql://127.0.0.1:1/x", (), 4, "the database can't be reached"),
        ("mariadb://127.0.0.1:1/x", (), 4, "the database can't be reached"),
        ("oracle://shop/x", (), 5, "the URL of a database is postgresql://USER@HOST/DATABASE, mariadb"),
        ("shop", (), 5, "the URL of a database is postgresql://USER@HOST/DATABASE, mariadb"),
    ):
        done = run("relay", "status", url, *more)
        assert (done.code, done.out) == (code, b""), (url, done.err)
        assert said in done.err
        assert done.err.count("\n") == 1
    done = run("relay", "init", f"sqlite:///{tmp_path}/none/shop.db")
    assert (done.code, done.err) == (2, f"beanpole: there is no folder {tmp_path}/none\n")
