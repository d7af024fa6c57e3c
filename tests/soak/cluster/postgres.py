"""A PostgreSQL primary with a synchronous standby, in a folder that goes with them, and what happens to such a pair.

They listen on sockets in folders of their own, whose paths stay when the roles change. What a manager like Patroni does
in synchronous strict mode is done here by hand: only the named standby is promoted, and what it then confirms must wait
for a standby of its own.
"""

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.databases import DatabaseServer, program
from tests.servers import missing_peer

WAIT_S = 60.0
NAMES = ("one", "two")
NODES = "nodes"
"""The role of the nodes, which owns its database, and nothing else."""

SETTINGS = """
max_wal_senders = 10
wal_keep_size = 256MB
wal_retrieve_retry_interval = 100ms
max_connections = 50
shared_buffers = 16MB
log_min_messages = warning
"""


class Postgres(DatabaseServer):
    """One of the two servers."""

    def __init__(self, folder: Path, application: str, disk: Path | None = None) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.application = application
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        if disk is not None:
            subprocess.run(["cp", "-a", self.data, disk / "data"], check=True, **self._as_whom)
            shutil.rmtree(self.data)
            self.data.symlink_to(disk / "data")

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each by itself; return the rows of the last."""
        with psycopg.connect(host=str(self.folder), user="beanpole", dbname=database, autocommit=True) as connection:
            for each in statements:
                cursor = connection.execute(each.encode())
            return cursor.fetchall() if cursor.description else []

    def set_names(self, names: str) -> None:
        self.run(f"alter system set synchronous_standby_names = '{names}'", "select pg_reload_conf()")

    def copy_to(self, folder: Path) -> None:
        copy = program("pg_basebackup") or missing_peer("pg_basebackup")
        command = [copy, "-h", str(self.folder), "-U", "beanpole", "-D", str(folder), "-c", "fast", "--no-sync"]
        with (self.folder / "messages").open("ab") as output:
            subprocess.run(command, stdout=output, stderr=output, cwd=self.folder, check=True, **self._as_whom)

    def follow(self, primary: "Postgres") -> None:
        """Become the standby of a primary, with a copy of all that it has."""
        shutil.rmtree(self.data)
        primary.copy_to(self.data)
        source = f"host={primary.folder} user=beanpole application_name={self.application}"
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{source}'\nsynchronous_standby_names = ''\n")
        (self.data / "standby.signal").touch()
        if os.geteuid() == 0:
            shutil.chown(self.data / "standby.signal", "nobody", "nogroup")
        self.start()


class Pair:
    """A primary and its standby."""

    def __init__(self, folder: Path, disk: Path | None = None) -> None:
        folder.chmod(0o755)
        self.copy = folder / "copies" / "data"
        self.copy.parent.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.copy.parent, "nobody", "nogroup")
        self.primary = Postgres(folder / NAMES[0], NAMES[0], disk)
        self.standby = Postgres(folder / NAMES[1], NAMES[1])
        self.primary.start()
        self.primary.run(f"create role {NODES} login in role pg_monitor", f"create database log owner {NODES}")
        self.join()

    @property
    def url(self) -> str:
        """What the nodes are given: they find out which of the two takes writes."""
        folders = sorted(str(each.folder) for each in (self.primary, self.standby))
        return f"postgresql://{NODES}@/log?host={','.join(folders)}"

    @property
    def logs(self) -> list[Path]:
        return [each.folder / "messages" for each in (self.primary, self.standby)]

    def empty(self) -> None:
        """Make room for a new cluster."""
        self.primary.run("drop schema if exists beanpole cascade", database="log")

    def lose_primary(self) -> None:
        """Kill the primary and promote its standby, for which a standby is made."""
        self.fail_over()
        self.join()

    def repair(self) -> None:
        """Do nothing: the new standby was what was lost."""

    def join(self) -> None:
        """Let the standby begin again with a copy of the primary; from then on commits wait for it."""
        self.standby.follow(self.primary)
        self.primary.set_names(self.standby.application)
        query = "select count(*) from pg_stat_replication where sync_state = 'sync' and state = 'streaming'"
        give_up_at = time.monotonic() + WAIT_S
        while self.primary.run(query) != [(1,)]:
            assert time.monotonic() < give_up_at, "the standby does not stream"
            time.sleep(0.02)

    def fail_over(self) -> None:
        """Kill the primary, and promote its standby; nothing is confirmed before :meth:`join`."""
        self.primary.kill()
        self.promote()

    def promote(self) -> None:
        """Promote the standby: what it confirms must wait for a standby of its own."""
        self.standby.set_names(self.primary.application)
        self.standby.run("select pg_promote(true, 60)")
        self.primary, self.standby = self.standby, self.primary

    def tables(self) -> list[str]:
        """Return the log's tables, the oldest first."""
        rows = self.primary.run("select number from beanpole.segment order by number", database="log")
        return [f"beanpole.log_{number}" for (number,) in rows]

    def back_up(self) -> None:
        """Make a copy of the primary's files, as of this moment."""
        shutil.rmtree(self.copy, ignore_errors=True)
        self.primary.copy_to(self.copy)

    def restore(self) -> None:
        """Set the primary back to its copy, and let the standby follow it."""
        self.standby.kill()
        self.primary.kill()
        shutil.rmtree(self.primary.data)
        subprocess.run(["cp", "-a", self.copy, self.primary.data], check=True)
        self.primary.start()
        self.join()

    def waiting(self) -> list[int]:
        return [pid for (pid,) in self.primary.run("select pid from pg_stat_activity where wait_event = 'SyncRep'")]

    def stop(self) -> None:
        for each in (self.standby, self.primary):
            with contextlib.suppress(ProcessLookupError, AssertionError):
                each.stop()
