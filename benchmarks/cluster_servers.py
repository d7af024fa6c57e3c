"""What the benchmark of a cluster runs: PostgreSQL with its standbys, and nodes, in a folder that goes with them."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from benchmarks.bench.dial import SetupError
from benchmarks.bench.server import HOST, first_answer, free_port, stop
from tests.databases import program

T = TypeVar("T")

START_S = 120.0
"""How long anything may take until it is there."""

PORT = 5432
"""Names the socket in the folder; nothing listens on TCP."""


def wait_until(what: str, is_so: Callable[[], T], every_s: float = 0.002) -> T:
    """Wait until something is so, and return it."""
    give_up_at = time.monotonic() + START_S
    while time.monotonic() < give_up_at:
        with contextlib.suppress(OSError, psycopg.Error):
            if found := is_so():
                return found
        time.sleep(every_s)
    raise SetupError(f"{what}: not so after {START_S:.0f} s")


class Postgres:
    """A primary, its synchronous standby, and an asynchronous one, with syncs as in production."""

    def __init__(self, folder: Path, standby_count: int) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self.user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        names = [f"s{number}" for number in range(1, standby_count + 1)]
        words = ["--username=beanpole", "--auth=trust", "--locale=C", "--encoding=UTF8"]
        self.run("initdb", "--pgdata", str(folder / "primary"), *words)
        with (folder / "primary" / "postgresql.conf").open("a") as conf:
            conf.write("listen_addresses = ''\nmax_connections = 300\nshared_buffers = 128MB\nmax_wal_size = 4GB\n")
            conf.write(f"synchronous_standby_names = 'FIRST 1 ({names[0]})'\n" if names else "")
        self.start("primary")
        for name in names:
            self.copy(name)

    def run(self, name: str, *words: str) -> None:
        """Run one of PostgreSQL's programs to its end."""
        command = [program(name) or name, *words]
        with (self.folder / "messages").open("ab") as output:
            subprocess.run(command, cwd=self.folder, stdout=output, stderr=output, check=True, **self.user)

    def start(self, name: str) -> None:
        """Start a server; its socket is in a folder of its own."""
        sockets = self.folder / f"socket-{name}"
        sockets.mkdir(mode=0o755)
        if self.user:
            os.chown(sockets, self.user["user"], self.user["group"])
        command = [program("postgres") or "postgres", "-D", str(self.folder / name), "-k", str(sockets)]
        with (self.folder / "messages").open("ab") as output:
            process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=output, **self.user)
        self.processes.append(process)
        wait_until(f"PostgreSQL's {name} answers", lambda: self.connect("postgres", sockets).close() is None)

    def copy(self, name: str) -> None:
        """Make a standby, and wait until it follows."""
        primary = f"host={self.folder}/socket-primary user=beanpole application_name={name}"
        # A copy is committed with a checkpoint and waits for no standby.
        self.run("pg_basebackup", "-D", str(self.folder / name), "-R", "-c", "fast", "-X", "stream", "-d", primary)
        self.start(name)
        state = "select count(*) from pg_stat_replication where application_name = %s and state = 'streaming'"
        with self.connect("postgres") as connection:
            wait_until(f"{name} follows", lambda: connection.execute(state, [name]).fetchone()[0])  # type: ignore[index]

    def url(self, database: str, sockets: Path | None = None) -> str:
        """Return how a database is reached."""
        return f"postgresql://beanpole@/{database}?host={sockets or self.folder / 'socket-primary'}"

    def connect(self, database: str, sockets: Path | None = None) -> psycopg.Connection:
        """Connect to a database."""
        return psycopg.connect(self.url(database, sockets), autocommit=True)

    def make(self, database: str) -> str:
        """Make a database, and return how it is reached."""
        with self.connect("postgres") as connection:
            connection.execute(f"create database {database}".encode())
        return self.url(database)

    def stop(self) -> None:
        """End all servers."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGQUIT)
            process.wait()


@contextmanager
def postgres(standby_count: int, root: Path | None) -> Iterator[Postgres]:
    """Run PostgreSQL as long as a block runs."""
    folder = Path(tempfile.mkdtemp(prefix="beanpole-cluster-", dir=root))
    servers = Postgres.__new__(Postgres)
    servers.processes = []
    try:
        servers.__init__(folder, standby_count)  # type: ignore[misc]
        yield servers
    finally:
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Nodes:
    """The nodes of one cluster."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.log = log
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}

    def init(self, silence_ms: int | None = None) -> None:
        """Make the cluster."""
        words = [] if silence_ms is None else ["--silence-ms", str(silence_ms)]
        self.verb("init", *words)

    def verb(self, name: str, *words: str) -> str:
        """Run a verb of `beanpole cluster`, and return what it says."""
        command = [sys.executable, "-m", "beanpole", "cluster", name, self.url, *words]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_S)
        if answer.returncode:
            raise SetupError(f"beanpole cluster {name}: {answer.stderr.strip()}")
        return answer.stdout

    def start(self, name: str) -> None:
        """Start a node, on the port that it had before."""
        port = self.ports.setdefault(name, free_port())
        command = [sys.executable, "-m", "beanpole", "serve", "-l", f"{HOST}:{port}"]
        with self.log.open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*command, "--cluster", self.url, "--node", name], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_for_answer(self, name: str) -> None:
        """Wait until a node answers clients, itself or through the leader."""
        address = (HOST, self.ports[name])
        # Not too often: a node that passes clients on makes two connections of each try.
        wait_until(f"node {name} answers", lambda: first_answer(address, time.monotonic() + 5.0), 0.05)

    def address(self, name: str) -> tuple[str, int]:
        """Return where a node listens."""
        return HOST, self.ports[name]

    def leader(self) -> str:
        """Return who leads by the log's last EPOCH row."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(
                "select name from beanpole.node where role = 'leader' and seen > clock_timestamp() - interval '3 s'"
                " order by epoch desc limit 1"
            ).fetchone()
        return str(row[0]) if row else ""

    def wait_for_all(self) -> str:
        """Wait until one node leads and all others have applied what there is, but for what came just now."""
        behind = (
            "select max(name) filter (where role = 'leader'), count(*), bool_and(role = 'follower' or role = 'leader'),"
            " max(segment) = min(segment) and max(row) - min(row) < 30 from beanpole.node"
            " where seen > clock_timestamp() - interval '1.5 s'"
        )

        def found() -> str:
            with psycopg.connect(self.url, autocommit=True) as connection:
                row = connection.execute(behind.encode()).fetchone()
            assert row is not None
            return str(row[0]) if row[0] and row[1] == len(self.processes) and row[3] else ""

        return str(wait_until("all nodes follow the leader", found))

    def kill(self, name: str) -> None:
        """End a node as a crash does."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        """End all nodes, those that follow first."""
        while self.processes:
            _, process = self.processes.popitem()
            process.send_signal(signal.SIGCONT)
            stop(process)
