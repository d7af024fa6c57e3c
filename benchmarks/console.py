"""What the console costs: its pages, the server that it looks at, that server's other clients, and memory.

Run with `python -m benchmarks.console`, or with the names of what is to be measured. The console runs in a process of
its own, as users start it. `pages`: how long each takes and how large it is, with 1 000 tubes and a million jobs.
`cpu`: processor time of the server for a command with ten pages open and a scraper, against a second server that nobody
looks at, a round here and a round there. `clients`: how long a client waits for its answers while the console lists a
million jobs and searches their bodies. `memory`: of the console, whose history is as large from the first sample on as
it is after six hours.
"""

import argparse
import http.client
import multiprocessing
import statistics
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.synchronize import Event

from benchmarks.bench.server import OURS, running
from benchmarks.metrics import TUBES, console, cpu, get, memory_mb, port_of, row, scrape_each_second
from benchmarks.rules import Talk

JOBS = 1_000_000
BIG = b"tube-big"
BIG_JOBS = 500_000
"""Jobs of the largest tube; the others share what is left."""

BODY_BYTES = 200
PUTS_AT_ONCE = 5_000
FAILED = 2_000
"""Jobs that have died, for a few reasons."""

REPEATS = 9
OPEN_PAGES = ("/", "/tubes", "/servers", "/busy", "/sessions", "/", "/tubes", "/servers", "/busy", "/tubes/tube-000")
"""The pages that are open at once, all of them live."""

CPU_ROUNDS = 12
CPU_SECONDS = 2.0
IDLE_S = 10
IN_FLIGHT = (1, 16)
ASKED = 4_000
"""Commands of the client whose waiting is measured; one each few milliseconds, as of a program that has other work."""

PAUSE_S = 0.002
MS = 1_000_000
KB = 1_000


# --- what is looked at ------------------------------------------------------------------------------------------------


def put_many(talk: Talk, tube: bytes, count: int) -> int:
    """Puts jobs, a few thousand at once; returns the last id."""
    talk.ask(b"use %b\r\n" % tube, 1)
    last = b"INSERTED 0"
    for begin in range(0, count, PUTS_AT_ONCE):
        end = min(begin + PUTS_AT_ONCE, count)
        bodies = (b'{"number": %d, "to": "user%d@example.org"}' % (each, each) for each in range(begin, end))
        puts = b"".join(b"put 0 0 60 %d\r\n%b\r\n" % (BODY_BYTES, each.ljust(BODY_BYTES)) for each in bodies)
        last = talk.ask(puts, end - begin).split(b"\r\n")[-2]
    return int(last.split()[1])


