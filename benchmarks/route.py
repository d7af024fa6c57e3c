"""What stands between clients and a server, and what it costs both: `python -m benchmarks.route [ROW...]`.

Directly, through HAProxy in TCP mode, through fronts (`serve --fronts N`) and through a router (`route`), whose clients
come over TCP or a Unix socket, in one run and in turn, so that a busy machine is busy for all. Processor time is that
of the processes for a command; the median of the rounds is printed. A further way is a line of WAYS.
"""

import argparse
import contextlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.bench.dial import allow_descriptors, dial, open_group
from benchmarks.bench.load import Load
from benchmarks.bench.measure import SETUP_LIMIT_S, WARM_UP_S
from benchmarks.bench.plan import Group
from benchmarks.bench.server import HOST, OURS, Address, Server, free_port, running, stop
from tests.servers import certificates, server_certificate

LARGE_BYTES = 67_108_864
ROUTE = (*OURS[:3], "route")
SERVE = (*OURS, "-z", str(LARGE_BYTES))
IDLE_CLIENTS = 2000
VISITORS = 50
QUESTIONED_JOBS = 1000
UNREAD_COMMANDS = 200_000
"""What a client asks that reads nothing: `stats`, of two kilobytes each."""

PROXY_DEFAULTS = """
global
    maxconn 4000
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
"""

PROXY = (
    PROXY_DEFAULTS
    + """
listen queue
    bind {host}:{port}
    server one {host}:{behind}
"""
)


@dataclass(frozen=True)
class Way:
    """A server, or the shards of a map, and how clients reach it."""

    address: Address
    servers: tuple[Server, ...]
    between: tuple[Server, ...] = ()

    def cpu_s(self) -> tuple[float, float]:
        """Processor time so far: of the servers, and of what is between."""
        return sum(each.cpu_s() for each in self.servers), sum(each.cpu_s() for each in self.between)

    def memory_bytes(self) -> tuple[int, int]:
        used = [sum(each.memory_bytes()[0] for each in some) for some in (self.servers, self.between)]
        return used[0], used[1]


@contextmanager
def straight(flags: tuple[str, ...]) -> Iterator[Way]:
    """Clients connect to the server."""
    with running(SERVE, flags) as server:
        yield Way(server.address, (server,))


@contextmanager
def proxied(flags: tuple[str, ...]) -> Iterator[Way]:
    """HAProxy has a connection to the server for each client."""
    with running(SERVE, flags) as server, tempfile.TemporaryDirectory() as folder:
        config, port = Path(folder, "haproxy.cfg"), free_port()
        config.write_text(PROXY.format(host=HOST, port=port, behind=server.address[1]))
        process = subprocess.Popen(["haproxy", "-q", "-f", str(config)])
        try:
            address = (HOST, port)
            await_answer(address)
            yield Way(address, (server,), (Server(process.pid, address, 0.0),))
        finally:
            stop(process)


@contextmanager
def fronted(count: int, flags: tuple[str, ...]) -> Iterator[Way]:
    """Fronts carry the clients over a link each."""
    with straight((*flags, "--fronts", str(count))) as way:
        pid = way.servers[0].pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        yield Way(way.address, way.servers, tuple(Server(int(each), way.address, 0.0) for each in children))


@contextmanager
def routed(flags: tuple[str, ...], *, unix: bool = False) -> Iterator[Way]:
    """A router carries the clients over a link of TCP."""
    with straight(flags) as way, behind(way.servers, "--to", f"{HOST}:{way.address[1]}", unix=unix) as found:
        yield found


@contextmanager
def encrypted(flags: tuple[str, ...]) -> Iterator[Way]:
    """A router whose link has TLS."""
    pair, port = server_certificate(), free_port()
    tls = ("-l", f"tls:{HOST}:{port}", "--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    with (
        straight((*tls, *flags)) as way,
        behind(way.servers, "--to", f"beanstalks://{HOST}:{port}", "--ca", str(certificates.made("ca").cert)) as found,
    ):
        yield found


@contextmanager
def mapped(count: int, flags: tuple[str, ...]) -> Iterator[Way]:
    """A router carries the clients to so many shards. The tube `pinned` is on the first, `spread` on all."""
    with ExitStack() as stack:
        servers = [stack.enter_context(running(SERVE, (*flags, "--shard", str(n)))) for n in range(count)]
        path = Path(stack.enter_context(tempfile.TemporaryDirectory()), "map.toml")
        shards = "".join(f's{n} = {{ number = {n}, nodes = "{HOST}:{servers[n].address[1]}" }}\n' for n in range(count))
        spread = ", ".join(f'"s{n}"' for n in range(count))
        path.write_text(f'epoch = 1\n[tubes]\npinned = "s0"\nspread = [{spread}]\n[shard]\n{shards}')
        yield stack.enter_context(behind(tuple(servers), "--map", str(path)))


