"""Turns samples into medians, ratios and a verdict, and prints them as text, as Markdown, or as JSON. No I/O.

The ratio of a row is the ratio of medians over its rounds, ours over beanstalkd's (or over our own baseline). Rounds of
the two servers alternate, so that whatever else happens on the machine meets both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.bench.plan import FIGURES, Figure, Row, Sample

NOTHING = "-"
"""A cell without a figure."""
BUSY = 0.95
"""Share of a core above which a process counts as the bottleneck."""


OTHERS_BUSY_MAX = 0.25
"""Share of a core that everything else on the machine may use before the figures carry a warning."""


RATIOS = {"theirs": "ratio", "against": "ratio to against", "floor": "ratio to floor"}
"""Whom our server is compared with, and what such a line is called."""

SERVERS = ("ours", *RATIOS)
"""Who can be measured: our server, beanstalkd, a third one that is asked for by its program, and the floor."""


@dataclass
class Outcome:
    """All samples of a row, by who was measured (one of SERVERS) and what ("scenario", "baseline")."""

    row: Row
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why there is no sample, in words."""

    def add(self, who: str, what: str, sample: Sample) -> None:
        """Keeps one sample."""
        self.samples.setdefault((who, what), []).append(sample)

    def median(self, who: str, what: str = "scenario", figure: Figure | None = None) -> float | None:
        """The median of a figure (of the row's own, if none is named); None if it was not measured."""
        wanted = figure or self.row.figure
        values = [s.figures[wanted] for s in self.samples.get((who, what), []) if wanted in s.figures]
        return median(values) if values else None

    def against_own(self, who: str) -> float | None:
        """How many times its own baseline a server's figure is."""
        return ratio(self.median(who), self.median(who, "baseline"))

    def against_theirs(self) -> float | None:
        """How many times beanstalkd's figure ours is."""
        return ratio(self.median("ours"), self.median("theirs"))

    def against_floor(self) -> float | None:
        """How many times the floor's figure ours is."""
        return ratio(self.median("ours"), self.median("floor"))

    def against_third(self) -> float | None:
        """How many times the third server's figure ours is."""
        return ratio(self.median("ours"), self.median("against"))

    def judged(self) -> float | None:
        """The number that the row's bound is about."""
        if self.row.ask is None or self.row.ask.of == "theirs":
            return self.against_theirs()
        if self.row.ask.of == "floor":
            return self.against_floor()
        return self.against_own("ours") if self.row.ask.of == "own" else self.median("ours")

    def verdict(self) -> str:
        """Yes, no, or empty when nothing is asked or nothing could be measured."""
        value = self.judged()
        if self.row.ask is None or value is None:
            return ""
        return "yes" if self.row.ask.met(value) else "no"

    def generator_bound(self, who: str, what: str = "scenario") -> bool:
        """Whether the load generator was at its limit and the server was not: its rate is a lower bound then."""
        samples = self.samples.get((who, what), [])
        return bool(samples) and (
            median(s.generator_busy for s in samples) >= BUSY > median(s.server_busy for s in samples)
        )


def ratio(value: float | None, base: float | None) -> float | None:
    """The quotient, if both are known and the base is not nothing."""
    return None if value is None or not base else value / base


def number(value: float | None) -> str:
    """Three significant digits, thousands apart, and a dash for nothing."""
    if value is None:
        return NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 0.1 else 3}f}"


def times(value: float | None) -> str:
    """A ratio."""
    return NOTHING if value is None else f"{number(value)} ×"


ASKED_HEAD = ("row", "what", "figure", "ours", "beanstalkd", "ratio", "floor ×", "own ×", "their own ×", "asked", "met")


