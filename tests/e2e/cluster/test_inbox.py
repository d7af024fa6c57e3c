"""Jobs that an application puts in its own transaction."""

import ast
import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import beanpole
from beanpole.log.postgres.pgstore import PostgresStore, opener
from beanpole.log.postgres.rows import Place, RowKind, row_behind
from beanpole.log.postgres.store import Taken
from tests.e2e.cli.conftest import run
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import Process, wait_until

ROOT = Path(__file__).resolve().parents[3]

ROLE = """
drop role if exists shop; create role shop login;
grant usage on schema beanpole to shop; grant execute on function beanpole.put to shop
"""


WRONG = (
    ("null, 'x'", "tube and body must not be null"),
    ("'-mail', 'x'", "a tube is named by 1 to 200"),
    ("'a b', 'x'", "a tube is named by 1 to 200"),
    ("repeat('t', 201), 'x'", "a tube is named by 1 to 200"),
    ("'mail', decode(repeat('00', 65536), 'hex')", "the body has 65536 bytes, and may have 65535"),
    ("'mail', 'x', pri => -1", "pri must be 0 to 4294967295"),
    ("'mail', 'x', ttr => 4294967296", "ttr must be 0 to 4294967295 seconds"),
    ("'mail', 'x', delay => 'nan'", "delay must be 0 to 4294967295 seconds"),
    ("'mail', 'x', delay => 1, at => now()", "only one of delay and at can be given"),
    ("'mail', 'x', at => 'infinity'", "at must be a time within 4294967295 seconds from now"),
    ("'mail', 'x', key => ''", "a key has 1 to 200 bytes"),
    ("'mail', 'x', key => E'a\\nb'", "a key has 1 to 200 bytes"),
    ("'mail', 'x', key => repeat('ü', 101)", "a key has 1 to 200 bytes"),
    ("'mail', 'x', \"group\" => 'a b'", "a group has 1 to 200 bytes"),
    ("'mail', 'x', expire => -1", "expire must be 0 to 4294967295 seconds"),
)


@pytest.fixture
def inbox(cluster: Cluster) -> Cluster:
    """A cluster that has one."""
    cluster.init(1000, "--inbox")
    return cluster


@pytest.fixture
def node(inbox: Cluster) -> Iterator[Process]:
    with inbox.node("a") as process:
        inbox.wait_leader("a")
        yield process


def connect(cluster: Cluster) -> psycopg.Connection:
    return psycopg.connect(cluster.url)


def test_job_is_there_when_its_transaction_has_committed(inbox: Cluster, node: Process) -> None:
    with node.connect() as worker, connect(inbox) as application:
        worker.ask(b"watch mail\r\n", b"WATCHING 2\r\n")
        application.execute("select beanpole.put('mail', 'never')")
        application.rollback()
        application.execute("select beanpole.put('mail', 'hello', pri => 7, ttr => 90, key => 'order-1')")
        application.execute("select beanpole.put('mail', 'again', key => 'order-1')")
        application.execute("select beanpole.put('mail', 'later', delay => 1000, \"group\" => 'tenant')")
        application.execute("select beanpole.put('mail', 'past', at => now() - interval '1 day', pri => 8)")
        worker.send(b"reserve\r\n")
        application.commit()
        assert worker.line() == b"RESERVED 1 5\r\n"
        assert worker.line() == b"hello\r\n"
        worker.ask(b"reserve\r\n", b"RESERVED 3 4\r\npast\r\n")
        assert [worker.statistic(name, b"stats-job 1\r\n") for name in ("pri", "ttr")] == [7, 90]
        assert 900 < worker.statistic("time-left", b"stats-job 2\r\n") <= 1000
        wait_until(lambda: inbox.status()["inbox"]["rows"] == 0, "the inbox is empty")


def test_limits_do_not_hold_for_what_is_committed(inbox: Cluster, node: Process) -> None:
    with node.connect() as client, connect(inbox) as application:
        client.ask(b"set-rules mail 12\r\njobs-max: 1\n\r\n", b"RULES_SET\r\n")
        client.ask(b"use mail\r\n", b"USING mail\r\n")
        for _ in range(3):
            application.execute("select beanpole.put('mail', 'x')")
        application.commit()
        wait_until(lambda: client.statistic("current-jobs-ready") == 3, "all are there")
        client.ask(b"put 0 0 60 1\r\nx\r\n", b"OUT_OF_MEMORY\r\n")


