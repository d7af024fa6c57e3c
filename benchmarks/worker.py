"""How many jobs a second a program gets done: put by a client, worked off by `beanpole worker`, with a log and without.

Run with `python -m benchmarks.worker`. The jobs are empty and so is the handler, `noop` below: what is left is the
queue, the client and the worker, as in the figures that other queues publish in jobs/s.

    put: bodies of 100 bytes, by one client, one call at a time and by `put_many`
    work off: the jobs lie there and the worker waits beside a paused tube; from the end of the pause to the last delete
    in batches: the same with a handler that is called with 100 jobs at a time, by one slot
    put to done: the worker waits at an empty tube; from the first put to the last delete

Servers take turns, each freshly started, and medians are printed. With a log each put is synced before its reply, which
beanstalkd does with `-f 0`. Processor time of a job hardly depends on what else the machine does.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from beanpole import Client, Task, Worker
from benchmarks.bench import machine
from benchmarks.bench.report import as_markdown, as_text, number, ratio, times
from benchmarks.bench.server import OURS, THEIRS, Server, installed, running, stop, uninterrupted

TUBE = "noop"
BODY = b"x" * 100
CALLS = 2_000
"""Puts that wait for each other in a round."""
PAUSE_S = 3600
POLL_S = 0.005
"""How often the server is asked whether all is done: at most this much later it is seen."""
GIVE_UP_S = 600.0

LOG = ("-b", "{data}", "-f", "0")
SERVERS = {
    "Beanpole": (OURS, ()),
    "beanstalkd": (THEIRS, ()),
    "Beanpole, log": (OURS, LOG),
    "beanstalkd, log": (THEIRS, LOG),
}
"""Who is measured: a command line, and the flags that are added."""

KEPT = Path(__file__).parent / "results" / "worker.json"

HEAD = ("what", "Beanpole", "beanstalkd", "ratio", "Beanpole, log", "beanstalkd, log", "ratio, log")
"""Of the table that is printed."""

worker = Worker()


@worker.handler(TUBE)
async def noop(task: Task[bytes]) -> None:
    """Do nothing."""


def wait(until: Callable[[], bool], process: subprocess.Popen[bytes]) -> float:
    """Return when it is so, by the clock of `time.perf_counter`."""
    give_up_at_s = time.monotonic() + GIVE_UP_S
    while not until():
        assert process.poll() is None, "the worker has ended"
        assert time.monotonic() < give_up_at_s, "this takes too long"
        time.sleep(POLL_S)
    return time.perf_counter()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process and of those that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9 + sum(cpu_s(int(child)) for child in children)


batching = Worker()


@batching.handler(TUBE, batch=100, linger=0.2)
async def noop_many(tasks: list[Task[bytes]]) -> None:
    """Do nothing."""


@contextmanager
def working(
    server: Server, client: "Client[bytes]", processes: int, name: str = "worker"
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker that waits for jobs, with its own ten at a time in each process."""
    assert not isinstance(server.address, str)
    host, port = server.address
    command = [sys.executable, "-m", "beanpole", "worker", f"{__spec__.name}:{name}", "--url", f"{host}:{port}"]
    with tempfile.TemporaryFile() as log:
        with uninterrupted():
            process = subprocess.Popen([*command, "--processes", str(processes)], stdout=log, stderr=log)
        try:
            slots = {"worker": worker, "batching": batching}[name].slots
            wait(lambda: client.stats_tube(TUBE).current_waiting == processes * slots, process)
            yield process
        finally:
            stop(process)


def measure(
    command: tuple[tuple[str, ...], tuple[str, ...]], jobs: int, processes: tuple[int, ...]
) -> dict[str, float]:
    """Return the figures of one server, each by what it is of."""
    found: dict[str, float] = {}
    bodies = [BODY] * jobs
    with (
        tempfile.TemporaryDirectory(prefix="beanpole-bench-data-") as data,
        running(*command, Path(data)) as server,
        Client(server.address, None, use=TUBE, watch=TUBE) as client,
    ):
        began_s = time.perf_counter()
        for _ in range(CALLS):
            client.put(BODY)
        found["put, one at a time: jobs/s"] = CALLS / (time.perf_counter() - began_s)
        client.clear_tube(TUBE)

        def none_left() -> bool:
            tube = client.stats_tube(TUBE)
            return not tube.current_jobs_ready and not tube.current_jobs_reserved

        client.pause_tube(TUBE, PAUSE_S)
        client.put_many(bodies)
        with working(server, client, 1, "batching") as process:
            before_s = cpu_s(process.pid)
            began_s = time.perf_counter()
            client.pause_tube(TUBE, 0)
            found["work off in batches, 1 process: jobs/s"] = jobs / (wait(none_left, process) - began_s)
            found["work off in batches: CPU of the worker a job, µs"] = (cpu_s(process.pid) - before_s) / jobs * 1e6

        for count in processes:
            suffix = f", {count} process{'es' * (count > 1)}"
            client.pause_tube(TUBE, PAUSE_S)
            began_s = time.perf_counter()
            client.put_many(bodies)
            found["put_many: jobs/s"] = jobs / (time.perf_counter() - began_s)
            with working(server, client, count) as process:
                used_s = server.cpu_s(), cpu_s(process.pid)
                began_s = time.perf_counter()
                client.pause_tube(TUBE, 0)
                found[f"work off{suffix}: jobs/s"] = jobs / (wait(none_left, process) - began_s)
                used_s = server.cpu_s() - used_s[0], cpu_s(process.pid) - used_s[1]
                for who, each_s in zip(("server", "worker"), used_s, strict=True):
                    found[f"work off{suffix}: CPU of the {who} a job, µs"] = each_s / jobs * 1e6
                began_s = time.perf_counter()
                client.put_many(bodies)
                found[f"put to done{suffix}: jobs/s"] = jobs / (wait(none_left, process) - began_s)
    return found


def cells_of(rows: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return the lines of the table that is printed."""
    lines = []
    for row in rows:
        line = [row["name"]]
        for ours, theirs in (("Beanpole", "beanstalkd"), ("Beanpole, log", "beanstalkd, log")):
            pair = row.get(ours), row.get(theirs)
            line += [*map(number, pair), times(ratio(*pair))]
        lines.append(line)
    return lines


def main() -> None:
    """Print a line for each figure, the servers beside each other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", nargs="+", choices=[*SERVERS], default=[*SERVERS])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the medians in benchmarks/results")
    options = parser.parse_args()
    if min(options.rounds, options.jobs, *options.processes) < 1:
        parser.error("--rounds, --jobs and --processes are 1 or more")
    facts = machine.describe([THEIRS])
    servers = {name: each for name, each in SERVERS.items() if name in options.servers and installed(each[0])}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
    for turn in range(options.rounds):
        for name, command in servers.items():
            sys.stderr.write(f"round {turn + 1} of {options.rounds}, {name}\n")
            rounds[name].append(measure(command, options.jobs, tuple(options.processes)))
    medians = {
        name: {figure: statistics.median(each[figure] for each in measured) for figure in measured[0]}
        for name, measured in rounds.items()
    }
    rows = [
        {"name": figure, **{name: measured[figure] for name, measured in medians.items()}}
        for figure in next(iter(medians.values()))
    ]
    facts |= {"each figure": f"median of {options.rounds} rounds of {options.jobs} jobs"}
    if options.keep:
        KEPT.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    table = as_markdown if options.markdown else as_text
    sys.stdout.write(table(HEAD, cells_of(rows)) + "\n")


if __name__ == "__main__":
    main()
