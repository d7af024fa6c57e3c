"""Two MariaDB servers behind HAProxy, with the files and the commands of docs/ha.md.

One server is the primary, the other its semi-synchronous replica. Either may be killed, promoted, and come back.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import sqlalchemy as sa

from tests.databases import DatabaseServer, as_whom, program
from tests.processes import HOST, START_TIMEOUT_S, kept_port, missing_peer, stop_process, wait_until

PAGE = (Path(__file__).parents[2] / "docs/ha.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


INI, SETTINGS, SQL = blocks("ini")[0], blocks("toml")[0], blocks("sql")
IS_WRITABLE, PROMOTE, COPY, LOAD = blocks("sh")
START = "systemctl start mariadb\n"
HAPROXY = next(each for each in blocks("text") if "haproxy.cfg" in each)


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """A text of the page with other addresses; each must be there."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


class Replicated(DatabaseServer):
    """A server with the page's configuration, and an address of its own."""

    def __init__(self, folder: Path, number: int, port: int) -> None:
        self.number = number
        self.port = port
        super().__init__("mariadb", folder)

    def start(self) -> None:
        self.flags = [f"--defaults-file={self.folder}/cnf", f"--port={self.port}"]
        text = replaced(INI, ("server_id = 1", f"server_id = {self.number}"), ("0.0.0.0", HOST))  # noqa: S104 - replaced
        (self.folder / "cnf").write_text(text)
        client, backup = f"[client]\nuser = root\nsocket = {self.folder}/socket\n", f"[mysqld]\ndatadir = {self.data}\n"
        (self.folder / ".my.cnf").write_text(client + backup)
        super().start()

    def run(self, *statements: str) -> list[dict[str, object]]:
        """Executes statements as an administrator; returns the rows of the last one."""
        engine = sa.create_engine(self.url("mysql"), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        rows: list[dict[str, object]] = []
        with engine.connect() as connection:
            for each in statements:
                result = connection.exec_driver_sql(each.replace("%", "%%"))
                rows = [dict(row) for row in result.mappings()] if result.returns_rows else []
        return rows

    def follow(self, primary: "Replicated") -> None:
        """Replicates another server, as the page says."""
        text = replaced(SQL[1], ("10.0.0.1", HOST), ("3306", str(primary.port)))
        self.run(*statements(text))

    def has_replica(self) -> bool:
        return self.run("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")[0]["Value"] == "1"

    def replication_error(self) -> str:
        return str(self.run("SHOW SLAVE STATUS")[0]["Last_IO_Error"])

    def purge(self) -> None:
        """Removes all binary logs but a new one; a checkpoint may need the others for a moment."""
        self.run("FLUSH BINARY LOGS")
        newest = self.run("SHOW BINARY LOGS")[-1]["Log_name"]

        def has_one() -> bool:
            self.run(f"PURGE BINARY LOGS TO '{newest}'")
            return len(self.run("SHOW BINARY LOGS")) == 1

        wait_until(has_one, "the others are purged")

    def promote(self) -> "subprocess.CompletedProcess[str]":
        """Promotes this replica with the page's script."""
        return self.execute(PROMOTE)

    def execute(self, script: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {"HOME": str(self.folder)}
        return subprocess.run(
            ["sh", "-c", script],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=3 * START_TIMEOUT_S,
        )

    def empty(self) -> None:
        assert self.process is None
        self.remove()
        self.install()

    def remove(self) -> None:
        """Moves the data directory away."""
        self.data.rename(self.folder / f"data.old.{time.monotonic_ns()}")

    def load_copy_of(self, primary: "Replicated") -> None:
        """Begins with a copy of another server, as the page says."""
        program("mariadb-backup") or missing_peer("mariadb-backup")
        self.remove()
        copy = "/var/backups/ids", str(self.folder / "copy")
        owner = self.folder.stat()
        chown = "mysql:mysql /var/lib/mysql", f"{owner.st_uid}:{owner.st_gid} {self.data}"
        load, follow = replaced(LOAD, copy, chown).split(START)
        for server, script in (primary, replaced(COPY, copy)), (self, load), (self, follow):
            if script is follow:
                self.start()
            done = server.execute(script)
            assert done.returncode == 0, done.stderr


def statements(text: str) -> list[str]:
    return [each for each in (part.strip() for part in text.split(";")) if each]


class Pair:
    """The two servers, and the address that leads to the one that takes writes."""

    def __init__(self, folder: Path, servers: list[Replicated]) -> None:
        self.folder = folder
        self.primary, self.replica = servers

    @property
    def settings(self) -> str:
        """What a node's configuration says of the database."""
        return replaced(SETTINGS, ("@127.0.0.1:3307/ids", f"@localhost/ids?unix_socket={self.folder}/ids"))


@contextmanager
def pair() -> Iterator[Pair]:
    """A primary, a replica that follows it, and HAProxy."""
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="beanpole-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        servers = []
        for number in (1, 2):
            place = folder / str(number)
            place.mkdir()
            servers.append(Replicated(place, number, ends.enter_context(kept_port())))
            ends.callback(servers[-1].stop)
            servers[-1].start()
        primary, replica = servers
        primary.run(*statements(SQL[0]))
        replica.follow(primary)
        wait_until(primary.has_replica, "the replica follows")
        ends.enter_context(haproxy(folder, servers))
        yield Pair(folder, servers)


def leads_to_the_primary(folder: Path) -> bool:
    """Whether HAProxy knows the replica for what it is: until its first look, it leads to both servers in turn."""
    url = f"mysql+pymysql://ids:secret@localhost/ids?unix_socket={folder}/ids"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    try:
        for _ in range(4):
            with engine.connect() as connection:
                if connection.exec_driver_sql("SELECT @@read_only").scalar():
                    return False
    except sa.exc.OperationalError:  # the replica does not know the user yet
        return False
    return True


@contextmanager
def haproxy(folder: Path, servers: list[Replicated]) -> Iterator[None]:
    """HAProxy with the page's configuration; it listens on a socket in the folder."""
    check = folder / "is-writable"
    check.write_text(IS_WRITABLE)
    check.chmod(0o755)
    whom = as_whom()
    if whom:
        os.chown(folder, whom["user"], whom["group"])
    text = replaced(
        HAPROXY,
        ("127.0.0.1:3307", f"unix@{folder}/ids"),
        ("/etc/haproxy/is-writable", str(check)),
        *((f"10.0.0.{each.number}:3306", f"{HOST}:{each.port}") for each in servers),
    )
    (folder / "haproxy.cfg").write_text(text)
    command = [program("haproxy") or missing_peer("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]
    with (folder / "messages").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, **whom)
    try:
        wait_until(lambda: process.poll() is not None or (folder / "ids").exists(), "HAProxy listens")
        assert process.poll() is None, (folder / "messages").read_text()
        wait_until(lambda: leads_to_the_primary(folder), "HAProxy has found out who is the replica")
        yield
    finally:
        stop_process(process)
