"""Writes the charts and the tables of the documentation from what the benchmark has measured.

    python -m benchmarks.bench --table speed --table durable --json run.json
    python -m benchmarks.bench --table floor --rounds 16 --json run.json
    python -m benchmarks.charts run.json

keeps the medians of that run in `benchmarks/results`, and writes `docs/pictures/*.svg` and what stands between the
markers of docs/performance.md and docs/reproduce.md from them. A third server that was measured, `--against PATH`, has
bars and a column. Without an argument it writes them from the results that are there; a test fails when the pages are
not what this writes.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.bench.report import number, ratio, times
from benchmarks.bench.tables import TABLES
from benchmarks.svg import Bar, Chart, Group, arrow, draw, picture, rectangle, text

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = Path("docs/pictures")
PAGE = Path("docs/performance.md")
KEPT = ("name", "ours", "theirs", "against", "floor", "own_ratio", "their_own_ratio")
"""What is kept of a row of a run: its medians. Its title is in the row itself."""

HEADS = {"speed": "Without a log", "durable": "With a log", "floor": "Beside the floor"}
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
    "floor-1x1": "1 × 1",
    "floor-50x1": "50 × 1",
    "floor-50x16": "50 × 16",
    "floor-50x100": "50 × 100",
    "floor-lone-put": "lone put, synced",
    "floor-lone-put-idle": "beside one idle",
    "floor-durable-50x16": "50 × 16, synced",
}
"""What the rows of the tables say: what was done, then the figure with its unit."""

Result = dict[str, Any]


def keep(run: Result) -> dict[str, Result]:
    """Return what is kept of a run, by the tables of which it has all rows."""
    rows = rows_of(run)
    kept: dict[str, Result] = {}
    for table in HEADS:
        names = [row.name for row in TABLES[table]]
        if rows.keys() >= set(names):
            keys = (*KEPT, "figures") if table == "floor" else KEPT
            medians = [{key: rows[name][key] for key in keys if rows[name].get(key) is not None} for name in names]
            kept[table] = {"machine": run["machine"], "rows": medians}
    return kept


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


def measured(run: Result, names: Iterable[str]) -> dict[str, str]:
    """Return whom a run has measured in all of these rows, and what each is called."""
    rows = rows_of(run)
    servers = {"theirs": "beanstalkd", "against": run["machine"].get("against"), "ours": "Beanpole"}
    return {kind: who for kind, who in servers.items() if all(kind in rows[name] for name in names)}


def cpu_chart(run: Result) -> Chart:
    """Return the chart of the home page: the processor time of a command, of the servers that one run has measured."""
    rows = rows_of(run)
    servers = measured(run, IN_FLIGHT)
    groups = []
    for name, label in IN_FLIGHT.items():
        shares = [(kind, who, rows[name][kind] / rows[name]["theirs"]) for kind, who in servers.items()]
        groups.append(Group(label, tuple(Bar(kind, who, value, percent(value)) for kind, who, value in shares)))
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


def durable_chart(run: Result) -> Chart:
    """Return the chart of commands a second when each is on the disk before it is answered."""
    rows = rows_of(run)
    servers = measured(run, DURABLE)
    groups = []
    for name, label in DURABLE.items():
        rates = [(kind, who, rows[name][kind]) for kind, who in servers.items()]
        groups.append(Group(label, tuple(Bar(kind, who, value, number(value)) for kind, who, value in rates)))
    return Chart(
        "Commands a second, on disk first",
        ("synced before they are answered, 50 connections;", "each group has its own scale, more is better"),
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
    drawn = {
        "cpu": draw(cpu_chart(kept_run("speed"))),
        "crowd": draw(load_chart()),
        "durable": draw(durable_chart(kept_run("durable"))),
    }
    return {PICTURES / f"{name}.svg": svg for name, svg in (drawn | {"overview": overview()}).items()}


def table(run: Result) -> str:
    """Return a table of results: ours, and the others' each with the ratio."""
    others = {"theirs": "beanstalkd"}
    if "against" in run["machine"]:
        others["against"] = run["machine"]["against"]
    lines = [["What", "Beanpole", *(cell for who in others.values() for cell in (who, "Ratio"))]]
    for key, row in rows_of(run).items():
        line = [WHAT[key], number(row.get("ours"))]
        for kind in others:
            line += [number(row.get(kind)), quotient(ratio(row.get("ours"), row.get(kind)))]
        lines.append(line)
    head, *rows = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, f"|---|{'--:|' * (len(lines[0]) - 1)}", *rows])


FLOOR_HEAD = ["What", "CPU, µs", "beside C", "p50, µs", "p99", "p99.9", "max"]


def floor_table(run: Result) -> str:
    """Return the table of servers beside the floor, with every percentile: a head and a line for each, row by row."""
    names = {"floor": "C", "theirs": "beanstalkd", "against": run["machine"].get("against"), "ours": "Beanpole"}
    nothing = [""] * (len(FLOOR_HEAD) - 1)
    lines = [FLOOR_HEAD, ["---", *["--:"] * len(nothing)]]
    for key, row in rows_of(run).items():
        figures = row["figures"]
        lines.append([f"**{WHAT[key]}**", *nothing])
        if (sync_us := figures["floor"]["sync_us"]) is not None:
            lines.append(["`fdatasync` alone", "", "", number(sync_us), "", "", ""])
        for who in (each for each in names if each in figures):
            cpu_us, *late = (figures[who][each] for each in ("cpu_us", "p50_us", "p99_us", "p999_us", "max_us"))
            beside = "" if who == "floor" else times(ratio(cpu_us, figures["floor"]["cpu_us"]))
            lines.append([names[who], number(cpu_us), beside, *map(number, late)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
        shown = floor_table if name == "floor" else table
        before = f"{head}{marker}\n{shown(kept_run(name))}\n\n{machine(name)}\n\n{end}{tail}"
    return before


def main(runs: list[str]) -> None:
    """Keep the runs that were named, and write everything."""
    for run in runs:
        for name, kept in keep(json.loads(Path(run).read_text())).items():
            (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    for path, svg in pictures().items():
        (ROOT / path).write_text(svg)
    (ROOT / PAGE).write_text(page((ROOT / PAGE).read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
