"""What a quiet client waits for while others flood the server, by what they flood it with.

Run with `python -m benchmarks.flood [FLOOD...]`; with `--pid PID --port PORT` another server is flooded. A hundred
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
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.servers import HOST, beanpole_server

CLIENTS = 100
QUESTIONS = 2_000
PAUSE_S = 0.005
READY_S = 300
"""How long the flooding clients may take to prepare."""

BODY = b"x" * 64_000
SMALL = b"put 0 0 60 5\r\nhello\r\n"
JOB = re.compile(rb"(?:INSERTED|RESERVED) (\d+)")
LINE_BYTES = 40
SEND_BYTES = 262_144
RECEIVE_BYTES = 1 << 20
WIDE = 200_000
HELD = 10_000
"""Jobs that a client holds when it leaves."""


@dataclass(frozen=True)
class Flood:
    """What each client sends."""

    again: bytes
    """Again and again; a job that is put or reserved is deleted as soon as the reply is read."""

    once: bytes = b""
    """Before that: commands of one line, and replies of one line each."""

    keeper: bytes = b""
    """What somebody else sends before, in the same way."""

    keeps: bool = False
    """No job is deleted."""

    leaves: bool = False
    """The connection ends when all is answered, and another one begins."""

    clients: int = CLIENTS


def put_rules(tube: bytes, rules: bytes) -> bytes:
    """The command that sets the rules of a tube."""
    return b"set-rules %b %d\r\n%b\r\n" % (tube, len(rules), rules)


def watch(count: int, name: bytes = b"t") -> bytes:
    """Watch so many tubes."""
    return b"".join(b"watch %b%d\r\n" % (name, each) for each in range(count))


def ignore(count: int) -> bytes:
    """Ignore them again."""
    return b"".join(b"ignore t%d\r\n" % each for each in range(count))


def hold(count: int, tube: bytes) -> bytes:
    """Put jobs into a tube and reserve them."""
    return b"use %b\r\nwatch %b\r\n" % (tube, tube) + b"put 0 0 3600 1\r\nx\r\nreserve\r\n" * count


FLOODS = {
    "nothing": Flood(b""),
    "list-tube-used": Flood(b"list-tube-used\r\n" * 2_000),
    "unknown commands": Flood(b"nonsense\r\n" * 2_000),
    "stats": Flood(b"stats\r\n" * 2_000),
    "stats-tube": Flood(b"stats-tube default\r\n" * 2_000),
    "stats-tubes": Flood(b"stats-tubes\r\n" * 100, once=watch(1_000)),
    "stats-job": Flood(b"stats-job 1\r\n" * 2_000),
    "explain": Flood(b"explain 1\r\n" * 2_000),
    "list-tubes": Flood(b"list-tubes\r\n" * 200),
    "list-tubes-watched": Flood(b"list-tubes-watched\r\n" * 200, once=watch(1_000)),
    "list-jobs": Flood(b"list-jobs jobs ready 1000\r\n" * 20, keeper=b"put-job 1 tube=jobs\r\nx\r\n" * 10_000),
    "list-sessions": Flood(b"list-sessions\r\n" * 100),
    "watch, ignore": Flood(watch(1_000) + ignore(1_000)),
    "set-rules of 4 KiB": Flood(put_rules(b"t*", b"attempts: 2\n" + b"\n" * 4_000) * 20),
    "put, delete": Flood(SMALL * 1_000),
    "put, reserve, delete": Flood((SMALL + b"reserve-with-timeout 0\r\n") * 1_000),
    "put delayed, kick": Flood(b"put 0 1000 60 5\r\nhello\r\n" * 1_000 + b"kick 100000\r\n"),
    "put, clear-tube": Flood(SMALL * 1_000 + b"clear-tube default\r\n", keeps=True),
    "put of 64 kB, delete": Flood(b"put 0 0 60 %d\r\n%b\r\n" % (len(BODY), BODY) * 4),
    "peek of 64 kB": Flood(b"peek 1\r\n" * 1_000),
    "reserve over 1000 tubes": Flood(b"reserve-with-timeout 0\r\n" * 2_000, once=watch(1_000)),
    "reserve over 200 000 tubes": Flood(b"reserve-with-timeout 0\r\n" * 2_000, once=watch(WIDE), clients=4),
    "the same, with jobs": Flood(
        b"reserve-with-timeout 0\r\n" * 2_000,
        once=watch(WIDE),
        keeper=b"".join(b"put-job 1 tube=t%d ttr=1\r\nx\r\n" % each for each in range(WIDE)),
        keeps=True,
        clients=4,
    ),
    "200 000 watched tubes that go": Flood(watch(WIDE), leaves=True, clients=4),
    "holders that leave": Flood(hold(HELD, b"held") + b"clear-tube held ready\r\n", keeps=True, leaves=True),
    "holders that leave, and deaths": Flood(
        hold(HELD, b"dying"),
        keeper=put_rules(b"dying", b"attempts: 1\ndead: dead") + put_rules(b"dead", b"expire: 1"),
        keeps=True,
        leaves=True,
    ),
    "times to run that end": Flood(
        b"reserve-with-timeout 0\r\n" * 2_000,
        keeper=b"put-job 1 ttr=1\r\nx\r\n" * 500_000,
        keeps=True,
    ),
}


class Flooder:
    """One flooding client: it sends as much as the server takes, and reads what comes."""

    def __init__(self, port: int, flood: Flood) -> None:
        self.flood = flood
        self.connection = socket.create_connection((HOST, port))
        self.connection.setblocking(False)
        self.unsent = memoryview(flood.once or flood.again)
        self.line = b""
        self.deletes: list[bytes] = []
        self.jobs_put = 0 if flood.keeps else flood.again.count(b"put ")
        self.jobs_unanswered = 0 if flood.once else self.jobs_put
        self.lines_unanswered = flood.once.count(b"\n")

    @property
    def ready(self) -> bool:
        """Whether it has prepared what it wants to flood with."""
        return self.lines_unanswered <= 0

    def read(self) -> None:
        """Read, and note the jobs to delete."""
        got = self.connection.recv(RECEIVE_BYTES)
        if self.lines_unanswered > 0:
            self.lines_unanswered -= got.count(b"\n")
        lines, _, self.line = (self.line[-LINE_BYTES:] + got).rpartition(b"\n")
        if self.jobs_put:
            ids = JOB.findall(lines)
            self.deletes += [b"delete %b\r\n" % id for id in ids]
            self.jobs_unanswered -= len(ids)

    def write(self) -> None:
        """Send; when all puts are answered the deletes follow, then the data again."""
        if not self.unsent:
            if self.lines_unanswered > 0 or self.jobs_unanswered > 0:
                return
            self.jobs_unanswered += self.jobs_put
            self.unsent = memoryview(b"".join(self.deletes) + self.flood.again)
            self.deletes = []
        self.unsent = self.unsent[self.connection.send(self.unsent[:SEND_BYTES]) :]


def flood_with(port: int, flood: Flood, count: int, ready: Event) -> None:
    """Flood over many connections until the process is killed."""
    if flood.leaves:
        leave_again_and_again(port, flood, count, ready)
    selector = selectors.DefaultSelector()
    clients = [Flooder(port, flood) for _ in range(count)]
    for client in clients:
        selector.register(client.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, client)
    while True:
        for key, events in selector.select():
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_READ:
                    key.data.read()
                if events & selectors.EVENT_WRITE:
                    key.data.write()
        if not ready.is_set() and all(client.ready for client in clients):
            ready.set()


def leave_again_and_again(port: int, flood: Flood, count: int, ready: Event) -> None:
    """Connect, send everything, `quit`, and read until the server closes; then the same again."""
    data = flood.again + b"quit\r\n"
    selector = selectors.DefaultSelector()
    for _ in range(count):
        begin(selector, port, data)
    while True:
        for key, events in selector.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_READ and not connection.recv(RECEIVE_BYTES):
                    selector.unregister(connection)
                    connection.close()
                    begin(selector, port, data)
                    ready.set()
                    continue
                if events & selectors.EVENT_WRITE and key.data:
                    unsent = key.data[connection.send(key.data[:SEND_BYTES]) :]
                    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
                    selector.modify(connection, wanted, unsent)


def begin(selector: selectors.DefaultSelector, port: int, data: bytes) -> None:
    """Begin with another connection."""
    connection = socket.create_connection((HOST, port))
    connection.setblocking(False)
    selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, memoryview(data))


def cpu_ns(pid: int) -> int:
    """Processor time that a process has used."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def ask(port: int, pid: int, questions: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each question, and of the server's processor time in it."""
    waited, used = [], []
    with socket.create_connection((HOST, port)) as connection:
        connection.settimeout(60)
        for _ in range(questions):
            time.sleep(PAUSE_S)
            before, begun_at = cpu_ns(pid), time.perf_counter()
            connection.sendall(b"list-tube-used\r\n")
            connection.recv(100)
            waited.append((time.perf_counter() - begun_at) * 1e3)
            used.append((cpu_ns(pid) - before) / 1e6)
    return waited, used


