"""The figures of a cluster, in one run: PostgreSQL with its standbys, the nodes and the load on the same machine.

Run with ``python -m benchmarks.cluster [--only ROW ...] [--data-dir DIR]``; ``--help`` has the rest. What counts are
ratios within one run: single-row INSERTs and a SKIP LOCKED table on the same servers, and our log in files on the same
disk, stand beside the cluster.
"""

import argparse
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

import psycopg
from psycopg import pq

from benchmarks.bench.dial import allow_descriptors, dial, open_group
from benchmarks.bench.load import Load
from benchmarks.bench.measure import WARM_UP_S
from benchmarks.bench.plan import Group
from benchmarks.bench.server import OURS, Server, running
from benchmarks.cluster_servers import Nodes, Postgres, postgres, wait_until
from tests.databases import program

BODY = b"x" * 100
PUT = b"put 0 0 100 100\r\n%b\r\n" % BODY
CYCLE = Group(50, 16, 100, "prd")
PUTS = Group(50, 16, 100, "p")
DEEP = Group(50, 100, 100, "p")
CONNECTIONS = (1, 8, 16, 32, 64)
"""How many connections the baselines are tried with; the best counts."""

NAMES = ("a", "b", "c")

INSERTS = "insert into plain (body) values ('{body}');\n"
TABLES = """
create table plain (id bigserial primary key, body bytea not null);
create table job (id bigserial primary key, body bytea not null);
"""
CYCLES = """insert into job (body) values ('{body}');
delete from job where id = (select id from job order by id for update skip locked limit 1);
"""
"""As cheap as it gets: a worker takes, does and deletes a job in one transaction, so that a cycle is two commits."""

FETCH = "delete from job where id = (select id from job order by id for update skip locked limit 1);\n"
INBOX_ROWS = 200_000
INTO_TABLE = "insert into job (body) select %s::bytea from generate_series(1, %s)"
INTO_INBOX = "select count(beanpole.put('mail', %s)) from generate_series(1, %s)"

SEGMENTS = b"""
select count(*), sum(pg_total_relation_size(('beanpole.log_' || number)::regclass)) from beanpole.segment
"""

Figures = dict[str, float]


def rate(address: tuple[str, int] | str, group: Group, seconds: float, operations: int = 0) -> float:
    """Drive a load; return commands a second. Nobody is bound to a core: PostgreSQL needs them, too."""
    allow_descriptors(group.connections + 200)
    with closing(Load()) as load:
        load.add(group, open_group(group, address, time.monotonic() + 60))
        if not operations:
            load.run(WARM_UP_S)
        run_s, _ = load.run(seconds, operations)
        return load.commands / run_s


