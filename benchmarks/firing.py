"""What schedules cost: a fire beside a put, how late fires are, and what a hundred thousand schedules take.

Run with `python -m benchmarks.firing`. The first table is of the engine alone, with and without a log, in turn in one
process; the figures below it are of servers of their own, which the clients beside them keep busy.
"""

import argparse
import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from beanpole.log.accounts import Accounts
from beanpole.log.encoder import Encoder
from beanpole.schedules.document import parse
from beanpole.testing.world import World
from benchmarks.bench.server import OURS, Address, Server, running

SECOND_NS = 1_000_000_000
WALL_NS = 1_764_000_000 * SECOND_NS
COUNT = 1_000
"""Schedules that fire together, and puts in a row."""

ROUNDS = 15
BODY = b"x" * 100
CASES = (b"every: 1", b"cron: * * * * *", b"cron: * * * * *\nzone: Europe/Berlin")


# --- the engine alone -------------------------------------------------------------------------------------------------


def cpu_ns(work: Callable[[], object]) -> int:
    began_ns = time.process_time_ns()
    work()
    return time.process_time_ns() - began_ns


def world(*, has_log: bool) -> World:
    records = Encoder(Accounts(unlimited=True)) if has_log else None
    found = World(records=records)
    if records is not None:
        records.open_segment(1, 1 << 40)
    found.engine.wall_lead_ns = WALL_NS - found.now_ns
    found.connect("a")
    return found


def forget(found: World) -> None:
    """Take what was written out of memory."""
    if isinstance(found.engine.records, Encoder):
        found.engine.records.take_row(1 << 40)


def puts(*, has_log: bool) -> Iterator[float]:
    """Yield nanoseconds of a put, each of some rounds."""
    found = world(has_log=has_log)
    data = b"put 65536 0 60 %d\r\n%b\r\n" % (len(BODY), BODY) * COUNT
    while True:
        yield cpu_ns(lambda: found.send("a", data)) / COUNT
        found.output("a")
        forget(found)


def fires(lines: bytes, *, has_log: bool) -> Iterator[float]:
    """Yield nanoseconds of a fire, each of some rounds, in which all schedules fire."""
    found = world(has_log=has_log)
    text = lines + b"\noverlap: allow\n\n" + BODY
    for number in range(COUNT):
        found.send("a", b"set-schedule s%d %d\r\n%b\r\n" % (number, len(text), text))
    while True:
        found.now_ns += 60 * SECOND_NS if lines.startswith(b"cron") else SECOND_NS

        def run() -> None:
            while 0 <= found.engine.next_deadline_ns <= found.now_ns:
                found.engine.tick(found.now_ns)

        yield cpu_ns(run) / COUNT
        forget(found)


def next_times(lines: bytes) -> Iterator[float]:
    """Yield nanoseconds of a next time."""
    timing = parse(lines + b"\n").timing()
    at = WALL_NS

    def run() -> None:
        nonlocal at
        for _ in range(COUNT):
            at = timing.after(at) or at

    while True:
        yield cpu_ns(run) / COUNT


def compare() -> None:
    sys.stdout.write(f"{'ns of processor time':<44}{'put':>7}{'next':>7}{'fire':>7}{'(fire - next) / put':>21}\n")
    for has_log in (False, True):
        for lines in CASES:
            sources = (puts(has_log=has_log), next_times(lines), fires(lines, has_log=has_log))
            rounds = [[next(source) for source in sources] for _ in range(ROUNDS)][1:]
            put, after, fire = (statistics.median(each) for each in zip(*rounds, strict=True))
            name = lines.decode().replace("\n", ", ") + (", log" if has_log else "")
            sys.stdout.write(f"{name:<44}{put:>7.0f}{after:>7.0f}{fire:>7.0f}{(fire - after) / put:>21.2f}\n")


# --- a server ---------------------------------------------------------------------------------------------------------


def serving(folder: Path) -> AbstractContextManager[Server]:
    return running(OURS, ("-b", "{data}"), folder)


class Client:
    """One connection, one command after the other."""

    def __init__(self, address: Address) -> None:
        assert not isinstance(address, str)
        self.socket = socket.create_connection(address)
        self.input = self.socket.makefile("rb")

    def ask(self, data: bytes) -> bytes:
        self.socket.sendall(data)
        return self.input.readline()

    def text(self, command: bytes) -> str:
        size = int(self.ask(command).split()[1])
        return self.input.read(size + 2).decode()

    def stat(self, key: str) -> int:
        found = re.search(rf"^{key}: (\d+)$", self.text(b"stats\r\n"), re.MULTILINE)
        assert found is not None, key
        return int(found[1])

    def many(self, lines: Iterator[bytes], size: int = 500) -> None:
        """Send commands that have a reply of one line each."""
        while batch := [line for _, line in zip(range(size), lines, strict=False)]:
            self.socket.sendall(b"".join(batch))
            for _ in batch:
                self.input.readline()


def schedules(count: int, lines: bytes) -> Iterator[bytes]:
    text = lines + b"\noverlap: allow\n\n" + BODY
    return (b"set-schedule s%d %d\r\n%b\r\n" % (number, len(text), text) for number in range(count))


def quantile(histogram: str, bounds: list[int], part: float) -> int:
    """Return the bound below which a part of what was counted lies, in microseconds."""
    count, _, *bins = map(int, histogram.split())
    seen = 0
    for bound, each in zip([*bounds, 10**12], bins, strict=True):
        seen += each
        if seen >= part * count:
            return bound
    return 0