@contextmanager
def behind(servers: tuple[Server, ...], *flags: str, unix: bool = False) -> Iterator[Way]:
    """Start a router."""
    with tempfile.TemporaryDirectory() as folder:
        path, port = Path(folder, "socket"), free_port()
        listen = f"unix:{path}" if unix else f"{HOST}:{port}"
        process = subprocess.Popen([*ROUTE, *flags, "-l", listen])
        try:
            address: Address = str(path) if unix else (HOST, port)
            await_answer(address)
            yield Way(address, servers, (Server(process.pid, address, 0.0),))
        finally:
            stop(process)


WAYS: dict[str, Callable[[tuple[str, ...]], AbstractContextManager[Way]]] = {
    "direct": straight,
    "HAProxy": proxied,
    "1 front": partial(fronted, 1),
    "8 fronts": partial(fronted, 8),
    "router": routed,
    "unix router": partial(routed, unix=True),
    "TLS router": encrypted,
    "1 shard": partial(mapped, 1),
    "2 shards": partial(mapped, 2),
    "4 shards": partial(mapped, 4),
    "8 shards": partial(mapped, 8),
}


def await_answer(address: Address) -> None:
    """Return when a server can be reached."""
    give_up_at = time.monotonic() + SETUP_LIMIT_S
    while True:
        with contextlib.suppress(OSError), closing(dial(address)) as sock:
            sock.sendall(b"\r\n")
            if sock.recv(100):
                return
        if time.monotonic() > give_up_at:
            raise SystemExit(f"no answer at {address}")
        time.sleep(0.01)


Figures = dict[str, float]
"""By what is printed at the head of a column."""


def load(groups: tuple[Group, ...], way: Way, seconds: float) -> Figures:
    """Processor time of a command, and how long it took."""
    allow_descriptors(sum(group.connections for group in groups) + 200)
    deadline = time.monotonic() + SETUP_LIMIT_S
    with closing(Load()) as driver:
        for group in groups:
            driver.add(group, open_group(group, way.address, deadline))
        driver.run(min(WARM_UP_S, seconds))
        before = way.cpu_s()
        driver.run(seconds)
        used = [(after - start) / driver.commands * 1e6 for start, after in zip(before, way.cpu_s(), strict=True)]
        latencies = next(each.latencies for each in driver.groups if each.group.counted)
        return {
            "server µs": used[0],
            "between µs": used[1],
            "p50 µs": latencies.percentile(0.5) / 1e3,
            "p99 µs": latencies.percentile(0.99) / 1e3,
        }


def load_beside(way: Way, seconds: float) -> Figures:
    """The same of 50 clients, beside one that reads nothing, and one with bodies of 64 MiB."""
    large = Group(name="large", body_bytes=LARGE_BYTES - 2, counted=False)
    with closing(dial(way.address)) as deaf:
        deaf.setblocking(False)
        unsent = b"stats\r\n" * UNREAD_COMMANDS
        with contextlib.suppress(BlockingIOError):
            while unsent:
                unsent = unsent[deaf.send(unsent) :]
        return load((Group(50), large), way, seconds)


def visits(way: Way, seconds: float) -> Figures:
    """Processor time of a client that connects, puts, and goes; so many do so at a time."""
    job = b"put 0 0 60 100\r\n" + b"x" * 100 + b"\r\n"
    connect = dial if isinstance(way.address, str) else socket.create_connection
    count = 0
    before = way.cpu_s()
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        with ExitStack() as stack:
            socks = [stack.enter_context(connect(way.address)) for _ in range(VISITORS)]
            for sock in socks:
                sock.sendall(job)
            for sock in socks:
                sock.recv(100)
        count += VISITORS
    used = [(after - start) / count * 1e6 for start, after in zip(before, way.cpu_s(), strict=True)]
    return {"server µs": used[0], "between µs": used[1]}


def idle(way: Way, _seconds: float, said: bytes = b"list-tube-used\r\n") -> Figures:
    """Memory of a client that has said one thing: what the second half of them takes."""
    allow_descriptors(4 * IDLE_CLIENTS + 200)
    with ExitStack() as stack:
        used = []
        for _ in range(2):
            for _ in range(IDLE_CLIENTS):
                sock = stack.enter_context(closing(dial(way.address)))
                for each in said.splitlines(keepends=True):
                    ask(sock, each)
            used.append(way.memory_bytes())
    server, between = ((after - start) / IDLE_CLIENTS for start, after in zip(*used, strict=True))
    return {"server bytes": server, "between bytes": between}


