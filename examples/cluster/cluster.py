"""Three nodes of Beanpole on one machine, over three PostgreSQL servers with Patroni and etcd; kill what you like.

Run ``python examples/cluster/cluster.py`` and type what to do, or name it: ``cluster.py leader primary status``. A
producer puts numbers and a worker does them all the while; at the end each number that was acknowledged must have been
done.
Everything is in a temporary folder and on free ports of 127.0.0.1, and is removed at the end.

It needs Debian's packages patroni, etcd-server and postgresql, and Beanpole with its extra ``cluster``.
"""

import argparse
import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import beanpole

T = TypeVar("T")

HOST = "127.0.0.1"
NODES = ("a", "b", "c")
MEMBERS = ("pg1", "pg2", "pg3")
START_S = 90.0
"""How long anything may take until it is there."""

MACHINE_AWAY_S = 35.0
"""How long a PostgreSQL server that was killed stays away, with its Patroni: longer than Patroni waits (ttl)."""

HELP = """\
  status      who leads, and how far the others are
  leader      kill -9 the node that leads; it is started again after two seconds
  follower    kill -9 a node that follows; likewise
  step-down   let another node lead, without killing anything
  primary     kill -9 PostgreSQL's primary and its Patroni; both are started again after half a minute
  standby     the same with the synchronous standby
  both        the leader and the primary at once
  quit        stop everything, and count"""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        return [int(stack.enter_context(socket.create_server((HOST, 0))).getsockname()[1]) for _ in range(count)]


def wait_until(what: str, is_so: Callable[[], T]) -> T:
    """Wait until something is so, and return it."""
    give_up_at = time.monotonic() + START_S
    while time.monotonic() < give_up_at:
        with contextlib.suppress(OSError, ValueError):
            if found := is_so():
                return found
        time.sleep(0.1)
    raise SystemExit(f"{what}: not so after {START_S:.0f} s; the logs are in the folder that --keep leaves")