class Bench:
    """What the rows share."""

    def __init__(self, servers: Postgres, folder: Path, given: argparse.Namespace) -> None:
        self.servers = servers
        self.folder = folder
        self.seconds: float = given.seconds
        self.rounds: int = given.rounds
        self.jobs: int = given.jobs
        self.cycles: int = given.cycles
        self.figures: Figures = {}
        self.made = 0
        servers.make("plain")
        with servers.connect("plain") as connection:
            connection.execute(TABLES.encode())

    def say(self, name: str, figure: float, text: str) -> None:
        """Note a figure, and print it."""
        self.figures[name] = figure
        sys.stdout.write(f"{name:<28} {figure:>12,.3f}  {text}\n")
        sys.stdout.flush()

    def cluster(self, names: tuple[str, ...] = NAMES, silence_ms: int | None = None) -> Nodes:
        """Start a cluster in a new database; the first node leads."""
        self.made += 1
        nodes = Nodes(self.servers.make(f"bench{self.made}"), self.folder / "nodes.log")
        nodes.init(silence_ms)
        for name in names:
            nodes.start(name)
            nodes.wait_for_answer(name)
        nodes.wait_for_all()
        return nodes

    # --- rows ---------------------------------------------------------------------------------------------------------

    def baselines(self) -> None:
        """Single-row INSERTs, and cycles of a SKIP LOCKED table, at their best number of connections."""
        for name, script in (("insert", INSERTS), ("skip-locked", CYCLES)):
            path = self.folder / f"{name}.sql"
            path.write_text(script.format(body=BODY.decode()))
            best = max((self.pgbench(path, count), count) for count in CONNECTIONS)
            self.say(
                name,
                best[0],
                f"transactions of one {'INSERT' if name == 'insert' else 'cycle'}/s, {best[1]} connections",
            )

    def pgbench(self, script: Path, connections: int) -> float:
        """Return how often a script runs in a second."""
        command = [program("pgbench") or "pgbench", "-n", "-M", "prepared", "-c", str(connections), "-j", "1"]
        command += ["-T", str(max(2, round(self.seconds))), "-f", str(script), self.servers.url("plain")]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(answer.stdout.partition("tps = ")[2].split()[0])

    def speed(self) -> None:
        """Puts and cycles, 50 connections with 16 commands in flight, beside our log in files on the same disk."""
        data = self.folder / "data"
        with running(OURS, ("-b", "{data}"), data) as server:
            filelog = rate(server.address, CYCLE, self.seconds) / 3
        self.say("filelog-cycle", filelog, "jobs/s put, reserved and deleted with -b")
        nodes = self.cluster()
        try:
            address = nodes.address(nodes.leader())
            cycle = rate(address, CYCLE, self.seconds) / 3
            self.say("cycle", cycle, "jobs/s put, reserved and deleted, with two followers")
            put = rate(address, PUTS, self.seconds)
            self.say("put", put, "puts/s, 50 connections, 16 in flight")
            self.say("put-deep", rate(address, DEEP, self.seconds), "puts/s, 50 connections, 100 in flight")
            self.say("cycle-filelog", cycle / filelog, "× the file log; asked ≥ 0.15")
            for name, ours, asked in (("insert", "put", 50), ("skip-locked", "cycle", 30)):
                if name in self.figures:
                    self.say(f"{ours}-{name}", self.figures[ours] / self.figures[name], f"× {name}; asked ≥ {asked}")
            self.lone(nodes)
        finally:
            nodes.stop()

    def lone(self, nodes: Nodes) -> None:
        """A put on one connection, and an INSERT of the same bytes, in turn."""
        puts, inserts = [], []
        with closing(dial(nodes.address(nodes.leader()))) as sock, self.servers.connect("plain") as connection:
            raw = connection.pgconn
            raw.prepare(b"lone", b"insert into plain (body) values ($1)")
            for _ in range(500):
                puts.append(timed(lambda: exchange(sock, PUT, b"INSERTED")))
                inserts.append(timed(lambda: insert(raw)))
        put_ms, insert_ms = (statistics.median(each) * 1e3 for each in (puts, inserts))
        self.say("lone-put-ms", put_ms, f"p50 of a lone put; an INSERT {insert_ms:.3f} ms")
        self.say("lone-put-insert", put_ms / insert_ms, "× an INSERT; asked ≤ 1.3")

    def peek(self, nodes: Nodes) -> None:
        """A peek at the leader, and one through a follower, in turn."""
        leader = nodes.leader()
        follower = next(name for name in NAMES if name != leader)
        direct, passed = [], []
        with closing(dial(nodes.address(leader))) as near, closing(dial(nodes.address(follower))) as far:
            for _ in range(5000):
                direct.append(timed(lambda: exchange(near, b"peek 1\r\n", b"")))
                passed.append(timed(lambda: exchange(far, b"peek 1\r\n", b"")))
        near_us, far_us = (statistics.median(each) * 1e6 for each in (direct, passed))
        self.say("peek-us", near_us, "p50 of a peek at the leader, µs")
        self.say("forwarding-us", far_us - near_us, "what forwarding adds, µs; asked ≤ 60")

    def passing(self) -> None:
        """The leader's processor time for a peek of 50 clients, which are its own, and those of a follower, in turn."""
        nodes = self.cluster(("a", "b"))
        try:
            leader = nodes.leader()
            pid = nodes.processes[leader].pid
            own, passed = (nodes.address(name) for name in sorted("ab", key=lambda name: name != leader))
            spent = [(peeks_cpu_s(pid, own), peeks_cpu_s(pid, passed)) for _ in range(self.rounds)]
            self.peek(nodes)
        finally:
            nodes.stop()
        own_us, passed_us = (statistics.median(each) * 1e6 for each in zip(*spent, strict=True))
        self.say(
            "passing-us", passed_us, f"µs of the leader's processor for a peek of a follower's client; own {own_us:.2f}"
        )
        self.say("passing-own", passed_us / own_us, "× a peek of its own client")

    def inbox(self) -> None:
        """Jobs that transactions put, beside workers that fetch and delete the same rows from a table of their own."""
        fetch = self.folder / "fetch.sql"
        fetch.write_text(FETCH)
        with self.servers.connect("plain") as plain:
            plain.execute(INTO_TABLE.encode(), [BODY, INBOX_ROWS])
            worker = max(self.pgbench(fetch, count) for count in CONNECTIONS)
            self.say("fetch", worker, "rows fetched and deleted/s by SKIP LOCKED")
            nodes = self.cluster(("a", "b"))
            try:
                nodes.verb("init", "--inbox")
                with psycopg.connect(nodes.url, autocommit=True) as application:
                    self.drain(application, worker)
                    waits = self.waits(application, nodes.address(nodes.leader()))
                    self.say("inbox-ms", statistics.median(waits) * 1e3, "p50 from commit to RESERVED; asked ≤ 40")
                    self.commits(application, plain)
            finally:
                nodes.stop()

    def drain(self, application: psycopg.Connection, worker: float) -> None:
        """Commit many rows at once; measure until all are jobs."""
        seen = "select exists (select from beanpole.inbox)"
        began = time.monotonic()
        application.execute(INTO_INBOX.encode(), [BODY, INBOX_ROWS])
        committed = time.monotonic()
        wait_until("the inbox is empty", lambda: application.execute(seen).fetchone() == (False,), every_s=0.02)
        rate_of_all = INBOX_ROWS / (time.monotonic() - committed)
        text = f"rows/s become jobs; their commit took {committed - began:.1f} s; asked ≥ 20,000"
        self.say("inbox", rate_of_all, text)
        self.say("inbox-fetch", rate_of_all / worker, "× SKIP LOCKED; asked ≥ 5")

    def waits(self, application: psycopg.Connection, address: tuple[str, int]) -> list[float]:
        """Return how long a worker that waits has to wait for a job from its commit on, again and again."""
        waits = []
        with closing(dial(address)) as worker:
            exchange(worker, b"watch lone\r\n", b"WATCHING")
            exchange(worker, b"ignore default\r\n", b"WATCHING")
            for _ in range(200):
                worker.sendall(b"reserve\r\n")
                application.execute(b"select beanpole.put('lone', %b)", [BODY])
                committed = time.perf_counter()
                id = worker.recv(4096).split()[1]
                waits.append(time.perf_counter() - committed)
                exchange(worker, b"delete %b\r\n" % id, b"DELETED")
        return waits

    def commits(self, application: psycopg.Connection, plain: psycopg.Connection) -> None:
        """The commit of an application with one put, and that of an INSERT of the same bytes, in turn."""
        puts, inserts = [], []
        for _ in range(500):
            puts.append(timed(lambda: application.execute(b"select beanpole.put('lone', %b)", [BODY])))
            inserts.append(timed(lambda: plain.execute(b"insert into plain (body) values (%b)", [BODY])))
        put_ms, insert_ms = (statistics.median(each) * 1e3 for each in (puts, inserts))
        self.say("inbox-put-ms", put_ms, f"p50 of a statement with one put; an INSERT {insert_ms:.3f} ms")
        self.say("inbox-put-insert", put_ms / insert_ms, "× an INSERT; asked ≤ 1.2")

    def lag(self) -> None:
        """From a reply to the moment when a follower has applied what it says, under full load."""
        nodes = self.cluster(("a", "b"))
        noted = self.folder / "noted"
        command = [sys.executable, "-m", "benchmarks.cluster_follower", nodes.url, str(noted)]
        looker = subprocess.Popen(command)
        try:
            address = nodes.address(nodes.leader())
            time.sleep(1.0)
            marks: list[tuple[int, int]] = []
            over = threading.Event()
            marker = threading.Thread(target=mark, args=(address, marks, over))
            marker.start()
            load = [sys.executable, "-m", "benchmarks.cluster", "--load", f"{address[0]}:{address[1]}"]
            subprocess.run([*load, "--seconds", str(3 * self.seconds)], check=True)
            over.set()
            marker.join()
            time.sleep(1.0)
        finally:
            looker.terminate()
            looker.wait()
            nodes.stop()
        lags = sorted(lags_of(marks, noted.read_text()))
        self.say("lag-p50-ms", lags[len(lags) // 2] / 1e6, f"from a reply to applied, {len(lags)} puts")
        self.say("lag-p99-ms", lags[len(lags) * 99 // 100] / 1e6, "asked ≤ 50")

    def failover(self) -> None:
        """Kill the leader, stop it, let it hand over, with many jobs; then kill it with a shorter silence limit."""
        for silence_ms, asked in ((1500, "1.8 / 2.5"), (500, "0.8 / 1.2")):
            nodes = self.cluster(silence_ms=silence_ms)
            try:
                rate(nodes.address(nodes.leader()), PUTS, 120.0, self.jobs)
                nodes.wait_for_all()
                self.gaps(f"failover-{silence_ms}", nodes, self.rounds, killed, f"s p50; asked {asked}")
                if silence_ms == 1500:
                    self.gaps("paused-1500", nodes, max(3, self.rounds // 6), paused, "s p50, leader stopped")
                    self.gaps("handover", nodes, max(3, self.rounds // 3), handed_over, "s p50; asked ≤ 0.05")
            finally:
                nodes.stop()

    def gaps(self, name: str, nodes: Nodes, rounds: int, act: Callable[[Nodes, str], None], text: str) -> None:
        """Measure, again and again, from the last acknowledged put before something happens to the first after."""
        waits = []
        for _ in range(rounds):
            leader = nodes.wait_for_all()
            with ExitStack() as stack:
                client = stack.enter_context(Putting([nodes.address(each) for each in NAMES if each != leader]))
                wait_until("puts are acknowledged", lambda client=client: client.count > 20)
                epoch = client.forget()
                act(nodes, leader)
                wait_until("puts are acknowledged again", lambda client=client, epoch=epoch: client.count > epoch + 200)
                waits.append(client.longest_s)
            if leader not in nodes.processes:
                nodes.start(leader)
            os.kill(nodes.processes[leader].pid, signal.SIGCONT)
        self.say(f"{name}-p50", statistics.median(waits), text)
        self.say(f"{name}-max", max(waits), f"s, the most of {rounds}")

    def start(self) -> None:
        """A node that reads everything when no other is there, less the silence that it waits for; and the file log."""
        data = self.folder / "data-start"
        with running(OURS, ("-b", "{data}"), data) as server:
            rate(server.address, PUTS, 120.0, self.jobs)
        with running(OURS, ("-b", "{data}"), data) as server:
            filelog = server.started_s
        self.say("filelog-start", filelog, f"s until the first answer, {self.jobs:,} jobs with -b")
        nodes = self.cluster(("a",), silence_ms=500)
        try:
            rate(nodes.address("a"), PUTS, 120.0, self.jobs)
            nodes.stop()
            began = time.monotonic()
            nodes.start("a")
            nodes.wait_for_answer("a")
            cold = time.monotonic() - began - 0.5
        finally:
            nodes.stop()
        self.say("cold-start", cold, "s until a cold node has applied everything")
        self.say("cold-start-filelog", cold / filelog, "× the file log; asked ≤ 2")

    def segments(self) -> None:
        """The bytes of all segments after millions of puts and deletes, with a hundred thousand jobs alive."""
        nodes = self.cluster(("a", "b"))
        try:
            address = nodes.address(nodes.leader())
            rate(address, Group(50, 16, 100, "p", tubes=1, name="kept"), 120.0, 100_000)
            speed = rate(address, CYCLE, 900.0, 3 * self.cycles)
            time.sleep(3.0)
            with psycopg.connect(nodes.url) as connection:
                found = connection.execute(SEGMENTS).fetchone()
            assert found is not None
        finally:
            nodes.stop()
        self.say("segments", float(found[0]), f"segments; {speed / 3:,.0f} jobs/s all along")
        self.say("segments-mib", float(found[1]) / 2**20, "MiB; asked ≤ 2 × what lives (12 MiB) + 3 × 64")


# --- clients ----------------------------------------------------------------------------------------------------------


def timed(act: Callable[[], None]) -> float:
    """Return how many seconds something takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def exchange(sock: socket.socket, command: bytes, expected: bytes) -> None:
    """Send a command, and read its reply."""
    sock.sendall(command)
    reply = sock.recv(4096)
    if not reply.startswith(expected) or not reply:
        raise ConnectionError(reply)


def insert(connection: pq.abc.PGconn) -> None:
    """Insert a row, durably."""
    result = connection.exec_prepared(b"lone", [BODY], [1])
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise ConnectionError(result.error_message)


def mark(address: tuple[str, int], marks: list[tuple[int, int]], over: threading.Event) -> None:
    """Put one job after the other, and note the moment of each reply with the job's id."""
    with closing(dial(address)) as sock:
        while not over.is_set():
            sock.sendall(PUT)
            reply = sock.recv(100)
            marks.append((time.monotonic_ns(), int(reply.split()[1])))
            time.sleep(0.002)


def lags_of(marks: list[tuple[int, int]], noted: str) -> list[int]:
    """Return, for each mark, the nanoseconds until a follower's next id was above it."""
    steps = [(int(ns), int(next_id)) for ns, next_id in (line.split() for line in noted.splitlines())]
    lags, at = [], 0
    for ns, job in marks:
        while at < len(steps) and steps[at][1] <= job:
            at += 1
        if at == len(steps):
            break
        lags.append(max(0, steps[at][0] - ns))
    return lags


def peeks_cpu_s(pid: int, address: tuple[str, int], seconds: float = 0.5) -> float:
    """Return a process's processor time for each peek of 50 clients that have one in flight."""
    server = Server(pid, address, 0.0)
    count, before_s, began = 0, 0.0, time.monotonic()
    with ExitStack() as stack, select.epoll() as poll:
        clients = [stack.enter_context(closing(dial(address))) for _ in range(50)]
        by_fd = {each.fileno(): each for each in clients}
        for fd, client in by_fd.items():
            poll.register(fd, select.EPOLLIN)
            client.sendall(b"peek 1\r\n")
        while (passed := time.monotonic() - began) < 2 * seconds:
            if not before_s and passed >= seconds:
                count, before_s = 0, server.cpu_s()
            for fd, _ in poll.poll():
                by_fd[fd].recv(4096)
                by_fd[fd].sendall(b"peek 1\r\n")
                count += 1
    return (server.cpu_s() - before_s) / count


class Putting(threading.Thread):
    """A client that puts, one after the other, at the next address when one does not answer."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        super().__init__(daemon=True)
        self.addresses = addresses
        self.count = 0
        self.longest_s = 0.0
        self.over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()

    def forget(self) -> int:
        """Begin to look for the longest time without a reply; return how many there were."""
        self.longest_s = 0.0
        return self.count

    def run(self) -> None:
        """Put until told to end."""
        turn, last = 0, time.monotonic()
        while not self.over.is_set():
            address = self.addresses[turn % len(self.addresses)]
            turn += 1
            try:
                with closing(dial(address)) as sock:
                    sock.settimeout(5.0)
                    while not self.over.is_set():
                        exchange(sock, PUT, b"INSERTED")
                        now = time.monotonic()
                        self.longest_s, last = max(self.longest_s, now - last), now
                        self.count += 1
            except OSError:
                time.sleep(0.002)


def killed(nodes: Nodes, leader: str) -> None:
    """Kill the leader."""
    nodes.kill(leader)


def paused(nodes: Nodes, leader: str) -> None:
    """Stop the leader where it is."""
    os.kill(nodes.processes[leader].pid, signal.SIGSTOP)


def handed_over(nodes: Nodes, _leader: str) -> None:
    """Let the leader hand over."""
    nodes.verb("step-down")


ROWS: dict[str, Callable[[Bench], None]] = {
    "baselines": Bench.baselines,
    "speed": Bench.speed,
    "passing": Bench.passing,
    "inbox": Bench.inbox,
    "lag": Bench.lag,
    "failover": Bench.failover,
    "start": Bench.start,
    "segments": Bench.segments,
}


def main() -> None:
    """Run the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--data-dir", type=Path, help="where PostgreSQL's folder is made: a disk, not a memory")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long a load runs")
    parser.add_argument("--rounds", type=int, default=30, help="how often the leader is killed")
    parser.add_argument(
        "--jobs", type=int, default=1_000_000, help="how many jobs there are at a fail-over and a start"
    )
    parser.add_argument(
        "--cycles", type=int, default=10_000_000, help="how many jobs are put and deleted for `segments`"
    )
    parser.add_argument("--standbys", type=int, default=2, help="the first is synchronous")
    parser.add_argument("--load", metavar="HOST:PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        host, _, port = given.load.partition(":")
        rate((host, int(port)), CYCLE, given.seconds)
        return
    sys.stdout.write(f"load average before: {os.getloadavg()[0]:.2f}; {os.cpu_count()} cores\n")
    with postgres(given.standbys, given.data_dir) as servers, tempfile.TemporaryDirectory(dir=given.data_dir) as folder:
        bench = Bench(servers, Path(folder), given)
        for name in given.only:
            ROWS[name](bench)


if __name__ == "__main__":
    main()