def fill(port: int) -> int:
    """Makes tubes with a million jobs, of which some have died, and some are buried or delayed; returns an id."""
    talk = Talk(port)
    for number in range(TUBES - 4):
        put_many(talk, b"tube-%03d" % number, (JOBS - BIG_JOBS) // (TUBES - 4))
    rules = b"attempts: 1\ndead: failing-dead\n"
    talk.ask(b"set-rules failing %d\r\n%b\r\n" % (len(rules), rules), 1)
    put_many(talk, b"failing", FAILED)
    talk.ask(b"watch failing\r\nignore default\r\n", 2)
    for number in range(FAILED):
        id = int(talk.ask(b"reserve\r\n", 2).split()[1])
        reason = b"Error: kind %d of failure\n  at line 7" % (number % 20)
        verb = b"fail-job %d %d\r\n%b\r\n" % (id, len(reason), reason) if number % 4 else b"bury %d 0\r\n" % id
        talk.ask(verb, 1)
    return put_many(talk, BIG, BIG_JOBS)


def base_of(metrics_url: str) -> str:
    """Where the console is."""
    return metrics_url.removesuffix("/metrics")


def open_page(address: tuple[str, int], path: str) -> None:
    """Reads what a page is sent as long as it is open, until it is ended."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("GET", path, headers={"Accept": "text/event-stream"})
    answer = connection.getresponse()
    assert answer.status == 200, f"{path}: {answer.status}"
    assert answer.getheader("Content-Type", "").startswith("text/event-stream"), path
    while answer.readline():
        pass


@contextmanager
def busy(*calls: tuple[Callable[..., None], tuple[object, ...]]) -> Iterator[None]:
    """Processes that do something until the block is left."""
    processes = [multiprocessing.Process(target=call, args=args, daemon=True) for call, args in calls]
    for each in processes:
        each.start()
    try:
        yield
        ended = [each.name for each in processes if not each.is_alive()]
        assert not ended, f"ended too early: {ended}"
    finally:
        for each in processes:
            each.terminate()
            each.join()


def opened(metrics: str) -> AbstractContextManager[None]:
    """Ten pages that stay open."""
    host, _, port = base_of(metrics).removeprefix("http://").rpartition(":")
    return busy(*((open_page, ((host, int(port)), path)) for path in OPEN_PAGES))


# --- pages ------------------------------------------------------------------------------------------------------------


def pages(id: int) -> dict[str, str]:
    """The pages that are measured, by what the table calls them."""
    big = urllib.parse.quote(BIG)
    return {
        "overview": "/",
        "tubes": "/tubes",
        "tubes, sorted by another column": "/tubes?sort=-ready",
        "a tube": f"/tubes/{big}",
        "jobs of a tube": f"/jobs?tube={big}",
        "jobs in the order of workers": f"/jobs?tube={big}&order=next",
        "jobs, far behind": f"/jobs?tube={big}&after={id - 1_000}",
        "jobs, a text that is rare": f"/jobs?tube={big}&text=user499999@",
        "a job": f"/jobs/{id}",
        "failures": "/failures",
        "busy": "/busy",
        "sessions": "/sessions",
        "rules": "/rules",
        "servers": "/servers",
        "actions": "/actions",
    }


def show_pages(port: int, id: int) -> None:
    """Prints how long each page takes, and how large it is."""
    with console(port) as (_, metrics):
        base = base_of(metrics)
        get(metrics)
        for name, path in pages(id).items():
            times, size = [], 0
            for _ in range(REPEATS):
                began_ns = time.perf_counter_ns()
                with urllib.request.urlopen(base + path, timeout=60) as answer:  # noqa: S310 - a server of ours
                    size = len(answer.read())
                times.append((time.perf_counter_ns() - began_ns) / MS)
            row(f"page: {name}", f"{statistics.median(times):.0f} ms (to {max(times):.0f}), {size / KB:.0f} kB")


# --- the server's processor -------------------------------------------------------------------------------------------


def show_cpu() -> None:
    """Prints what a command costs without a console, and with pages open and a scraper."""
    with running(OURS) as alone, running(OURS) as watched:
        for server in (alone, watched):
            talk = Talk(port_of(server))
            for number in range(TUBES - 50):
                put_many(talk, b"tube-%03d" % number, 2)
        with console(port_of(watched)) as (_, metrics):
            get(metrics)
            with opened(metrics), busy((scrape_each_second, (metrics,))):
                time.sleep(IDLE_S)  # the pages have opened
                began_s = watched.cpu_s()
                time.sleep(IDLE_S)
                share = (watched.cpu_s() - began_s) / IDLE_S
                row("the server's processor for them alone", f"{share * 1_000:.1f} ms a second")
                for in_flight in IN_FLIGHT:
                    then, now, ratio = cpu((alone, watched), in_flight, CPU_ROUNDS, CPU_SECONDS)
                    name = f"CPU a command with {len(OPEN_PAGES)} pages and a scraper, 50 x {in_flight}"
                    row(name, f"{then:.3f} µs, {now:.3f} µs, {ratio:.3f} ×")


# --- its other clients ------------------------------------------------------------------------------------------------


def waits_ms(port: int, count: int = ASKED) -> list[float]:
    """How long a client waits for each of its answers, from the shortest on."""
    talk = Talk(port, b"other")
    taken = []
    for _ in range(count):
        time.sleep(PAUSE_S)
        began_ns = time.perf_counter_ns()
        talk.ask(b"put 0 0 60 4\r\nbody\r\n", 1)
        id = talk.ask(b"reserve-with-timeout 0\r\n", 2).split()[1]
        talk.ask(b"delete %b\r\n" % id, 1)
        taken.append((time.perf_counter_ns() - began_ns) / 3 / MS)
    return sorted(taken)


def read_again_and_again(urls: tuple[str, ...], began: Event) -> None:
    """Asks for one page after the other, until it is ended."""
    while True:
        for url in urls:
            with suppress(OSError), urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a server of ours
                answer.read()
            began.set()


def show_clients(port: int, id: int) -> None:
    """Prints how long a client waits when nobody looks, and while the console lists and searches."""

    def measure(name: str) -> None:
        taken = waits_ms(port)
        p99, longest = taken[len(taken) * 99 // 100], taken[-1]
        row(
            f"a client's answer, {name}",
            f"median {taken[len(taken) // 2]:.2f} ms, p99 {p99:.2f} ms, {longest:.1f} at most",
        )

    big = urllib.parse.quote(BIG)
    measure("nobody looks")
    with console(port) as (_, metrics):
        base = base_of(metrics)
        listing = tuple(f"{base}/jobs?tube={big}&after={after}" for after in range(id - BIG_JOBS, id, 1_000))
        searching = tuple(f"{base}/jobs?tube={big}&text=nowhere&after={each}" for each in range(0, id, 50_000))
        for name, urls in {
            "jobs are listed": listing,
            "bodies are searched": searching,
            "export": (f"{base}/jobs.jsonl?tube={big}",),
        }.items():
            began = multiprocessing.Event()
            with busy((read_again_and_again, (urls, began))):
                began.wait(60)
                measure(name)


# --- memory -----------------------------------------------------------------------------------------------------------


def show_memory(port: int, id: int) -> None:
    """Prints the memory of the console, new, and when it has shown each page and ten of them are open."""
    with console(port) as (pid, metrics):
        get(metrics)
        row("memory of the console, new", f"{memory_mb(pid):.0f} MB")
        for path in pages(id).values():
            with urllib.request.urlopen(base_of(metrics) + path, timeout=60) as answer:  # noqa: S310 - a server of ours
                answer.read()
        with opened(metrics):
            time.sleep(IDLE_S)
            row(f"the same with {len(OPEN_PAGES)} pages open", f"{memory_mb(pid):.0f} MB")


def main() -> None:
    """Take what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["pages", "cpu", "clients", "memory", []], default=[])
    what = parser.parse_args().what or ["pages", "cpu", "clients", "memory"]
    if "cpu" in what:
        show_cpu()
    if {"pages", "clients", "memory"} & set(what):
        with running(OURS) as server:
            port = port_of(server)
            began = time.monotonic()
            id = fill(port)
            sys.stdout.write(f"filled in {time.monotonic() - began:.0f} s\n")
            if "pages" in what:
                show_pages(port, id)
            if "clients" in what:
                show_clients(port, id)
            if "memory" in what:
                show_memory(port, id)


if __name__ == "__main__":
    main()