class Machines:
    """Everything that runs, in one folder."""

    def __init__(self, folder: Path, hosts: Mapping[str, str] | None = None, network: str = f"{HOST}/32") -> None:
        self.folder = folder
        self.hosts = dict.fromkeys((*MEMBERS, *NODES, "etcd"), HOST) if hosts is None else dict(hosts)
        self.network = network
        """From where PostgreSQL takes connections."""

        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd_ports = free_ports(2)
        self.postgres_ports = dict(zip(MEMBERS, free_ports(3), strict=True))
        self.patroni_ports = dict(zip(MEMBERS, free_ports(3), strict=True))
        self.node_ports = dict(zip(NODES, free_ports(3), strict=True))
        self.password = secrets.token_hex(16)
        self.bin = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: int(each.parent.name))
        servers = ",".join(f"{self.hosts[name]}:{port}" for name, port in self.postgres_ports.items())
        self.url = f"postgresql://beanpole@{servers}/beanpole"
        nodes = ",".join(f"{self.hosts[name]}:{port}" for name, port in self.node_ports.items())
        self.addresses = f"beanstalk://{nodes}"
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            owner = pwd.getpwnam("postgres")
            self.user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        passwords = folder / "pgpass"
        passwords.write_text(f"*:*:*:*:{self.password}\n")
        passwords.chmod(0o600)
        os.environ["PGPASSFILE"] = str(passwords)

    # --- processes ----------------------------------------------------------------------------------------------------

    def start(self, name: str, *command: str, as_owner: bool = False, cwd: Path | None = None) -> None:
        """Start a process; what it says goes to a file of its name."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, cwd=cwd or self.folder, stdout=log, stderr=log, **(self.user if as_owner else {})
            )

    def kill(self, name: str) -> None:
        """End a process as the power does."""
        if (process := self.running.pop(name, None)) is not None:
            process.kill()
            process.wait()

    def start_etcd(self) -> None:
        """Start the store in which Patroni keeps who is the primary. A real cluster has three, on three machines."""
        client, peer = (f"http://{self.hosts['etcd']}:{port}" for port in self.etcd_ports)
        self.start(
            "etcd",
            *("etcd", "--enable-v2", "--name", "etcd", "--data-dir", str(self.folder / "etcd")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd={peer}"),
            as_owner=True,
        )

    def etcd_answers(self) -> bool:
        """Whether etcd takes connections. Raises OSError: it does not."""
        socket.create_connection((self.hosts["etcd"], self.etcd_ports[0]), 1).close()
        return True

    def start_postgres(self, name: str) -> None:
        """Start a PostgreSQL server with its Patroni."""
        path = self.folder / f"{name}.yml"
        if not path.exists():
            path.write_text(json.dumps(self.patroni(name), indent=2))  # JSON is YAML
            path.chmod(0o600)
            if self.user:
                os.chown(path, self.user["user"], self.user["group"])
        self.start(name, "patroni", str(path), as_owner=True)

    def start_servers(self) -> None:
        """Start etcd and PostgreSQL, and make the role and the database of the nodes."""
        self.start_etcd()
        wait_until("etcd answers", self.etcd_answers)
        for name in MEMBERS:
            self.start_postgres(name)
        wait_until(
            "there is a primary and a synchronous standby",
            lambda: {"Leader", "Sync Standby"} <= set(self.members()),
        )
        self.query(f"create role beanpole login in role pg_monitor password '{self.password}'")
        self.query("create database beanpole owner beanpole")

    def patroni(self, name: str) -> dict[str, Any]:
        """Return Patroni's configuration: one named synchronous standby, and only that one is promoted."""
        own = f"{self.hosts[name]}:{self.postgres_ports[name]}"
        rest = f"{self.hosts[name]}:{self.patroni_ports[name]}"
        return {
            "scope": "beanpole",
            "name": name,
            "restapi": {"listen": rest, "connect_address": rest},
            # Not etcd3: there Debian's Patroni, 3.0.2, may take the lock from the new primary when it goes on after it
            # stood still, and what that one has confirmed is lost.
            "etcd": {"host": f"{self.hosts['etcd']}:{self.etcd_ports[0]}"},
            "bootstrap": {
                "dcs": {
                    "ttl": 20,
                    "loop_wait": 5,
                    "retry_timeout": 5,
                    "synchronous_mode": True,
                    "synchronous_mode_strict": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        # A standby that went without a word is replaced when this has passed; by default a minute.
                        "parameters": {"shared_buffers": "32MB", "wal_sender_timeout": "5s"},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
            },
            "postgresql": {
                "listen": own,
                "connect_address": own,
                "data_dir": str(self.folder / name),
                "bin_dir": str(self.bin),
                "pgpass": str(self.folder / f"{name}.pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": self.password},
                    "replication": {"username": "replicator", "password": self.password},
                    "rewind": {"username": "rewinder", "password": self.password},
                },
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": [f"host {which} all {self.network} scram-sha-256" for which in ("all", "replication")],
            },
        }

    def kill_postgres(self, name: str) -> None:
        """End a PostgreSQL server and its Patroni, as if their machine was gone."""
        first = int((self.folder / name / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        self.kill(name)
        for pid in (first, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_node(self, name: str) -> None:
        """Start a node."""
        self.start(
            name,
            *(sys.executable, "-m", "beanpole", "serve", "--cluster", self.url, "--node", name),
            *("-l", f"{self.hosts[name]}:{self.node_ports[name]}", "--log-format", "console"),
        )

    def kill_node(self, name: str) -> None:
        """End a node; it comes back."""
        self.kill(name)
        threading.Timer(2.0, self.start_node, [name]).start()

    # --- looking ------------------------------------------------------------------------------------------------------

    def members(self) -> dict[str, str]:
        """Return Patroni's roles: primary (leader), sync_standby, replica."""
        answer = subprocess.run(
            ["patronictl", "-c", str(self.folder / "pg1.yml"), "list", "-f", "json"],
            capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
        found = json.loads(answer.stdout or "[]")
        return {each["Role"]: each["Member"] for each in found if each["State"] in {"running", "streaming"}}

    def status(self) -> dict[str, Any]:
        """Return what `beanpole cluster status` knows."""
        answer = self.beanpole("cluster", "status", self.url, "--json")
        return dict(json.loads(answer.stdout)) if answer.stdout else {}

    def beanpole(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a verb."""
        return subprocess.run(
            [sys.executable, "-m", "beanpole", *words], capture_output=True, text=True, check=False, timeout=60
        )

    def query(self, statement: str) -> str:
        """Run a statement on the primary, as its administrator; return what it prints."""
        hosts = ",".join(self.hosts[name] for name in self.postgres_ports)
        ports = ",".join(map(str, self.postgres_ports.values()))
        done = subprocess.run(
            [self.bin / "psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-d",
             f"host={hosts} port={ports} user=postgres dbname=postgres target_session_attrs=read-write",
             "-c", statement],
            check=True, stdout=subprocess.PIPE, text=True, timeout=30,
        )  # fmt: skip
        return done.stdout.strip()

    def stop(self) -> None:
        """End everything."""
        for timer in threading.enumerate():
            if isinstance(timer, threading.Timer):
                timer.cancel()
        for name in (*NODES, "worker", *MEMBERS, "etcd"):
            if (process := self.running.get(name)) is not None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Producer(threading.Thread):
    """Puts numbers, one after the other, and remembers which were acknowledged."""

    def __init__(self, addresses: str) -> None:
        super().__init__(daemon=True)
        self.addresses = addresses
        self.acknowledged: list[int] = []
        self.longest_s = 0.0
        """The longest time between two acknowledgements since somebody looked."""

        self.stopping = threading.Event()
        self.ended = False

    def run(self) -> None:
        """Put until told to stop. A put whose answer was lost is put again: that number may be done twice."""
        number, last = 0, time.monotonic()
        client: beanpole.Client[Any] | None = None
        while not self.stopping.is_set():
            try:
                client = client or beanpole.Client(self.addresses, use="numbers")
                client.put(str(number), ttr=10)
            except (beanpole.BeanpoleError, OSError):
                if client is not None:
                    client.close()
                client = None
                time.sleep(0.05)
                continue
            now = time.monotonic()
            self.longest_s, last = max(self.longest_s, now - last), now
            self.acknowledged.append(number)
            number += 1
            time.sleep(0.005)
        if client is not None:
            client.close()


def say(text: str) -> None:
    """Write a line."""
    print(text, flush=True)


def show(machines: Machines) -> None:
    """Show who leads, and which PostgreSQL server is what."""
    say(machines.beanpole("cluster", "status", machines.url).stdout.rstrip())
    roles = machines.members()
    say("PostgreSQL: " + ", ".join(f"{member} {role.lower()}" for role, member in roles.items()))


def act(machines: Machines, producer: Producer, what: str) -> None:
    """Do what was asked for, and say how long the producer waited."""
    if what == "status":
        show(machines)
        return
    before = machines.status()
    leader = before.get("leader")
    roles = {} if what in {"leader", "follower", "step-down"} else machines.members()
    victims = {
        "leader": [leader],
        "follower": [next((each for each in NODES if each != leader), None)],
        "primary": [roles.get("Leader")],
        "standby": [roles.get("Sync Standby")],
        "both": [leader, roles.get("Leader")],
        "step-down": [],
    }.get(what)
    if victims is None:
        say(HELP)
        return
    named = [each for each in victims if each is not None]
    if len(named) < len(victims):
        say("there is none at the moment; try again in a few seconds")
        return
    done_before, producer.longest_s = len(producer.acknowledged), 0.0
    for victim in named:
        say(f"kill -9 {victim}")
        if victim in NODES:
            machines.kill_node(victim)
        else:
            machines.kill_postgres(victim)
            threading.Timer(MACHINE_AWAY_S, machines.start_postgres, [victim]).start()
    if what == "step-down":
        say(machines.beanpole("cluster", "step-down", machines.url).stdout.rstrip())
    # Twenty more puts have been acknowledged, and none was under way when somebody died.
    wait_until("puts go on", lambda: len(producer.acknowledged) > done_before + 200)
    say(f"the longest wait of a put was {producer.longest_s:.2f} s; {machines.status().get('leader')} leads")


def count(machines: Machines, producer: Producer) -> int:
    """Compare what was acknowledged with what was done; return the exit code."""
    producer.stopping.set()
    producer.join(START_S)
    done = machines.folder / "numbers"

    def missing() -> set[int]:
        return set(producer.acknowledged) - {int(line) for line in done.read_text().split()}

    with contextlib.suppress(SystemExit):
        wait_until("the worker has done everything", lambda: not missing())
    lost = missing()
    times = Counter(done.read_text().split())
    twice = sum(each - 1 for each in times.values())
    say(f"acknowledged {len(producer.acknowledged)}, lost {len(lost)}, done more than once {twice}")
    return 1 if lost else 0


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Machines]:
    """Start everything, and end it."""
    machines = Machines(folder)
    try:
        say("starting etcd, and three PostgreSQL servers with Patroni: half a minute")
        machines.start_servers()
        made = machines.beanpole("cluster", "init", machines.url)
        if made.returncode:
            raise SystemExit(made.stderr)
        say(made.stdout.rstrip())
        for name in NODES:
            machines.start_node(name)
        wait_until("a node leads", lambda: machines.status().get("leader"))
        say(f"clients connect to {machines.addresses}")
        yield machines
    finally:
        machines.stop()


def commands(named: list[str]) -> Iterator[str]:
    """Yield what to do: what was named, or what is typed."""
    if named:
        yield from named
        return
    say(HELP)
    while True:
        try:
            line = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return
        if line == "quit":
            return
        if line:
            yield line


def main() -> int:
    """Run until everything was done, or somebody has typed enough."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=HELP
    )
    parser.add_argument("what", nargs="*", help="what to do, in this order; without any, it is asked for")
    parser.add_argument("--keep", action="store_true", help="leave the folder with all logs")
    arguments = parser.parse_args()
    for program in ("etcd", "patroni", "patronictl"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing: apt-get install patroni etcd-server postgresql")
    folder = Path(tempfile.mkdtemp(prefix="beanpole-cluster-"))
    try:
        with running(folder) as machines:
            os.environ.update(NUMBERS=str(folder / "numbers"), BEANPOLE_URL=machines.addresses)
            (folder / "numbers").touch()
            words = (sys.executable, "-m", "beanpole", "worker", "tasks:worker")
            machines.start("worker", *words, cwd=Path(__file__).parent)
            producer = Producer(machines.addresses)
            producer.start()
            for what in commands(arguments.what):
                act(machines, producer, what)
            return count(machines, producer)
    finally:
        if arguments.keep:
            say(f"the logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
