"""Real databases for tests: PostgreSQL and MariaDB servers of our own, in a folder that goes with them.

A server listens on a socket in its folder, and nowhere else. It may be killed, frozen and started again at any time;
its address stays. Each test gets a database of its own. They refuse to run as root, so root runs them as `nobody`.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.servers import START_TIMEOUT_S, missing_peer

PROGRAMS = {"postgresql": ("initdb", "postgres"), "mariadb": ("mariadb-install-db", "mariadbd")}
"""What makes a folder, and what serves it."""


def program(name: str) -> str | None:
    """The path of a program; Debian has those of databases where a user's PATH does not lead."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", *map(str, folders)]))


def is_there(name: str = "postgresql") -> bool:
    return all(map(program, PROGRAMS[name]))


def as_whom() -> dict[str, Any]:
    """What a process is started with to be no process of root's."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class DatabaseServer:
    """A server process of PostgreSQL."""

    name = "postgresql"
    own = "postgres"
    """The database that each server has."""

    drop = "DROP DATABASE {} WITH (FORCE)"
    end = signal.SIGQUIT
    """How it is stopped: killed by us, PostgreSQL would leave shared memory behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self.database_count = 0
        self._as_whom = as_whom()
        if self._as_whom:
            os.chown(folder, self._as_whom["user"], self._as_whom["group"])
        self._make, self._serve = (program(each) or missing_peer(each) for each in PROGRAMS[self.name])
        self.install()

    def install(self) -> None:
        """Makes the folder of the data."""
        command = [self._make, *self.make_flags()]
        with (self.folder / "messages").open("ab") as output:
            subprocess.run(command, cwd=self.folder, stdout=output, stderr=output, check=True, **self._as_whom)

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://beanpole@/{database}?host={self.folder}"

    def make_flags(self) -> list[str]:
        flags = ["--pgdata", str(self.data), "--username=beanpole", "--auth=trust", "--no-sync", "--locale=C"]
        return [*flags, "--encoding=UTF8"]

    def serve_flags(self) -> list[str]:
        flags = ["-D", str(self.data), "-k", str(self.folder)]
        return [*flags, "-c", "listen_addresses=", "-c", "shared_buffers=16MB"]

    def start(self) -> None:
        assert self.process is None
        command = [self._serve, *self.serve_flags()]
        give_up_at = time.monotonic() + START_TIMEOUT_S
        with (self.folder / "messages").open("ab") as output:
            while True:
                popen = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=output, **self._as_whom)
                while popen.poll() is None and time.monotonic() < give_up_at:
                    if self._answers():
                        self.process = popen
                        return
                    time.sleep(0.01)
                # Processes of a server that was killed may hold its memory for a moment; then the next one ends.
                popen.kill()
                popen.wait()
                said = (self.folder / "messages").read_text(errors="replace")[-2000:]
                assert time.monotonic() < give_up_at, f"{self.name} does not start:\n{said}"

    def _answers(self) -> bool:
        try:
            self._administer("SELECT 1")
        except sa.exc.OperationalError:
            return False
        return True

    def _administer(self, statement: str) -> None:
        engine = sa.create_engine(self.url(self.own), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """The address of a new database, which goes when the test is over: each makes a start after a crash slower."""
        self.database_count += 1
        name = f"test{self.database_count}"
        self._administer(f"CREATE DATABASE {name}")
        yield self.url(name)
        if self.process is None:
            self.start()
        self._administer(self.drop.format(name))

    def signal(self, number: int) -> None:
        assert self.process is not None
        assert self.process.poll() is None, "the server ended by itself"
        first = self.process.pid
        os.kill(first, signal.SIGSTOP)  # so that it starts no process that nobody knows of
        while Path(f"/proc/{first}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
            time.sleep(0.001)
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for pid in (*map(int, children), first):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Ends the server as a crash does."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()
        self.process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stops the processes: connections stay, and nothing answers."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends the server at once; what it has kept goes with it."""
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.process.send_signal(self.end)
            self.process.wait()
            self.process = None


class MariaServer(DatabaseServer):
    """A server process of MariaDB."""

    name = "mariadb"
    own = "mysql"
    drop = "DROP DATABASE {}"
    end = signal.SIGKILL

    def make_flags(self) -> list[str]:
        flags = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal"]
        return [*flags, f"--tmpdir={self.folder}"]  # a start removes the temporary tables of others in one folder

    def serve_flags(self) -> list[str]:
        flags = ["--no-defaults", "--skip-networking", "--skip-log-bin", f"--datadir={self.data}"]
        flags += [f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid", f"--tmpdir={self.folder}"]
        return [*flags, "--innodb-buffer-pool-size=16M"]

    def url(self, database: str) -> str:
        return f"mariadb+pymysql://root@localhost/{database}?unix_socket={self.folder}/socket"

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:  # PyMySQL does not close a socket that can't be connected
            return not probe.connect_ex(f"{self.folder}/socket") and super()._answers()


@contextmanager
def database_server(kind: type[DatabaseServer] = DatabaseServer) -> Iterator[DatabaseServer]:
    """A running server."""
    folder = Path(tempfile.mkdtemp(prefix="beanpole-"))
    try:
        server = kind(folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Database:
    """A database of a test's own."""

    url: str
    server: DatabaseServer

    @contextmanager
    def connected(self, isolation_level: str | None = None) -> Iterator[sa.Connection]:
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            if isolation_level:
                connection.execution_options(isolation_level=isolation_level)
            yield connection

    def run(self, *statements: str) -> None:
        with self.connected() as connection:
            for each in statements:
                connection.exec_driver_sql(each)
            connection.commit()

    def run_alone(self, statement: str) -> None:
        with self.connected("AUTOCOMMIT") as connection:
            connection.exec_driver_sql(statement)


class DatabaseServers:
    """Starts a server when a test needs it first, and ends it."""

    def __init__(self) -> None:
        self._running: dict[type[DatabaseServer], DatabaseServer] = {}
        self._ends = ExitStack()

    @contextmanager
    def database(self, kind: type[DatabaseServer] = DatabaseServer) -> Iterator[Database]:
        """A new database."""
        if kind not in self._running:
            self._running[kind] = self._ends.enter_context(database_server(kind))
        server = self._running[kind]
        with server.new_database() as url:
            yield Database(url, server)

    def stop(self) -> None:
        self._ends.close()
