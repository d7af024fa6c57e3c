"""Writes the charts and the tables of the documentation from what the benchmark has measured.

    python -m benchmarks.bench --table speed --json speed.json
    python -m benchmarks.bench --table durable --json durable.json
    python -m benchmarks.charts speed.json durable.json

keeps the medians of these runs in `benchmarks/results`, and writes `docs/pictures/*.svg` and the tables between the
markers of docs/performance.md from them. Without an argument it writes them from the results that are there; a test
fails when the pages are not what this writes.
"""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.bench.report import number, ratio, times
from benchmarks.bench.tables import TABLES
from benchmarks.svg import Bar, Chart, Group, arrow, draw, picture, rectangle, text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = Path("docs/pictures")
PAGE = Path("docs/performance.md")
KEPT = ("name", "ours", "theirs", "against", "own_ratio", "their_own_ratio")
"""What is kept of a row of a run: its medians. Its title is in the row itself."""

HEADS = {"speed": "Without a log", "durable": "With a log"}
IN_FLIGHT = {"cycle-50x1": "one at a time", "cycle-50x16": "16 in flight", "cycle-50x100": "100 in flight"}
LOADS = {
    "tubes-10000": "10 000 other tubes: CPU a command",
    "held-100000": "100 000 jobs held: CPU a delete",
    "idle-10000": "10 000 idle connections: CPU a command",
}
DURABLE = {
    "durable-put-50x1": "puts, one at a time",
    "durable-put-50x16": "puts, 16 in flight",
    "durable-cycle-50x16": "put + reserve + delete, 16 in flight",
}

WHAT = {
    "cycle-50x1": "put, reserve, delete; 50 connections, one command at a time each: CPU a command, µs",
    "cycle-50x16": "the same, 16 in flight, µs",
    "cycle-50x100": "the same, 100 in flight, µs",
    "latency-1x1": "one connection, one command at a time: p50 latency, µs",
    "tubes-10000": "10 000 other tubes beside 50 connections, 16 in flight: CPU a command, µs",
    "held-100000": "a connection that holds 100 000 jobs: CPU a delete, µs",
    "idle-10000": "10 000 idle connections beside 50, 16 in flight: CPU a command, µs",
    "memory-1m": "a million ready jobs of 100 bytes: memory a job, bytes",
    "start": "start, until the first command is answered, ms",
    "others-60000": "50 connections beside one that moves bodies of 60 000 bytes, 16 in flight: p99 latency, µs",
    "others-60000x1": "the same, its bodies one at a time, µs",
    "durable-put-50x1": "puts; 50 connections, one command at a time each: commands/s",
    "durable-put-50x16": "the same, 16 in flight",
    "durable-cycle-50x16": "put, reserve, delete; 50 connections, 16 in flight: commands/s",
    "durable-late-50x1": "puts against beanstalkd with `-f 50`, one at a time: commands/s",
    "durable-lone-put": "one put at a time: p50 latency above that of one `fdatasync`, µs",
    "durable-lone-put-apart": "the same, server and client on a core each, µs",
    "durable-replay-1m": "start with a log of a million jobs of 100 bytes, ms",
    "durable-disk": "put and delete of jobs of 100 bytes: bytes written a command",
}
"""What the rows of the tables say: what was done, then the figure with its unit."""

Result = dict[str, Any]


def keep(run: Result) -> tuple[str, Result]:
    """Return the table that a run is of, and what is kept of it."""
    names = {row["name"] for row in run["rows"]}
    table = next(table for table in HEADS if names == {row.name for row in TABLES[table]})
    rows = [{key: row[key] for key in KEPT if row.get(key) is not None} for row in run["rows"]]
    return table, {"machine": run["machine"], "rows": rows}


def kept_run(name: str) -> Result:
    """Return the run that is kept under a name."""
    run: Result = json.loads((RESULTS / f"{name}.json").read_text())
    return run


def rows_of(run: Result) -> dict[str, Result]:
    """Return the rows of a run by their names."""
    return {row["name"]: row for row in run["rows"]}


def results(name: str) -> dict[str, Result]:
    """Return the rows that are kept under a name, by their own names."""
    return rows_of(kept_run(name))


def percent(value: float) -> str:
    """Return a share of what beanstalkd takes."""
    return f"{100 * value:.{0 if value >= 0.095 else 1}f} %"


def cpu_chart(run: Result) -> Chart:
    """Return the chart of the home page: the processor time of a command, of the servers that one run has measured."""
    rows = rows_of(run)
    servers = {"theirs": "beanstalkd", "against": run["machine"].get("against"), "ours": "Beanpole"}
    measured = [kind for kind in servers if all(kind in rows[name] for name in IN_FLIGHT)]
    groups = []
    for name, label in IN_FLIGHT.items():
        shares = [(kind, rows[name][kind] / rows[name]["theirs"]) for kind in measured]
        groups.append(Group(label, tuple(Bar(kind, servers[kind], value, percent(value)) for kind, value in shares)))
    return Chart(
        "Processor time of a command",
        ("50 connections put, reserve and delete;", "beanstalkd = 100 %, less is better"),
        tuple(groups),
    )


