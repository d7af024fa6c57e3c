"""A cluster whose connection string names several servers, of which one was replaced and still takes writes."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.databases import Database, DatabaseServer, as_whom, database_server
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import wait_until

pytestmark = pytest.mark.long


def query(url: str, text: str) -> object:
    """The value that a server answers with."""
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return connection.exec_driver_sql(text).scalar()


@contextmanager
def promoted_copy(server: DatabaseServer) -> Iterator[DatabaseServer]:
    """A standby of a server that was ended, promoted."""
    folder = Path(tempfile.mkdtemp(prefix="beanpole-"))
    try:
        copy = DatabaseServer(folder)
        shutil.rmtree(copy.data)
        shutil.copytree(server.data, copy.data, ignore=shutil.ignore_patterns("postmaster.*"))
        (copy.data / "standby.signal").touch()
        if user := as_whom():
            for path in (copy.data, *copy.data.rglob("*")):
                os.chown(path, user["user"], user["group"])
        try:
            copy.start()
            assert query(copy.url("postgres"), "select pg_promote()")
            yield copy
        finally:
            copy.stop()
    finally:
        shutil.rmtree(folder)


@pytest.mark.database
def test_verbs_ask_the_server_that_was_promoted_last() -> None:
    """The other one's manager stands still, so it takes writes, and is in a history that nobody goes on with."""
    with ExitStack() as stack:
        old = stack.enter_context(database_server())
        url = stack.enter_context(old.new_database())
        cluster = Cluster(Database(url, old), url.replace("postgresql+psycopg:", "postgresql:"))
        cluster.init()
        old.kill()
        new = stack.enter_context(promoted_copy(old))
        old.start()
        name = url.split("?")[0].rpartition("/")[2]
        wait_until(lambda: query(new.url(name), "select not pg_is_in_recovery()"), "the copy is promoted")
        for first, second in ((old, new), (new, old)):
            both = f"postgresql://beanpole@/{name}?host={first.folder},{second.folder}"
            assert Cluster(cluster.database, both)("status", "--json", code=2).objects[0]["timeline"] == 2
        new.kill()
        assert Cluster(cluster.database, both)("status", "--json", code=2).objects[0]["timeline"] == 1