def test_who_may_only_run_the_function_sees_nothing_else(inbox: Cluster, node: Process) -> None:
    with connect(inbox) as owner:
        owner.execute(ROLE)
        owner.commit()
    with connect(inbox) as shop, node.connect() as worker:
        shop.execute("set role shop")
        shop.execute("create temporary table setting (name text, value text)")
        shop.execute("select beanpole.put('default', 'x')")
        shop.commit()
        worker.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
        for forbidden in (
            "select * from beanpole.inbox",
            "select * from beanpole.setting",
            "delete from beanpole.inbox",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                shop.execute(forbidden)
            shop.rollback()
            shop.execute("set role shop")


def test_nobody_may_put_who_was_not_allowed_to(inbox: Cluster) -> None:
    with connect(inbox) as owner:
        owner.execute("drop role if exists stranger; create role stranger; grant usage on schema beanpole to stranger")
        owner.execute("set role stranger")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            owner.execute("select beanpole.put('default', 'x')")


def test_wrong_argument_fails_the_statement_with_one_sentence(inbox: Cluster) -> None:
    with connect(inbox) as application:
        for arguments, said in WRONG:
            with pytest.raises(psycopg.errors.InvalidParameterValue) as raised:
                application.execute(f"select beanpole.put({arguments})")
            assert str(raised.value.diag.message_primary).startswith(f"beanpole.put: {said}")
            application.rollback()


def test_inbox_that_nobody_empties_takes_only_so_much(inbox: Cluster) -> None:
    inbox("init", "--inbox", "--inbox-bytes", 50_000)
    with connect(inbox) as application:
        application.execute("select beanpole.put('mail', decode(repeat('61', 60000), 'hex'))")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            application.execute("select beanpole.put('mail', 'x')")


def test_inbox_is_made_again_beside_a_put_that_is_not_committed(inbox: Cluster) -> None:
    with connect(inbox) as application:
        # If init waited for this transaction, the test would fail, and not hang.
        application.execute("set idle_in_transaction_session_timeout = '10s'")
        application.execute("select beanpole.put('mail', 'x')")
        inbox("init", "--inbox")
    assert inbox.count("inbox", "true") == 1


def rests(cluster: Cluster, node: Process, why: str) -> None:
    """Waits until the leader, its log and `status` say that nothing is taken, and why."""
    wait_until(lambda: node.events("nothing is taken out of the inbox"), "its log says so")
    assert any(why in each for each in cluster.status()["warnings"])
    with node.connect() as client:
        client.send(b"stats\r\n")
        assert b"\ninbox-rests: true\n" in client.body()


def test_inbox_that_is_gone_rests_and_the_log_goes_on(inbox: Cluster, node: Process) -> None:
    with connect(inbox) as owner, node.connect() as client:
        owner.execute("select beanpole.put('default', 'x')")
        owner.execute("alter table beanpole.inbox rename to away")
        owner.commit()
        rests(inbox, node, "the table beanpole.inbox is gone")
        client.ask(b"put 0 0 60 3\r\nlog\r\n", b"INSERTED 1\r\n")
        owner.execute("alter table beanpole.away rename to inbox")
        owner.commit()
        wait_until(lambda: client.statistic("current-jobs-ready") == 2, "it is taken")


SWALLOW = """
create function pg_temp.swallow() returns trigger language plpgsql as 'begin return null; end';
create trigger swallow before delete on beanpole.inbox for each row execute function pg_temp.swallow()
"""


@pytest.mark.parametrize(
    ("harm", "mend"),
    [
        (SWALLOW, "drop trigger swallow on beanpole.inbox"),
        (
            "create rule swallow as on delete to beanpole.inbox do instead nothing",
            "drop rule swallow on beanpole.inbox",
        ),
    ],
    ids=["trigger", "rule"],
)
def test_inbox_that_nothing_can_be_deleted_from_rests(inbox: Cluster, node: Process, harm: str, mend: str) -> None:
    with connect(inbox) as owner, node.connect() as client:
        owner.execute(harm)
        owner.commit()
        rests(inbox, node, "a trigger, a rule")
        owner.execute("select beanpole.put('default', 'x')")
        owner.commit()
        client.ask(b"put 0 0 60 3\r\nlog\r\n", b"INSERTED 1\r\n")
        owner.execute(mend)
        owner.commit()
        wait_until(lambda: client.statistic("current-jobs-ready") == 2, "it is taken by the same leader")


@pytest.mark.parametrize("lock", ["delete from beanpole.inbox", "lock table beanpole.inbox in share mode"])
def test_log_goes_on_while_somebody_holds_a_lock_on_what_would_be_taken(
    inbox: Cluster, node: Process, lock: str
) -> None:
    with connect(inbox) as application, connect(inbox) as owner, node.connect() as client:
        with node.frozen():
            application.execute("select beanpole.put('default', 'x')")
            application.commit()
            owner.execute(lock)
        client.ask(b"put 0 0 60 3\r\nlog\r\n", b"INSERTED 1\r\n")
        owner.rollback()
        wait_until(lambda: client.statistic("current-jobs-ready") == 2, "it is taken")


def test_append_does_not_wait_for_who_locks_what_was_read(inbox: Cluster) -> None:
    async def append() -> list[bool]:
        store: PostgresStore = await opener(inbox.url, "a")()
        (tip,) = await store.rows_at([Place(1, 0)])
        assert tip is not None
        row = row_behind(tip, epoch=1, kind=RowKind.RECORDS, writer=bytes(16), confirmed=tip.place, data=b"")
        taken = [each.taken for each in await store.read_inbox(0, 9, 9)]
        owner.execute("select from beanpole.inbox for update")
        appended = [await store.append(row, tip, taken)]
        owner.rollback()
        appended.append(await store.append(row, tip, taken))
        await store.close()
        return appended

    with connect(inbox) as application, connect(inbox) as owner:
        application.execute("select beanpole.put('default', 'x')")
        application.commit()
        assert asyncio.run(append()) == [False, True]
    assert inbox.count("inbox", "true") == 0


def test_append_looks_up_what_it_takes_also_where_the_inbox_seems_small(inbox: Cluster) -> None:
    async def append(taken: list[Taken]) -> bool:
        store: PostgresStore = await opener(inbox.url, "a")()
        (tip,) = await store.rows_at([Place(1, 0)])
        assert tip is not None
        row = row_behind(tip, epoch=1, kind=RowKind.RECORDS, writer=bytes(16), confirmed=tip.place, data=b"")
        try:
            return await store.append(row, tip, taken)
        finally:
            await store.close()

    def scans() -> tuple[int, int]:
        found = owner.execute("select seq_scan, idx_scan from pg_stat_all_tables where relname = 'inbox'").fetchone()
        assert found
        return int(found[0]), int(found[1])

    insert = "insert into beanpole.inbox (tube, options, body) select 'mail', '', 'x' from generate_series(1, 500)"
    with psycopg.connect(inbox.url, autocommit=True) as owner:
        before = scans()
        taken = [Taken(*each) for each in owner.execute(f"{insert} returning number, nonce::text")]
        assert asyncio.run(append(taken))
        wait_until(lambda: scans() != before, "the server counts")
        assert scans()[0] == before[0]


def test_export_is_refused_while_something_waits(inbox: Cluster) -> None:
    with connect(inbox) as application:
        application.execute("select beanpole.put('mail', 'x')")
        application.execute("update beanpole.inbox set put_at = put_at - interval '11 s'")
    assert "jobs wait in the inbox" in inbox("export", "somewhere", code=1).err
    (status,) = run("cluster", "status", inbox.url, "--json").objects
    assert any("in the inbox: no node leads" in each for each in status["warnings"])


@pytest.mark.repository
def test_lines_of_the_page_take_the_inbox_away(inbox: Cluster) -> None:
    (lines,) = re.findall(r"`(drop function beanpole.put;.*?)`", (ROOT / "docs" / "inbox.md").read_text(), re.DOTALL)
    with connect(inbox) as owner:
        owner.execute(lines)
    (status,) = run("cluster", "status", inbox.url, "--json").objects
    assert status["inbox"] is None
    assert not [each for each in status["warnings"] if "inbox" in each]


def test_each_order_has_its_job_once_over_the_end_of_leaders(inbox: Cluster) -> None:
    orders = 0
    with inbox.node("a") as first, inbox.node("b") as second, connect(inbox) as application:
        inbox.wait_alive("a", "b")
        for node in (first, second):
            for _ in range(300):
                application.execute("select beanpole.put('default', convert_to(%s, 'UTF8'))", [str(orders)])
                application.commit()
                orders += 1
            if node is first:
                leader = {"a": first, "b": second}[inbox.leader()]
                leader.signal(signal.SIGKILL)
        survivor = second if leader is first else first
        inbox.wait_leader("a" if survivor is first else "b")
        with survivor.connect() as worker:
            bodies = []
            for _ in range(orders):
                worker.send(b"reserve\r\n")
                assert worker.line().startswith(b"RESERVED")
                bodies.append(int(worker.line()))
            worker.ask(b"reserve-with-timeout 0\r\n", b"TIMED_OUT\r\n")
    assert sorted(bodies) == [*range(orders)]


class Base(orm.MappedAsDataclass, orm.DeclarativeBase):
    """The tables of an application."""


class Picture(Base):
    """One of them."""

    __tablename__ = "picture"
    name: orm.Mapped[str] = orm.mapped_column(primary_key=True)


def run_lines(page: str, **names: object) -> Any:  # noqa: ANN401 - what the block is
    """Runs the block of Python of a page that calls the function. Returns a coroutine if it awaits."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [each for each in blocks if "beanpole.put(" in each]
    return eval(compile(block, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307 - ours


@pytest.mark.repository
def test_lines_of_the_pages_put(inbox: Cluster) -> None:
    @beanpole.Worker().function("thumbnails")
    def shrink(picture: str, width: int) -> None: ...

    async def request() -> None:
        engine = create_async_engine(inbox.database.url)
        async with AsyncSession(engine) as session:
            picture = Picture("cat.png")
            await run_lines("frameworks.md", session=session, text=sa.text, picture=picture, shrink=shrink)
        await engine.dispose()

    body = b'{"a": "\\"'
    engine = sa.create_engine(inbox.database.url, poolclass=sa.NullPool)
    Base.metadata.create_all(engine)
    with connect(inbox) as connection, orm.Session(engine) as session, session.begin():
        run_lines("inbox.md", connection=connection, session=session, text=sa.text, body=body, key="order-1")
    asyncio.run(request())
    with connect(inbox) as connection:
        assert connection.execute("select name from picture").fetchall() == [("cat.png",)]
        rows = connection.execute("select tube, body from beanpole.inbox order by tube").fetchall()
    assert rows == [("mail", body), ("mail", body), ("thumbnails", shrink.encode("cat.png", width=200))]


DJANGO = """
import sys
from django.conf import settings
url = dict(part.split("=", 1) for part in sys.argv[1].split())
database = {"ENGINE": "django.db.backends.postgresql", "NAME": url["dbname"], "HOST": url["host"],
    "PORT": url.get("port", ""), "USER": url["user"], "PASSWORD": url.get("password", "")}
settings.configure(
    DATABASES={"default": database, "shop": {**database, "USER": "shop"}},
    TASKS={name: {"BACKEND": "beanpole.django.BeanpoleBackend", "OPTIONS": {"inbox": True, "database": name}}
        for name in ("default", "shop")},
)
import django
django.setup()
from datetime import timedelta
from django.core.checks import run_checks
from django.db import transaction
from django.utils import timezone
from beanpole.django.interface import tasks

@tasks.task(priority=100)
def order(number):
    pass

def check():
    print(*[each.id for each in run_checks(databases=["default", "shop"])])

with transaction.atomic():
    order.enqueue(1)
    transaction.set_rollback(True)
with transaction.atomic():
    order.enqueue(2)
order.using(run_after=timezone.now() + timedelta(seconds=1000)).enqueue(3)
check()
with transaction.atomic():
    transaction.get_connection().cursor().execute("drop function beanpole.put")
    check()
"""


def test_django_puts_in_its_transaction(inbox: Cluster, node: Process, tmp_path: Path) -> None:
    with psycopg.connect(inbox.url, autocommit=True) as connection:
        connection.execute("drop role if exists shop; create role shop login")
        given = connection.info.get_parameters()
    script = tmp_path / "tasks.py"
    script.write_text(DJANGO)
    done = subprocess.run(
        [sys.executable, script, " ".join(f"{name}={value}" for name, value in given.items() if value)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stderr, done.stdout) == ("", "beanpole.E006\nbeanpole.E005 beanpole.E006\n")
    with node.connect() as worker:
        worker.ask(b"reserve\r\n", b"RESERVED 1 ")
        assert worker.line().strip().isdigit()
        assert b'"args":[2]' in worker.line()
        assert worker.statistic("pri", b"stats-job 1\r\n") == 39936
        wait_until(lambda: inbox.status()["inbox"]["rows"] == 0, "the inbox is empty")
        assert 900 < worker.statistic("time-left", b"stats-job 2\r\n") <= 1000
