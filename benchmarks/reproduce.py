"""Our most important figures, each with the command that it comes from: runs it, and prints ours beside yours.

    make reproduce
    make reproduce BENCH_FLAGS='jobs cycle-50x16'

runs all of them, or those whose names begin like that; `--list` names them. What depends on the processor and the disk
is printed without a judgement. A ratio of two servers, or of one with something and without, should be nearly the same
everywhere, and the last column says whether it is.

`FIGURES` is the table; docs/reproduce.md shows it, as `--write` writes it. The figures of `make bench` are those of the
run that is kept in `benchmarks/results`, which `python -m benchmarks.charts` replaces.
"""

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks import worker
from benchmarks.bench import machine
from benchmarks.bench.report import ASKED_HEAD, as_text, number, ratio, times
from benchmarks.bench.server import THEIRS
from benchmarks.charts import ROOT, kept_run, results
from benchmarks.charts import machine as machine_of

NEAR = 1.5
"""How many times ours a ratio may be, or ours it, and still count as the same: other processors differ by less."""

BUSY = 1.0
"""Load average above which rates were taken on a machine that had something else to do."""

PAGE = ROOT / "docs" / "reproduce.md"
BEGIN, END = "<!-- figures: written by python -m benchmarks.reproduce --write -->\n", "<!-- end of figures -->"


@dataclass(frozen=True)
class Figure:
    """One figure that we publish."""

    name: str
    what: str
    """What was measured, its unit last unless it is a ratio."""
    ours: float
    command: tuple[str, ...]
    """A module and its arguments. Figures of the same command come from one run of it."""
    row: str
    """How the line begins in which the command prints it; cells stand behind, two spaces or more apart."""
    column: int
    """Which of these cells it is, from 0."""
    is_ratio: bool = True
    steady: bool = True
    """Whether a ratio is nearly the same on every machine; one that the disk decides is not."""

    def shown(self, value: float | None) -> str:
        """Return a value of it as it is printed."""
        return times(value) if self.is_ratio else number(value)

    def find(self, output: str) -> float | None:
        """Return the value in what the command has printed; None: it is not there."""
        for line in output.splitlines():
            if line.startswith(f"{self.row}  "):
                cells = re.split(r" {2,}", line.removeprefix(self.row).strip())
                match = re.match(r"[\d ,]*\d(\.\d+)?", cells[self.column]) if self.column < len(cells) else None
                return float(re.sub(r"[ ,]", "", match[0])) if match else None
        return None

    def verdict(self, value: float | None) -> str:
        """Return how a value stands to ours."""
        if value is None:
            return "not measured"
        if not self.is_ratio or not self.steady:
            return "depends on the machine"
        return "as ours" if self.ours / NEAR <= value <= self.ours * NEAR else f"not within {NEAR} times ours"


def of_bench(name: str, what: str, *, column: str = "ratio", steady: bool = True) -> Figure:
    """Return the figure of a row of `make bench`: its `ratio` to beanstalkd, `floor` or its `own` baseline; `ours`."""
    row = {**results("speed"), **results("durable"), **results("floor")}[name]
    value = {
        "ratio": ratio(row.get("ours"), row.get("theirs")),
        "floor": ratio(row.get("ours"), row.get("floor")),
        "own": row.get("own_ratio"),
        "ours": row["ours"],
    }[column]
    assert value is not None, f"{name} was not compared"
    rounds, seconds = ("16", "0.5") if column == "floor" else ("3", "1")  # where a start puts its memory moves a turn
    command = ("benchmarks.bench", "--only", name, "--rounds", rounds, "--seconds", seconds)
    cell = ASKED_HEAD.index({"ratio": "ratio", "floor": "floor ×", "own": "own ×", "ours": "ours"}[column]) - 1
    return Figure(name, what, value, command, name, cell, column != "ours", steady)


WORKER = ("benchmarks.worker", "--servers", "Beanpole", "Beanpole, log", "beanstalkd")
WORKER_CPU = "work off, 1 process: CPU of the server a job, µs"


def of_worker_cpu(name: str, what: str) -> Figure:
    """Return how many times the processor time ours takes that beanstalkd does."""
    kept = results("worker")[WORKER_CPU]
    return Figure(name, what, kept["Beanpole"] / kept["beanstalkd"], WORKER, WORKER_CPU, worker.HEAD.index("ratio") - 1)


def of_worker(name: str, row: str) -> tuple[Figure, Figure]:
    """Return the figures of a row of `benchmarks.worker`: without a log, and with one that syncs before each reply."""
    kept = results("worker")[row]
    first, second = (
        Figure(name, row, kept[head], WORKER, row, worker.HEAD.index(head) - 1, is_ratio=False)
        for head in ("Beanpole", "Beanpole, log")
    )
    return first, replace(second, name=f"{name}-log", what=f"with a log: {row}")


RULED = ("attempts, backoff", "concurrency, not reached")
RULES = ("benchmarks.rules", "1000", "--in-flight", "16", "--puts", "--rules", *RULED)


def of_rule(name: str, what: str, rules: str) -> Figure:
    """Return a figure of `benchmarks.rules`."""
    return Figure(name, f"CPU a command in a tube with {what}, of that without", 1.0, RULES, f"{rules}, 50x16", 2)


CLIENT = ("benchmarks.client",)
CROWD = "as many times as without the crowd"