def asked_table(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """What is asked, what was measured, and whether it is met. The `own` columns: against the row's baseline."""
    return [
        (
            outcome.row.name,
            outcome.row.title,
            FIGURES[outcome.row.figure],
            number(outcome.median("ours")),
            number(outcome.median("theirs")),
            times(outcome.against_theirs()),
            times(outcome.against_floor()),
            times(outcome.against_own("ours")),
            times(outcome.against_own("theirs")),
            str(outcome.row.ask or ""),
            outcome.verdict(),
        )
        for outcome in outcomes
    ]


FIGURES_HEAD = (
    "row",
    "server",
    "commands/s",
    "p50 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "CPU µs",
    "peak MiB",
    "busy",
    "note",
)
COLUMNS: tuple[Figure, ...] = ("rate", "p50_us", "p99_us", "p999_us", "max_us", "cpu_us")


def figures_table(outcomes: Iterable[Outcome]) -> list[tuple[str, ...]]:
    """Everything that was measured of each server, a line each; then the ratios of ours and the others."""
    lines = []
    for outcome in outcomes:
        for what in ("scenario", "baseline"):
            name = outcome.row.name + ("" if what == "scenario" else " (baseline)")
            for who in SERVERS:
                if (who, what) in outcome.samples:
                    lines.append((name, who, *figure_cells(outcome, who, what)))
                elif (who, what) in outcome.failures:
                    lines.append((name, who, *[NOTHING] * 8, outcome.failures[who, what]))
            lines.extend(
                (name, said, *ratio_cells(outcome, who, what), "", "")
                for who, said in RATIOS.items()
                if ("ours", what) in outcome.samples and (who, what) in outcome.samples
            )
    return lines


def figure_cells(outcome: Outcome, who: str, what: str) -> list[str]:
    """The cells of one server in `figures_table`."""
    samples = outcome.samples[who, what]
    cells = [number(outcome.median(who, what, figure)) for figure in COLUMNS]
    peak = median(s.peak_bytes for s in samples)
    others = median(s.others_busy for s in samples)
    note = "; ".join(
        [
            *["generator-bound: the rate is a lower bound"] * outcome.generator_bound(who, what),
            *[f"others used {others:.1f} cores: no latency is to be trusted"] * (others > OTHERS_BUSY_MAX),
        ]
    )
    busy = median(s.server_busy for s in samples)
    return [*cells, number(peak / 2**20) if peak else NOTHING, f"{busy:.0%}" if busy else NOTHING, note]


def ratio_cells(outcome: Outcome, other: str, what: str) -> list[str]:
    """Ours over another's, figure by figure, and of the peak memory."""
    cells = [times(ratio(outcome.median("ours", what, f), outcome.median(other, what, f))) for f in COLUMNS]
    peaks = [median(s.peak_bytes for s in outcome.samples[who, what]) for who in ("ours", other)]
    return [*cells, times(ratio(*peaks))]


def as_text(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns padded to the widest cell, for a terminal."""
    widths = [max(len(line[i]) for line in (head, *lines)) for i in range(len(head))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *lines)]
    return "\n".join(row.rstrip() for row in (rows[0], "-" * len(rows[0].rstrip()), *rows[1:]))


def as_markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """The same as a Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines))


def as_json(outcomes: Iterable[Outcome], machine: dict[str, str]) -> dict[str, Any]:
    """Every sample and every ratio, for later comparison."""
    return {
        "machine": machine,
        "rows": [
            {
                "name": outcome.row.name,
                "title": outcome.row.title,
                "figure": outcome.row.figure,
                "asked": str(outcome.row.ask or ""),
                "ours": outcome.median("ours"),
                "theirs": outcome.median("theirs"),
                "against": outcome.median("against"),
                "floor": outcome.median("floor"),
                "figures": {
                    who: {each: outcome.median(who, figure=each) for each in (*COLUMNS, "over_sync_us", "sync_us")}
                    for who in SERVERS
                    if (who, "scenario") in outcome.samples
                },
                "ratio": outcome.against_theirs(),
                "against_ratio": outcome.against_third(),
                "own_ratio": outcome.against_own("ours"),
                "their_own_ratio": outcome.against_own("theirs"),
                "met": outcome.verdict(),
                "failures": {" ".join(key): text for key, text in outcome.failures.items()},
                "samples": {" ".join(key): [vars(s) for s in samples] for key, samples in outcome.samples.items()},
            }
            for outcome in outcomes
        ],
    }
