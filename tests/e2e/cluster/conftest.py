"""A cluster in a database of its own: nodes are real processes, and verbs run in this one."""

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.databases import Database, DatabaseServers
from tests.e2e.cli.conftest import Done, run
from tests.e2e.process import Process, serving, wait_until

SILENCE_MS = 1000


@dataclass(frozen=True)
class Cluster:
    """A database, and what is done with it."""

    database: Database
    url: str

    def __call__(self, verb: str, *arguments: object, code: int = 0) -> Done:
        """Runs a verb of `beanpole cluster`; it must end with `code`."""
        done = run("cluster", verb, self.url, *arguments)
        assert done.code == code, f"{verb} ended with {done.code}, said {done.out!r}, {done.err!r}"
        return done

    def init(self, silence_ms: int = SILENCE_MS, *flags: str) -> None:
        """Makes the cluster, on one machine."""
        self("init", "--cluster-durability", "local", "--silence-ms", silence_ms, *flags)

    def node(self, name: str, *flags: str) -> AbstractContextManager[Process]:
        return serving("--cluster", self.url, "--node", name, *flags)

    def leader(self) -> str:
        """The node that leads; empty if none does."""
        done = run("cluster", "leader", self.url, "--json")
        return str(done.objects[0]["leader"]) if done.code == 0 else ""

    def wait_leader(self, *names: str) -> None:
        wait_until(lambda: self.leader() in names, f"one of {names} leads")

    def wait_alive(self, *names: str) -> None:
        """Waits until all of some nodes have said that they lead, or could."""

        def alive() -> set[object]:
            return {each["node"] for each in self.nodes() if each["role"] in {"leader", "follower"}}

        wait_until(lambda: set(names) <= alive(), f"{names} are alive")

    def status(self) -> dict[str, Any]:
        """What `status` says when the node that leads is alive: a busy machine may let it be late to say that."""
        found: list[Done] = []

        def is_led() -> bool:
            found.append(run("cluster", "status", self.url, "--json"))
            return found[-1].code == 0

        wait_until(is_led, "a node leads")
        return found[-1].objects[0]

    def nodes(self) -> list[dict[str, Any]]:
        """What the nodes say of themselves: up to a second ago."""
        nodes: list[dict[str, Any]] = run("cluster", "status", self.url, "--json").objects[0]["nodes"]
        return nodes

    def set_silence(self, silence_ms: int, *names: str) -> None:
        """Sets the silence limit for nodes that start, and for these, which connect again."""
        self.database.run(f"update beanpole.setting set value = '{silence_ms}' where name = 'silence_ms'")  # noqa: S608
        for name in names:
            self.disconnect(name)

    def disconnect(self, name: str) -> None:
        """Ends the connections of a node to PostgreSQL."""
        self.database.run(
            f"select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'beanpole {name}'"  # noqa: S608
        )

    def count(self, table: str, condition: str) -> int:
        with self.database.connected() as connection:
            found = connection.exec_driver_sql(f"select count(*) from beanpole.{table} where {condition}").scalar()  # noqa: S608
            return int(found or 0)


def daemon(name: str) -> str:
    """The path of a program that Debian keeps where not every user looks; skips the test where it is not installed."""
    path = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.fixture
def cluster(database_servers: DatabaseServers) -> Iterator[Cluster]:
    """A database without a cluster in it."""
    with database_servers.database() as database:
        yield Cluster(database, database.url.replace("postgresql+psycopg:", "postgresql:"))
