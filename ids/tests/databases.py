"""Real databases for tests: MariaDB and PostgreSQL servers of our own, in a folder that goes with them.

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

from tests.processes import START_TIMEOUT_S, missing_peer

NAMES = ("sqlite", "mariadb", "postgresql")  # what the ID service keeps its numbers in
PROGRAMS = {"mariadb": ("mariadb-install-db", "mariadbd"), "postgresql": ("initdb", "postgres")}
"""What makes a folder, and what serves it."""


def program(name: str) -> str | None:
    """The path of a program; Debian has those of databases where a user's PATH does not lead."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", *map(str, folders)]))


def is_there(name: str) -> bool:
    return all(program(each) for each in PROGRAMS.get(name, ()))


def as_whom() -> dict[str, Any]:
    """What a process is started with to be no process of root's."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class DatabaseServer:
    """A server process of MariaDB or PostgreSQL."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.data = folder / "data"
        self.process: subprocess.Popen[bytes] | None = None
        self.database_count = 0
        self._as_whom = as_whom()
        if self._as_whom:
            os.chown(folder, self._as_whom["user"], self._as_whom["group"])
        self.tmpdir = f"--tmpdir={folder}"
        """A MariaDB that starts, even only to make its data, removes the temporary tables of others in one folder."""

        self.flags = ["--no-defaults", "--skip-networking", "--skip-log-bin"]
        """How MariaDB is started; the first flag says which configuration it reads."""

        self._make, self._serve = (program(each) or missing_peer(each) for each in PROGRAMS[name])
        self.install()

    def install(self) -> None:
        if self.name == "mariadb":
            flags = ["--no-defaults", f"--datadir={self.data}", "--auth-root-authentication-method=normal", self.tmpdir]
        else:
            flags = ["--pgdata", str(self.data), "--username=beanpole", "--auth=trust", "--no-sync", "--locale=C"]
            flags.append("--encoding=UTF8")
        command = [self._make, *flags]
        with (self.folder / "messages").open("ab") as output:
            subprocess.run(command, cwd=self.folder, stdout=output, stderr=output, check=True, **self._as_whom)

    def url(self, database: str) -> str:
        if self.name == "mariadb":
            return f"mysql+pymysql://root@localhost/{database}?unix_socket={self.folder}/socket"
        return f"postgresql+psycopg://beanpole@/{database}?host={self.folder}"

    def start(self) -> None:
        """Starts the server; it answers when this returns."""
        assert self.process is None
        flags = [*self.flags, f"--datadir={self.data}", f"--socket={self.folder}/socket"]
        flags += ["--innodb-buffer-pool-size=16M", f"--pid-file={self.folder}/pid", self.tmpdir]
        if self.name == "postgresql":
            flags = [
                "-D",
                str(self.data),
                "-k",
                str(self.folder),
                "-c",
                "listen_addresses=",
                "-c",
                "shared_buffers=16MB",
            ]
        give_up_at = time.monotonic() + START_TIMEOUT_S
        with (self.folder / "messages").open("ab") as output:
            while True:
                command = [self._serve, *flags]
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
        with socket.socket(socket.AF_UNIX) as probe:  # PyMySQL does not close a socket that can't be connected
            if probe.connect_ex(str(self.folder / ("socket" if self.name == "mariadb" else ".s.PGSQL.5432"))):
                return False
        try:
            self._administer("SELECT 1")
        except sa.exc.OperationalError:
            return False
        return True

    def _administer(self, statement: str) -> None:
        url = self.url("mysql" if self.name == "mariadb" else "postgres")
        engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
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
        self._administer(f"DROP DATABASE {name}" + (" WITH (FORCE)" if self.name == "postgresql" else ""))

    def signal(self, number: int) -> None:
        """Sends a signal to all processes of the server; PostgreSQL has one for each connection."""
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
            # Killed by us, PostgreSQL would leave shared memory behind.
            self.signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT if self.name == "postgresql" else signal.SIGKILL)
            self.process.wait()
            self.process = None


@contextmanager
def database_server(name: str) -> Iterator[DatabaseServer]:
    folder = Path(tempfile.mkdtemp(prefix="beanpole-"))
    try:
        server = DatabaseServer(name, folder)
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

    name: str
    url: str
    server: DatabaseServer | None  # none: SQLite, which has no server

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

    def settings(self, *names: str) -> list[tuple[str, str]]:
        with self.connected() as connection:
            return [(name, str(connection.exec_driver_sql(f"SELECT @@GLOBAL.{name}").scalar())) for name in names]

    def run_alone(self, statement: str) -> None:
        with self.connected("AUTOCOMMIT") as connection:
            connection.exec_driver_sql(statement)


class DatabaseServers:
    """Starts servers when a test needs them first, and ends them all."""

    def __init__(self) -> None:
        self._running: dict[str, DatabaseServer] = {}
        self._ends = ExitStack()

    @contextmanager
    def database(self, name: str, folder: Path) -> Iterator[Database]:
        """A new database; `folder` is for a file of SQLite."""
        if name == "sqlite":
            yield Database(name, f"sqlite:///{folder / 'ids.db'}", None)
            return
        if name not in self._running:
            self._running[name] = self._ends.enter_context(database_server(name))
        server = self._running[name]
        with server.new_database() as url:
            yield Database(name, url, server)

    def stop(self) -> None:
        self._ends.close()
