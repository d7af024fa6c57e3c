"""Three PostgreSQL servers that Patroni and etcd look after: those of the example, without a copy of how they start."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from examples.cluster.cluster import Machines, wait_until

ROLES = {"Leader", "Sync Standby", "Replica"}
STREAMING = "select count(*) from pg_stat_replication where state = 'streaming'"


class PatroniServers:
    """Three servers, of which Patroni promotes one when the primary is lost."""

    def __init__(self, folder: Path, make: Callable[[Path], Machines] = Machines) -> None:
        folder.chmod(0o755)
        (folder / "servers").mkdir()
        self.machines = make(folder / "servers")
        self.lost = ""
        self.frozen = 0
        try:
            self.machines.start_servers()
        except BaseException:
            self.machines.stop()
            raise

    @property
    def url(self) -> str:
        return self.machines.url

    @property
    def logs(self) -> list[Path]:
        return sorted(self.machines.folder.glob("*.log"))

    def empty(self) -> None:
        """Do nothing: these servers are used once."""

    def found(self) -> dict[str, str]:
        """Return who has which role, if both standbys have all that the primary has; roles alone say that too soon."""
        with contextlib.suppress(subprocess.CalledProcessError):
            roles = self.machines.members()
            if roles.keys() >= ROLES and self.machines.query(STREAMING) == "2":
                return roles
        return {}

    def roles(self) -> tuple[str, str, str]:
        """Wait until all servers are well; return the primary, the synchronous standby and the other one."""
        found = wait_until("all servers are well", self.found)
        return found["Leader"], found["Sync Standby"], found["Replica"]

    def lose_primary(self) -> None:
        """Kill the primary and its Patroni."""
        self.lost, *_ = self.roles()
        self.machines.kill_postgres(self.lost)

    def repair(self) -> None:
        self.machines.start_postgres(self.lost)

    def freeze_manager(self) -> None:
        """Let Patroni alone stand still on the primary, until it has promoted another: then there are two."""
        lost, *_ = self.roles()
        pid = self.machines.running[lost].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until("another is promoted", lambda: self.machines.members().get("Leader", lost) != lost)
        except BaseException:
            os.kill(pid, signal.SIGCONT)
            raise
        self.frozen = pid

    def thaw_manager(self) -> None:
        """Let Patroni go on: it makes a standby of the old primary."""
        os.kill(self.frozen, signal.SIGCONT)

    def stop(self) -> None:
        self.machines.stop()
