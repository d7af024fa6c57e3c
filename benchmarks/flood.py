"""What a quiet client waits for while others flood the server, by what they flood it with.

Run with `python -m benchmarks.flood [COMMAND...]`; with `--pid PID --port PORT` another server is flooded. A hundred
clients pipeline a command as fast as the server takes it, and read what it sends; a quiet one asks `list-tube-used` now
and then. Beside the time that it waits stands the processor time that the server used in it, which hardly depends on
what else the machine does.
"""

import argparse
import contextlib
import multiprocessing
import re
import selectors
import socket
import statistics
import sys
import time
from pathlib import Path

from tests.servers import HOST, beanpole_server

CLIENTS = 100
QUESTIONS = 200
PAUSE_S = 0.02
BODY = b"x" * 64_000
SMALL = b"put 0 0 60 5\r\nhello\r\n"
JOB = re.compile(rb"(?:INSERTED|RESERVED) (\d+)")
LINE_BYTES = 40
SEND_BYTES = 262_144

FLOODS = {
    "nothing": b"",
    "list-tube-used": b"list-tube-used\r\n" * 2_000,
    "unknown commands": b"nonsense\r\n" * 2_000,
    "stats": b"stats\r\n" * 2_000,
    "stats-tube": b"stats-tube default\r\n" * 2_000,
    "stats-job": b"stats-job 1\r\n" * 2_000,
    "list-tubes": b"list-tubes\r\n" * 200,
    "watch, ignore": b"".join(b"watch t%d\r\n" % each for each in range(1_000))
    + b"".join(b"ignore t%d\r\n" % each for each in range(1_000)),
    "put, delete": SMALL * 1_000,
    "put, reserve, delete": (SMALL + b"reserve-with-timeout 0\r\n") * 1_000,
    "put delayed, kick": b"put 0 1000 60 5\r\nhello\r\n" * 1_000 + b"kick 100000\r\n",
    "put of 64 kB, delete": b"put 0 0 60 %d\r\n%b\r\n" % (len(BODY), BODY) * 4,
    "peek of 64 kB": b"peek 1\r\n" * 1_000,
    "reserve over 1000 tubes": b"".join(b"watch t%d\r\n" % each for each in range(1_000))
    + b"reserve-with-timeout 0\r\n" * 2_000,
}
"""What is sent again and again. A job that is put or reserved is deleted as soon as the reply is read."""


class Flooder:
    """One flooding client: it sends as much as the server takes, and reads what comes."""

    def __init__(self, port: int, data: bytes) -> None:
        self.connection = socket.create_connection((HOST, port))
        self.connection.setblocking(False)
        self.data = data
        self.unsent = memoryview(data)
        self.line = b""
        self.deletes: list[bytes] = []
        self.jobs_unanswered = data.count(b"put ")

    def read(self) -> None:
        """Read, and note the jobs to delete."""
        lines, _, self.line = (self.line[-LINE_BYTES:] + self.connection.recv(1 << 20)).rpartition(b"\n")
        ids = JOB.findall(lines)
        self.deletes += [b"delete %b\r\n" % id for id in ids]
        self.jobs_unanswered -= len(ids)

    def write(self) -> None:
        """Send; when all puts are answered the deletes follow, then the data again."""
        if not self.unsent:
            if self.jobs_unanswered > 0:
                return
            self.jobs_unanswered += self.data.count(b"put ")
            self.unsent = memoryview(b"".join(self.deletes) + self.data)
            self.deletes = []
        self.unsent = self.unsent[self.connection.send(self.unsent[:SEND_BYTES]) :]


def flood(port: int, data: bytes, count: int) -> None:
    """Flood over many connections until the process is killed."""
    selector = selectors.DefaultSelector()
    for _ in range(count):
        client = Flooder(port, data)
        selector.register(client.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, client)
    while True:
        for key, events in selector.select():
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_READ:
                    key.data.read()
                if events & selectors.EVENT_WRITE:
                    key.data.write()


def cpu_ns(pid: int) -> int:
    """Processor time that a process has used."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def ask(port: int, pid: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each question, and of the server's processor time in it."""
    waited, used = [], []
    with socket.create_connection((HOST, port)) as connection:
        connection.settimeout(60)
        for _ in range(QUESTIONS):
            time.sleep(PAUSE_S)
            before, begun_at = cpu_ns(pid), time.perf_counter()
            connection.sendall(b"list-tube-used\r\n")
            connection.recv(100)
            waited.append((time.perf_counter() - begun_at) * 1e3)
            used.append((cpu_ns(pid) - before) / 1e6)
    return waited, used


def prepare(port: int, tubes: int) -> socket.socket:
    """Make as many tubes as asked for, and a large job, which stay while the connection does."""
    keeper = socket.create_connection((HOST, port))
    keeper.sendall(b"put 0 0 60 %d\r\n%b\r\n" % (len(BODY), BODY))
    keeper.recv(100)
    for first in range(0, tubes, 1_000):
        keeper.sendall(b"".join(b"watch tube-%d\r\n" % each for each in range(first, first + 1_000)))
        lines = 0
        while lines < 1_000:
            lines += keeper.recv(1 << 16).count(b"\n")
    return keeper


def measure(names: list[str], port: int, pid: int, tubes: int) -> None:
    """Flood a server with one command after the other, and print what a quiet client waits."""
    keeper = prepare(port, tubes)
    heads = ("p50 ms", "p99 ms", "max ms", "CPU p50", "CPU p99")
    sys.stdout.write(f"{'100 clients send':<26}" + "".join(f"{each:>9}" for each in heads) + "\n")
    for name in names:
        processes = [
            multiprocessing.Process(target=flood, args=(port, FLOODS[name], CLIENTS // 2), daemon=True)
            for _ in range(2 if FLOODS[name] else 0)
        ]
        for process in processes:
            process.start()
        time.sleep(1)
        waited, used = ask(port, pid)
        for process in processes:
            process.kill()
        row = [statistics.median(waited), statistics.quantiles(waited, n=100)[98], max(waited)]
        row += [statistics.median(used), statistics.quantiles(used, n=100)[98]]
        sys.stdout.write(f"{name:<26}" + "".join(f"{each:>9.2f}" for each in row) + "\n")
        sys.stdout.flush()
        time.sleep(1)
    keeper.close()


def main() -> None:
    """Measure our own server, or one that runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="COMMAND", help=", ".join(FLOODS))
    parser.add_argument("--tubes", type=int, default=0, help="tubes that there are")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    names = given.names or list(FLOODS)
    if given.pid:
        measure(names, given.port, given.pid, given.tubes)
    else:
        with beanpole_server() as server:
            measure(names, server.port, server.pid, given.tubes)


if __name__ == "__main__":
    main()
