"""What commands about many jobs cost, and what a quiet client waits for while they run.

Run with `python -m benchmarks.many [JOBS]`. A server without a log gets so many jobs (a million), half of them in each
of two tubes; then one of the tubes is listed page by page and moved to the other, which is listed and, when many of its
jobs were reserved and deleted, cleared. A quiet client asks `list-tube-used` now and then. Beside its waiting time
stands the processor time that the server used in it, which hardly depends on what else the machine does.
"""

import argparse
import re
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable

from benchmarks.flood import cpu_ns
from tests.servers import HOST, beanpole_server

PUTS = 1_000
PAUSE_S = 0.002
IDS_PER_LINE = 400
NEXT = re.compile(rb"JOBS \d+ next=(\d+)\r\n")


class Lines:
    """A connection that is read line by line."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection((HOST, port))
        self.connection.settimeout(600)
        self.file = self.connection.makefile("rb")

    def ask(self, command: bytes) -> bytes:
        """The first line of a reply."""
        self.connection.sendall(command)
        return self.file.readline()

    def page(self, command: bytes) -> bytes:
        """The first line of a reply with frames, which are read and forgotten."""
        head = self.ask(command)
        for _ in range(int(head.split()[1])):
            size = int(self.file.readline().split()[2])
            self.file.read(size + 2)
        return head


class Quiet(threading.Thread):
    """A client that asks now and then, until it is stopped."""

    def __init__(self, port: int, pid: int) -> None:
        super().__init__(daemon=True)
        self.lines = Lines(port)
        self.pid = pid
        self.ended = threading.Event()
        self.waited: list[float] = []
        self.used: list[float] = []

    def run(self) -> None:
        while not self.ended.wait(PAUSE_S):
            before, begun_at = cpu_ns(self.pid), time.perf_counter()
            self.lines.ask(b"list-tube-used\r\n")
            self.waited.append((time.perf_counter() - begun_at) * 1e3)
            self.used.append((cpu_ns(self.pid) - before) / 1e6)


def measure(name: str, port: int, pid: int, run: Callable[[], None]) -> None:
    """Run something beside a quiet client, and print how long both took."""
    quiet = Quiet(port, pid)
    quiet.start()
    before, begun_at = cpu_ns(pid), time.perf_counter()
    run()
    taken, used = time.perf_counter() - begun_at, (cpu_ns(pid) - before) / 1e9
    quiet.ended.set()
    quiet.join()
    row = [taken, used]
    for values in (quiet.waited, quiet.used):
        row += [statistics.median(values), statistics.quantiles(values, n=100)[98], max(values)]
    sys.stdout.write(f"{name:<34}" + "".join(f"{each:>9.2f}" for each in row) + f"{len(quiet.waited):>8}\n")
    sys.stdout.flush()


def fill(client: Lines, jobs: int) -> None:
    """Put the jobs, with priorities in no order, into two tubes in turn."""
    for first in range(0, jobs, PUTS):
        tube = b"ab"[first // PUTS % 2 :][:1]
        data = b"".join(b"put %d 0 60 100\r\n%b\r\n" % (each * 7919 % 1009, b"x" * 100) for each in range(PUTS))
        client.connection.sendall(b"use %b\r\n" % tube + data)
        for _ in range(PUTS + 1):
            client.file.readline()


def list_all(client: Lines, tube: bytes, bodies: int) -> None:
    """List the jobs of a tube page by page."""
    after = b"0"
    while True:
        head = client.page(b"list-jobs %b ready 1000 bodies=%d after=%b\r\n" % (tube, bodies, after))
        if (found := NEXT.match(head)) is None:
            return
        after = found[1]


def list_first(client: Lines) -> None:
    """List the jobs that would be handed out next, some times."""
    for _ in range(100):
        client.page(b"list-jobs a ready 1000 order=next\r\n")


def take_many(client: Lines) -> None:
    """Reserve and delete a hundred thousand jobs, a thousand with a line or three."""
    client.ask(b"watch b\r\n")
    for _ in range(100):
        client.connection.sendall(b"reserve-many 1000 0\r\n")
        ids = []
        for _ in range(int(client.file.readline().split()[1])):
            words = client.file.readline().split()
            client.file.read(int(words[2]) + 2)
            ids.append(words[1])
        for first in range(0, len(ids), IDS_PER_LINE):
            client.ask(b"delete-many " + b" ".join(ids[first : first + IDS_PER_LINE]) + b"\r\n")


def move_all(client: Lines) -> None:
    """Move the jobs of one tube to the other."""
    client.ask(b"move-jobs a ready 4000000000 to=b\r\n")


def clear_all(client: Lines) -> None:
    """Delete the jobs of the tube that has all of them."""
    client.ask(b"clear-tube b\r\n")


def main() -> None:
    """Measure our own server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="?", type=int, default=1_000_000)
    given = parser.parse_args()
    with beanpole_server() as server:
        port, pid, client = server.port, server.pid, Lines(server.port)
        heads = ("s", "CPU s", "p50 ms", "p99 ms", "max ms", "CPU p50", "CPU p99", "CPU max", "asked")
        sys.stdout.write(f"{f'{given.jobs} jobs in two tubes':<34}" + "".join(f"{each:>9}" for each in heads) + "\n")
        fill(client, given.jobs)
        measure("nothing", port, pid, lambda: time.sleep(1))
        measure("list-jobs of one tube", port, pid, lambda: list_all(client, b"a", 0))
        measure("list-jobs with bodies", port, pid, lambda: list_all(client, b"a", 100))
        measure("list-jobs order=next, 100 times", port, pid, lambda: list_first(client))
        measure("move-jobs to the other tube", port, pid, lambda: move_all(client))
        measure("list-jobs of all", port, pid, lambda: list_all(client, b"b", 0))
        measure("reserve-many, delete-many", port, pid, lambda: take_many(client))
        measure("clear-tube of all", port, pid, lambda: clear_all(client))


if __name__ == "__main__":
    main()
