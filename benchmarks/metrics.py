"""What metrics cost: a command, a scrape, a turn, and memory.

Run with `python -m benchmarks.metrics --before COMMAND`, where COMMAND starts a server without histograms, a template
as for `make bench`'s `--ours`. Both servers run at once, a round here and a round there, so that whatever else the
machine does meets both; what counts of a command is the processor time of the server. Without `--before` only the
others of the figures are taken: a scrape of a server with 1 000 tubes, how long its turns are while it makes pages, and
the memory of the process that serves HTTP.
"""

import argparse
import gzip
import multiprocessing
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.turn import Turn
from benchmarks.bench.guest import measure, new_name
from benchmarks.bench.plan import Group
from benchmarks.bench.server import HOST, OURS, Server, running
from benchmarks.rules import Talk
from tests.unit.server.memory_transport import MemoryTransport

CONNECTIONS = 50
IN_FLIGHT = (1, 16, 100)
TUBES = 1_000
SESSIONS = 1_000
WATCHED = 20
ROUNDS = 60
SECONDS = 0.2
"""Of a round: many short ones, of which few meet what else the machine does."""

SCRAPED_ROUNDS = 12
SCRAPED_SECONDS = 2.0
"""Of a round in which the server is scraped, several times."""

SCRAPES = 15
SAMPLE_S = 1.1
"""Seconds after which the console takes another sample."""

PAGE_REPEATS = 30
TURNS_MAX = 10_000
MS = 1_000_000
SECOND_NS = 1_000_000_000
CONSOLE = (sys.executable, "-m", "beanpole", "console", "--http", f"{HOST}:0")


def fill(port: int, tubes: int) -> None:
    """Makes tubes that have had a bit of everything, and keep a job."""
    talk = Talk(port)
    for number in range(tubes):
        name = b"tube-%03d" % number
        talk.ask(b"use %b\r\n" % name + b"put 0 0 60 4\r\nbody\r\n" * 2 + b"watch %b\r\nignore default\r\n" % name, 5)
        talk.ask(b"reserve\r\ndelete %d\r\nwatch default\r\nignore %b\r\n" % (2 * number + 1, name), 5)


def port_of(server: Server) -> int:
    """The port of a server."""
    assert not isinstance(server.address, str)
    return server.address[1]


# --- the console ------------------------------------------------------------------------------------------------------


@contextmanager
def console(port: int) -> Iterator[tuple[int, str]]:
    """A console for a server: its process and its URL."""
    with tempfile.TemporaryDirectory() as folder:
        ready_file = Path(folder, "ready")
        command = [*CONSOLE, "--url", f"{HOST}:{port}", "--ready-file", str(ready_file)]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            give_up_at = time.monotonic() + 60
            while not ready_file.exists() or not ready_file.read_text().endswith("\n"):
                assert process.poll() is None, Path(folder, "log").read_text()
                assert time.monotonic() < give_up_at, "the console does not start"
                time.sleep(0.01)
            address = ready_file.read_text().split()[0].removeprefix("http:")
            yield process.pid, f"http://{address}/metrics"
        finally:
            process.terminate()
            process.wait(30)


def get(url: str) -> bytes:
    """What Prometheus is sent, before it unpacks it."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})  # noqa: S310 - a server of ours
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return bytes(answer.read())


def scrape_each_second(url: str) -> None:
    """What Prometheus does, until it is ended."""
    while True:
        get(url)
        time.sleep(1)


@contextmanager
def scraped(port: int) -> Iterator[None]:
    """A console, and a scraper that asks it each second."""
    with console(port) as (_, url):
        get(url)
        scraper = multiprocessing.Process(target=scrape_each_second, args=(url,), daemon=True)
        scraper.start()
        try:
            yield
        finally:
            scraper.terminate()
            scraper.join()


def memory_mb(pid: int) -> float:
    """Resident megabytes of a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1_000


# --- the figures ------------------------------------------------------------------------------------------------------


def cpu(servers: Sequence[Server], in_flight: int, rounds: int, seconds: float) -> tuple[float, float, float]:
    """Microseconds of each server's processor for a command, and the ratio of the second and the first."""
    samples = []
    for number in range(rounds):
        order = servers if number % 2 else servers[::-1]
        taken = []
        for server in order:
            group = Group(connections=CONNECTIONS, in_flight=in_flight, name=new_name())
            found = measure(server.address, group, seconds, server.pid).server_cpu_us
            assert found is not None
            taken.append(found)
        samples.append(taken if number % 2 else taken[::-1])
    before, after = (statistics.median(column) for column in zip(*samples, strict=True))
    return before, after, statistics.median(now / then for then, now in samples)