FIGURES = (
    of_bench(
        "cycle-50x1", "CPU a command beside beanstalkd; 50 connections put, reserve and delete, one at a time each"
    ),
    of_bench("cycle-50x16", "CPU a command beside beanstalkd, 16 in flight each"),
    of_bench("cycle-50x100", "CPU a command beside beanstalkd, 100 in flight each"),
    of_bench("tubes-10000", f"CPU a command with 10 000 other tubes, {CROWD}", column="own"),
    of_bench("held-100000", f"CPU a delete with 100 000 jobs held, {CROWD}", column="own"),
    of_bench("idle-10000", f"CPU a command with 10 000 idle connections, {CROWD}", column="own"),
    of_bench("memory-1m", "memory of a ready job of 100 bytes beside beanstalkd"),
    of_bench("start", "start, until the first command is answered, ms", column="ours"),
    of_bench("durable-put-50x16", "synced puts a second beside beanstalkd; 50 connections, 16 in flight", steady=False),
    of_bench("durable-cycle-50x16", "put, reserve, delete with a log, of those without", column="own", steady=False),
    of_bench("durable-replay-1m", "start with a log of a million jobs beside beanstalkd"),
    of_bench("durable-disk", "bytes written a command beside beanstalkd"),
    of_bench(
        "floor-1x1", "CPU a command beside a C program that only answers; one connection, one at a time", column="floor"
    ),
    of_bench("floor-50x1", "the same, 50 connections", column="floor"),
    of_bench("floor-lone-put", "the same, one synced put at a time", column="floor", steady=False),
    *of_worker("jobs-put", "put, one at a time: jobs/s"),
    *of_worker("jobs-put-many", "put_many: jobs/s"),
    *of_worker("jobs-work-1", "work off, 1 process: jobs/s"),
    *of_worker("jobs-work-2", "work off, 2 processes: jobs/s"),
    *of_worker("jobs-done-2", "put to done, 2 processes: jobs/s"),
    of_worker_cpu("jobs-cpu", "CPU of the server a job beside beanstalkd, with the same worker"),
    Figure("client-put", "puts of the client, one at a time, beside greenstalk's", 1.04, CLIENT, "put, Client", 2),
    Figure(
        "client-reserve",
        "reserves of the client, one at a time, beside greenstalk's",
        1.14,
        CLIENT,
        "reserve, Client",
        2,
    ),
    Figure(
        "client-delete", "deletes of the client, one at a time, beside greenstalk's", 1.00, CLIENT, "delete, Client", 2
    ),
    of_rule("rules-attempts", "`attempts` and `backoff`", "attempts, backoff"),
    of_rule("rules-concurrency", "a `concurrency`", "concurrency, not reached"),
)


def chosen(names: Sequence[str]) -> list[Figure]:
    """Return the figures that are called like that or begin so, all without a name."""
    for name in names:
        if not any(each.name.startswith(name) for each in FIGURES):
            raise SystemExit(f"no figure is called {name!r} or begins like that; --list names them all")
    exact = {each.name for each in FIGURES} & set(names)
    begin = tuple(name for name in names if name not in exact)
    return [each for each in FIGURES if not names or each.name in exact or (begin and each.name.startswith(begin))]


def run(command: Sequence[str]) -> str:
    """Return what a benchmark prints; what it says of its progress is shown."""
    sys.stderr.write(f"python -m {' '.join(command)}\n")
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    ).stdout


def compare(figures: Sequence[Figure]) -> tuple[str, bool]:
    """Run the commands of figures, each once; return the table of ours and yours, and whether all were measured."""
    outputs = {command: run(command) for command in dict.fromkeys(each.command for each in figures)}
    values = [each.find(outputs[each.command]) for each in figures]
    lines = [
        (each.name, each.what, each.shown(each.ours), each.shown(value), each.verdict(value))
        for each, value in zip(figures, values, strict=True)
    ]
    return as_text(("name", "what", "ours", "yours", ""), lines), None not in values


def page(before: str) -> str:
    """Return the page with the table of figures between its markers."""
    head, found, rest = before.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    assert found, f"{PAGE} has no place for the figures"
    assert closed, f"the figures of {PAGE} do not end"
    lines = [(f"`{each.name}`", each.what, each.shown(each.ours)) for each in FIGURES]
    rows = [f"| {' | '.join(line)} |" for line in (("Name", "What", "Ours"), *lines)]
    where = f"`jobs-...`: {machine_of('worker')}"
    if float(kept_run("worker")["machine"]["load average before"]) > BUSY:
        where += " Other programs kept that machine busy: left alone it does more jobs/s, at the same processor time."
    return "\n".join([head + BEGIN, rows[0], "|---|---|--:|", *rows[1:], "", where, "", END]) + tail


def main() -> int:
    """Return 1 when a figure could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a figure, or how figures begin")
    parser.add_argument("--list", action="store_true", help="print ours and the commands, and run nothing")
    parser.add_argument("--write", action="store_true", help="write the table of docs/reproduce.md, and run nothing")
    given = parser.parse_args()
    figures = chosen(given.names)
    if given.write:
        PAGE.write_text(page(PAGE.read_text()))
    elif given.list:
        lines = [(each.name, each.what, each.shown(each.ours), shlex.join(each.command)) for each in figures]
        sys.stdout.write(as_text(("name", "what", "ours", "python -m"), lines) + "\n")
    else:
        facts = machine.describe([THEIRS])
        table, complete = compare(figures)
        sys.stdout.write("\n".join(f"{name}: {value}" for name, value in facts.items()) + f"\n\n{table}\n")
        return 0 if complete else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