def load_chart() -> Chart:
    """Return the chart of how a command's cost grows with what else the server has."""
    speed = results("speed")
    groups = []
    for name, label in LOADS.items():
        own = (("theirs", "beanstalkd", "their_own_ratio"), ("ours", "Beanpole", "own_ratio"))
        groups.append(
            Group(label, tuple(Bar(kind, who, speed[name][key], times(speed[name][key])) for kind, who, key in own))
        )
    return Chart(
        "What a crowd costs the others",
        ("times as much as without the crowd;", "logarithmic, less is better"),
        tuple(groups),
        logarithmic=True,
    )


def durable_chart() -> Chart:
    """Return the chart of commands a second when each is on the disk before it is answered."""
    durable = results("durable")
    groups = []
    for name, label in DURABLE.items():
        both = (("theirs", "beanstalkd", "theirs"), ("ours", "Beanpole", "ours"))
        groups.append(
            Group(
                label, tuple(Bar(kind, who, durable[name][key], number(durable[name][key])) for kind, who, key in both)
            )
        )
    return Chart(
        "Commands a second, on disk first",
        ("synced before they are answered, 50 connections;", "each pair has its own scale, more is better"),
        tuple(groups),
    )


def overview() -> str:
    """Return the picture of the home page: how a job goes from a producer to its end."""

    def box(x: float, y: float, width: float, words: str, under: str) -> list[str]:
        middle = x + width / 2
        return [
            rectangle(x, y, width, 78, "box"),
            text(middle, y + 33, words, "strong middle"),
            text(middle, y + 61, under, "quiet middle"),
        ]

    parts = [
        *box(40, 20, 160, "console", "why jobs fail"),
        *box(240, 20, 160, "producer", "puts a job"),
        *box(440, 20, 160, "worker", "does it"),
        rectangle(20, 140, 600, 330, "frame"),
        text(36, 174, "beanpole serve", "strong"),
        *box(40, 190, 160, "delayed", "until its time"),
        *box(240, 190, 160, "ready", "in a tube"),
        *box(440, 190, 160, "reserved", "by one worker"),
        *box(40, 370, 160, "buried", "with its error"),
        *box(240, 370, 360, "log", "on disk, or of a cluster"),
        arrow([(120, 98), (120, 140)]),
        arrow([(320, 98), (320, 190)]),
        arrow([(400, 229), (440, 229)]),
        arrow([(200, 229), (240, 229)]),
        arrow([(490, 190), (490, 98)]),
        arrow([(550, 98), (550, 190)]),
        arrow([(520, 268), (520, 304), (120, 304), (120, 268)]),
        arrow([(520, 268), (520, 336), (120, 336), (120, 370)]),
        text(500, 296, "fails: again later", "quiet end"),
        text(500, 329, "fails too often", "quiet end"),
    ]
    return picture(490, "A producer puts a job, a worker reserves it; one that fails is tried again or buried", parts)


def pictures() -> dict[Path, str]:
    """Return every picture that this program draws."""
    drawn = {"cpu": draw(cpu_chart(kept_run("speed"))), "crowd": draw(load_chart()), "durable": draw(durable_chart())}
    return {PICTURES / f"{name}.svg": svg for name, svg in (drawn | {"overview": overview()}).items()}


def table(name: str) -> str:
    """Return a table of results."""
    lines = ["| What | Beanpole | beanstalkd | Ratio |", "|---|--:|--:|--:|"]
    for key, row in results(name).items():
        ours, theirs = row.get("ours"), row.get("theirs")
        lines.append(f"| {WHAT[key]} | {number(ours)} | {number(theirs)} | {quotient(ratio(ours, theirs))} |")
    return "\n".join(lines)


def quotient(value: float | None) -> str:
    """Return a ratio, of the small ones a digit."""
    return f"{value:.1g} ×" if value is not None and value < 0.001 else times(value)


def machine(name: str) -> str:
    """Return on what, when and how the results were measured."""
    facts = kept_run(name)["machine"]
    return "; ".join(f"{key}: {value}" for key, value in facts.items()) + "."


def page(before: str) -> str:
    """Return the page of figures with the tables of the results between its markers."""
    for name in HEADS:
        marker, end = f"<!-- {name}: written by python -m benchmarks.charts -->\n", f"<!-- end of {name} -->"
        head, found, rest = before.partition(marker)
        _, closed, tail = rest.partition(end)
        assert found, f"{PAGE} has no place for {name}"
        assert closed, f"{PAGE}: {name} does not end"
        before = f"{head}{marker}\n{table(name)}\n\n{machine(name)}\n\n{end}{tail}"
    return before


def main(runs: list[str]) -> None:
    """Keep the runs that were named, and write everything."""
    for run in runs:
        name, kept = keep(json.loads(Path(run).read_text()))
        (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    for path, svg in pictures().items():
        (ROOT / path).write_text(svg)
    (ROOT / PAGE).write_text(page((ROOT / PAGE).read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