def beside_puts(folder: Path, count: int = 100_000) -> None:
    """A fire beside a put of a client that sends a hundred at a time, both of one server with a log."""
    with serving(folder) as server:
        client = Client(server.address)
        client.many(schedules(count, b"every: 10"))
        client.many((b"put 65536 0 60 %d\r\n%b\r\n" % (len(BODY), BODY) for _ in range(count)), 100)
        costs: list[list[float]] = [[], []]
        for _ in range(5):
            before, fired = server.cpu_s(), client.stat("schedule-fires")
            while client.stat("schedule-fires") < fired + count:
                time.sleep(0.1)
            costs[0].append((server.cpu_s() - before) / count)
            before = server.cpu_s()
            client.many((b"put 65536 0 60 %d\r\n%b\r\n" % (len(BODY), BODY) for _ in range(count)), 100)
            costs[1].append((server.cpu_s() - before) / count)
        fire, put = (1e6 * statistics.median(each) for each in costs)
        sys.stdout.write(
            f"with a log: a fire {fire:.2f} µs, a put {put:.2f} µs of processor time: {fire / put:.2f} x\n"
        )


def lateness(folder: Path, jobs: int, rate: int, seconds: int) -> None:
    """So many fires a second, among many delayed jobs, which somebody takes and deletes."""
    with serving(folder) as server:
        client = Client(server.address)
        client.many(b"put 0 4000000 60 100\r\n%b\r\n" % BODY for _ in range(jobs))
        client.many(schedules(rate, b"every: 1\nspread: 1"))
        worker = Client(server.address)
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            line = worker.ask(b"reserve-many 1000 1\r\n")
            count = int(line.split()[1]) if line.startswith(b"JOBS") else 0
            ids = []
            for _ in range(count):
                frame = worker.input.readline().split()
                ids.append(frame[1])
                worker.input.read(int(frame[2]) + 2)
            for at in range(0, count, 300):
                worker.ask(b"delete-many " + b" ".join(ids[at : at + 300]) + b"\r\n")
        text = client.text(b"stats-histograms limit=1\r\n")
        bounds = re.search(r'"job": \[(.*?)\]', text)
        late = re.search(r"^schedule-late: (.*)$", text, re.MULTILINE)
        assert bounds is not None, text
        assert late is not None, text
        edges = [int(each) for each in bounds[1].split(",")]
        shown = ", ".join(f"p{part} <= {quantile(late[1], edges, part / 100) / 1000} ms" for part in (50, 99))
        sys.stdout.write(f"{late[1].split()[0]} fires, {rate} a second, {jobs} delayed jobs: late {shown}\n")


def together(folder: Path, count: int) -> None:
    """So many due in the same second, with a client beside them."""
    with serving(folder) as server:
        client = Client(server.address)
        before = server.memory_bytes()[0]
        at_s = int(time.time()) + 10 + count // 1_500  # when all are set
        client.many(schedules(count, b"at: " + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s)).encode()))
        bytes_each = (server.memory_bytes()[0] - before) / count
        waits: list[float] = []
        stop = threading.Event()

        def ask_on() -> None:
            other = Client(server.address)
            other.ask(b"use other\r\n")
            while not stop.is_set():
                began_s = time.perf_counter()
                other.ask(b"put 0 0 60 1\r\nx\r\n")
                if time.time() >= at_s:
                    waits.append(time.perf_counter() - began_s)

        assert time.time() < at_s, "some were set too late to fire"
        beside = threading.Thread(target=ask_on)
        beside.start()
        time.sleep(max(at_s - time.time(), 0))
        while client.stat("schedule-fires") < count:
            time.sleep(0.02)
        last_s = time.time() - at_s
        stop.set()
        beside.join()
        waits.sort()
        p99 = waits[len(waits) * 99 // 100] * 1000
        sys.stdout.write(
            f"{count} due in one second: the last after {last_s:.2f} s; a put beside them p99 {p99:.1f} ms\n"
        )
        sys.stdout.write(f"{count} schedules: {bytes_each:.0f} bytes each\n")


def idle(folder: Path, count: int, seconds: int) -> None:
    """A start, and what a server does then while nothing is due."""
    with serving(folder) as server:
        if count:
            Client(server.address).many(schedules(count, b"cron: 0 0 1 1 *\nzone: Europe/Berlin"))
    with serving(folder) as server:
        time.sleep(10)
        before_s = server.cpu_s()
        time.sleep(seconds)
        used = 100 * (server.cpu_s() - before_s) / seconds
        sys.stdout.write(f"{count} schedules: start {server.started_s:.2f} s, then idle {used:.2f} % of a processor\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=["compare", "beside", "late", "together", "idle"], action="append")
    parser.add_argument("--count", type=int, default=100_000, help="schedules")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="delayed jobs beside the fires that are timed")
    options = parser.parse_args()
    chosen = options.only or ["compare", "beside", "late", "together", "idle"]
    if "compare" in chosen:
        compare()
    parts: dict[str, Callable[[Path], None]] = {
        "beside": beside_puts,
        "late": lambda folder: lateness(folder, options.jobs, 5_000, 20),
        "together": lambda folder: together(folder, options.count),
        "idle": lambda folder: idle(folder, options.count, 20),
        "idle none": lambda folder: idle(folder, 0, 20),
    }
    for name, run in parts.items():
        if name.split()[0] in chosen:
            with tempfile.TemporaryDirectory() as folder:
                run(Path(folder))


if __name__ == "__main__":
    main()