def send_all(connection: socket.socket, commands: bytes) -> None:
    """Send commands whose replies nobody needs, and wait for the last one."""
    end = b"end\r\n"
    unsent = memoryview(commands + end)
    connection.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE)
    last = b""
    while not last.endswith(b"UNKNOWN_COMMAND\r\n"):
        for _, events in selector.select():
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_READ:
                    last = last[-LINE_BYTES:] + connection.recv(RECEIVE_BYTES)
                if events & selectors.EVENT_WRITE and unsent:
                    unsent = unsent[connection.send(unsent[:SEND_BYTES]) :]
                    if not unsent:
                        selector.modify(connection, selectors.EVENT_READ)
    connection.setblocking(True)


def write(name: str, figures: list[str], *, markdown: bool) -> None:
    """Write a row of the table."""
    if markdown:
        sys.stdout.write("| " + " | ".join([f"`{name}`" if name in FLOODS else name, *figures]) + " |\n")
    else:
        sys.stdout.write(f"{name:<32}" + "".join(f"{each:>9}" for each in figures) + "\n")
    sys.stdout.flush()


def row(name: str, port: int, pid: int, questions: int, *, markdown: bool) -> None:
    """Flood a server, and print what a quiet client waits."""
    flood = FLOODS[name]
    with socket.create_connection((HOST, port)) as keeper:
        send_all(keeper, flood.keeper)
    floods = []
    for _ in range(2 if flood.again else 0):
        ready = multiprocessing.Event()
        floods.append(
            (
                multiprocessing.Process(target=flood_with, args=(port, flood, flood.clients // 2, ready), daemon=True),
                ready,
            )
        )
    for process, _ in floods:
        process.start()
    for _, ready in floods:
        if not ready.wait(READY_S):
            raise SystemExit(f"{name}: the clients were not ready after {READY_S} seconds")
    waited, used = ask(port, pid, questions)
    for process, _ in floods:
        process.kill()
        process.join()
    thousandths = statistics.quantiles(waited, n=1000)
    figures = [statistics.median(waited), thousandths[989], thousandths[998], max(waited)]
    figures += [statistics.median(used), statistics.quantiles(used, n=100)[98]]
    write(name, [f"{each:.2f}" for each in figures], markdown=markdown)


def measure(name: str, port: int, pid: int, given: argparse.Namespace) -> None:
    """Flood a server with one command."""
    with socket.create_connection((HOST, port)) as keeper:
        send_all(keeper, b"put 0 0 60 %d\r\n%b\r\n" % (len(BODY), BODY) + watch(given.tubes, b"tube-"))
        row(name, port, pid, given.questions, markdown=given.markdown)


def main() -> None:
    """Measure our own server, or one that runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="FLOOD", help=", ".join(FLOODS))
    parser.add_argument("--tubes", type=int, default=0, help="tubes that there are")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="what the quiet client asks in each flood")
    parser.add_argument("--markdown", action="store_true", help="write a table for docs/performance.md")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    write("they send", ["p50 ms", "p99 ms", "p99.9 ms", "max ms", "CPU p50", "CPU p99"], markdown=given.markdown)
    if given.markdown:
        sys.stdout.write("|---|" + "--:|" * 6 + "\n")
    for name in given.names or FLOODS:
        if given.pid:
            measure(name, given.port, given.pid, given)
        else:
            with beanpole_server() as server:  # a new one each: what a flood leaves behind is no part of the next
                measure(name, server.port, server.pid, given)


if __name__ == "__main__":
    main()
