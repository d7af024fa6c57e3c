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

LARGE_BYTES = 67_108_864
ROUTE = (*OURS[:3], "route")
SERVE = (*OURS, "-z", str(LARGE_BYTES))
IDLE_CLIENTS = 2000
VISITORS = 50
UNREAD_COMMANDS = 200_000
"""What a client asks that reads nothing: `stats`, of two kilobytes each."""

PROXY = """
global
    maxconn 4000
    nbthread 1
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen queue
    bind {host}:{port}
    server one {host}:{behind}
"""


@dataclass(frozen=True)
class Way:
    """A server, and how clients reach it."""

    address: Address
    server: Server
    between: tuple[Server, ...] = ()

    def cpu_s(self) -> tuple[float, float]:
        """Processor time so far: of the server, and of what is between."""
        return self.server.cpu_s(), sum(each.cpu_s() for each in self.between)

    def memory_bytes(self) -> tuple[int, int]:
        return self.server.memory_bytes()[0], sum(each.memory_bytes()[0] for each in self.between)


@contextmanager
def straight(flags: tuple[str, ...]) -> Iterator[Way]:
    """Clients connect to the server."""
    with running(SERVE, flags) as server:
        yield Way(server.address, server)


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
            yield Way(address, server, (Server(process.pid, address, 0.0),))
        finally:
            stop(process)


@contextmanager
def fronted(count: int, flags: tuple[str, ...]) -> Iterator[Way]:
    """Fronts carry the clients over a link each."""
    with straight((*flags, "--fronts", str(count))) as way:
        children = Path(f"/proc/{way.server.pid}/task/{way.server.pid}/children").read_text().split()
        yield Way(way.address, way.server, tuple(Server(int(each), way.address, 0.0) for each in children))


@contextmanager
def routed(flags: tuple[str, ...], *, unix: bool = False) -> Iterator[Way]:
    """A router carries the clients over a link of TCP."""
    with straight(flags) as way, tempfile.TemporaryDirectory() as folder:
        path, ready = Path(folder, "socket"), Path(folder, "ready")
        port = free_port()
        listen = f"unix:{path}" if unix else f"{HOST}:{port}"
        to = f"{HOST}:{way.server.address[1]}"
        process = subprocess.Popen([*ROUTE, "--to", to, "-l", listen, "--ready-file", str(ready)])
        try:
            address: Address = str(path) if unix else (HOST, port)
            await_answer(address)
            yield Way(address, way.server, (Server(process.pid, address, 0.0),))
        finally:
            stop(process)


WAYS: dict[str, Callable[[tuple[str, ...]], AbstractContextManager[Way]]] = {
    "direct": straight,
    "HAProxy": proxied,
    "1 front": partial(fronted, 1),
    "8 fronts": partial(fronted, 8),
    "router": routed,
    "unix router": partial(routed, unix=True),
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


def idle(way: Way, _seconds: float) -> Figures:
    """Memory of a client that has said one thing."""
    allow_descriptors(2 * IDLE_CLIENTS + 200)
    before = way.memory_bytes()
    with ExitStack() as stack:
        for sock, _ in open_group(Group(IDLE_CLIENTS, programme=""), way.address, time.monotonic() + SETUP_LIMIT_S):
            stack.enter_context(closing(sock))
        used = [(after - start) / IDLE_CLIENTS for start, after in zip(before, way.memory_bytes(), strict=True)]
    return {"server bytes": used[0], "between bytes": used[1]}


ROWS: dict[str, Callable[[Way, float], Figures]] = {
    "1x1": lambda way, seconds: load((Group(),), way, seconds),
    "50x1": lambda way, seconds: load((Group(50),), way, seconds),
    "50x16": lambda way, seconds: load((Group(50, in_flight=16),), way, seconds),
    "1000x1": lambda way, seconds: load((Group(1000),), way, seconds),
    "beside": load_beside,
    "visits": visits,
    "idle": idle,
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