def ask(sock: socket.socket, command: bytes) -> bytes:
    """Send a command; return the reply, which is short."""
    sock.sendall(command)
    return sock.recv(4096)


def questions(way: Way, _seconds: float) -> Figures:
    """How many commands servers get for a job that is reserved and deleted, of a tube that is on all; the delete aside.

    All have jobs; then only the first has.
    """
    return {
        "all have": asked_for_a_job(way, way.address),
        "one has": asked_for_a_job(way, way.servers[0].address if len(way.servers) > 1 else way.address),
    }


def asked_for_a_job(way: Way, putting: Address) -> float:
    """Put jobs at an address, and take them at the way's."""
    with closing(dial(putting)) as producer, closing(dial(way.address)) as worker:
        ask(producer, b"use spread\r\n"), ask(worker, b"watch spread\r\n"), ask(worker, b"ignore default\r\n")
        for _ in range(QUESTIONED_JOBS):
            ask(producer, b"put 0 0 60 1\r\nx\r\n")
        before = sum(commands_of(each) for each in way.servers)
        for _ in range(QUESTIONED_JOBS):
            ask(worker, b"delete " + ask(worker, b"reserve\r\n").split()[1] + b"\r\n")
        return (sum(commands_of(each) for each in way.servers) - before) / QUESTIONED_JOBS - 1


def commands_of(server: Server) -> int:
    """How many commands a server has run, apart from those for statistics."""
    with closing(dial(server.address)) as sock:
        said = ask(sock, b"stats\r\n").decode().splitlines()
    counts = (line.split(": ") for line in said if line.startswith("cmd-"))
    return sum(int(count) for name, count in counts if not name.startswith("cmd-stats"))


def wake(way: Way, seconds: float) -> Figures:
    """How long a put takes until a client that waits has the job: where the tube is on one shard, and on all."""
    return {f"{tube} p50 µs": waited_us(way, tube.encode(), seconds) for tube in ("pinned", "spread")}


def waited_us(way: Way, tube: bytes, seconds: float) -> float:
    """Let a client wait for jobs of a tube, one after the other."""
    times = []
    with closing(dial(way.address)) as producer, closing(dial(way.address)) as worker:
        ask(producer, b"use " + tube + b"\r\n"), ask(worker, b"watch " + tube + b"\r\n")
        ask(worker, b"ignore default\r\n")
        ends_at = time.monotonic() + 2 * seconds
        while time.monotonic() < ends_at:
            worker.sendall(b"reserve\r\n")
            time.sleep(0.002)  # it waits by then
            began_s = time.perf_counter()
            producer.sendall(b"put 0 0 60 1\r\nx\r\n")
            reply = worker.recv(100)
            times.append(time.perf_counter() - began_s)
            producer.recv(100)
            ask(worker, b"delete " + reply.split()[1] + b"\r\n")
    return statistics.median(times) * 1e6


ROWS: dict[str, Callable[[Way, float], Figures]] = {
    "1x1": lambda way, seconds: load((Group(),), way, seconds),
    "50x1": lambda way, seconds: load((Group(50),), way, seconds),
    "50x16": lambda way, seconds: load((Group(50, in_flight=16),), way, seconds),
    "1000x1": lambda way, seconds: load((Group(1000),), way, seconds),
    "beside": load_beside,
    "visits": visits,
    "idle": idle,
    "places": partial(idle, said=b"watch spread\r\nreserve-with-timeout 0\r\n"),
    "questions": questions,
    "wake": wake,
}


def main() -> None:
    """Measure, and print a table for each row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--ways", default=",".join(WAYS), help="which ways, with commas between")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a load runs")
    given = parser.parse_args()
    ways = [each for each in given.ways.split(",") if each != "HAProxy" or shutil.which("haproxy")]
    for row in given.rows or ROWS:
        found: dict[str, list[Figures]] = {way: [] for way in ways}
        for _ in range(given.rounds):
            for name in ways:
                with WAYS[name](()) as way:
                    found[name].append(ROWS[row](way, given.seconds))
        heads = list(found[ways[0]][0])
        write(row, heads)
        for name in ways:
            write(name, [f"{statistics.median(each[head] for each in found[name]):.1f}" for head in heads])


def write(name: str, cells: list[str]) -> None:
    sys.stdout.write(f"{name:<12}" + "".join(f"{cell:>14}" for cell in cells) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