def show_cpu(before: Sequence[str], in_flights: Sequence[int]) -> None:
    """Prints what a command costs, before and now, and with a scraper and many tubes."""
    with running(before) as old, running(OURS) as new:
        for in_flight in in_flights:
            then, now, ratio = cpu((old, new), in_flight, ROUNDS, SECONDS)
            row(
                f"CPU a command with histograms, {CONNECTIONS} x {in_flight}",
                f"{then:.3f} µs, {now:.3f} µs, {ratio:.3f} ×",
            )
    with running(before) as old, running(OURS) as new:
        for server in (old, new):
            fill(port_of(server), TUBES - CONNECTIONS)
        with scraped(port_of(new)):
            for in_flight in in_flights:
                then, now, ratio = cpu((old, new), in_flight, SCRAPED_ROUNDS, SCRAPED_SECONDS)
                name = f"the same with a scraper each second and {TUBES} tubes, {CONNECTIONS} x {in_flight}"
                row(name, f"{then:.3f} µs, {now:.3f} µs, {ratio:.3f} ×")


def show_scrapes() -> None:
    """Prints how long a scrape takes, how large it is, and the memory of the process that answers it."""
    with running(OURS) as server:
        fill(port_of(server), TUBES)
        with console(port_of(server)) as (pid, url):
            times = []
            for _ in range(SCRAPES):
                time.sleep(SAMPLE_S)
                began_ns = time.perf_counter_ns()
                packed = get(url)
                times.append((time.perf_counter_ns() - began_ns) / MS)
            row(f"scrape of {TUBES} tubes", f"{statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f})")
            row("its size", f"{len(gzip.decompress(packed)) / 1e6:.2f} MB plain, {len(packed) / 1e3:.0f} kB gzip")
            row(f"memory of the process, {TUBES} tubes", f"{memory_mb(pid):.0f} MB")


def show_pages() -> None:
    """Prints the longest turn of those that make a page."""
    log = Log()
    turn = Turn(Engine(now_ns=1, records=log.records), log)
    client = MemoryTransport(turn)
    now_ns = SECOND_NS
    for number in range(TUBES):
        name = b"tube-%03d" % number
        for _ in range(20):
            client.arrive(b"use %b\r\nput 0 0 60 1\r\nx\r\nwatch %b\r\nreserve\r\n" % (name, name))
            now_ns += (1 << number % 20) * 1_000_000
            turn.run(now_ns)
            id = client.output.rsplit(b"RESERVED ", 1)[1].split()[0]
            client.arrive(b"delete %b\r\nput 0 0 60 1\r\nx\r\nignore %b\r\n" % (id, name))
            turn.run(now_ns + 700_000 * (number + 1))
            client.output = b""
    for number in range(SESSIONS):
        other = MemoryTransport(turn)
        watches = b"".join(b"watch tube-%03d\r\n" % (number + each) for each in range(WATCHED))
        other.arrive(b"name-session machine-%d:%d worker\r\n" % (number, number) + watches)
        turn.run(now_ns)
    for command in (b"stats-histograms", b"list-sessions"):
        longest_ns, size = longest_turn(turn, client, command, lambda: now_ns)
        row(f"a page of {command.decode()}", f"{longest_ns / MS:.2f} ms of a turn; {size / 1e3:.0f} kB")


def longest_turn(turn: Turn, client: MemoryTransport, command: bytes, now: Callable[[], int]) -> tuple[int, int]:
    """Nanoseconds of the longest turn that makes a page, and its bytes; of each turn the best of several tries."""
    best: list[int] = []
    for _ in range(PAGE_REPEATS):
        client.output = b""
        client.arrive(command + b"\r\n")
        for number in range(TURNS_MAX):
            began_ns = time.thread_time_ns()
            turn.run(now())
            took_ns = time.thread_time_ns() - began_ns
            best[number : number + 1] = [min([took_ns, *best[number : number + 1]])]
            if client.output:
                break
        assert client.output.startswith(b"OK "), client.output[:100]
    return max(best), len(client.output)


def row(name: str, figure: str) -> None:
    """Prints a row."""
    sys.stdout.write(f"| {name} | {figure} |\n")
    sys.stdout.flush()


def main() -> None:
    """Take what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", metavar="COMMAND", help="what starts a server without histograms")
    parser.add_argument("--in-flight", type=int, nargs="*", default=IN_FLIGHT)
    parser.add_argument("--no-scrapes", action="store_true")
    given = parser.parse_args()
    show_pages()
    if not given.no_scrapes:
        show_scrapes()
    if given.before:
        show_cpu(shlex.split(given.before), given.in_flight)


if __name__ == "__main__":
    main()
