"""The first page: how all servers are, what is wrong with them, and which tubes are at work.

What is wrong the doctor finds, out of the samples that the console takes anyway: no visit of its own, and no wait. A
sample is compared with one of up to a minute before. No job is inspected: checks that need its body or its age say
nothing here, `beanpole doctor` has them all.
"""

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from beanpole.client import Stats
from beanpole.console.screens import charts
from beanpole.console.screens.screen import Screen, View, look, state_of
from beanpole.console.screens.tubes import Row, oldest, rows_of, sparks
from beanpole.console.servers import Seen, Server, first_seen, whole_of
from beanpole.console.single_flight import AwayError
from beanpole.errors import BeanpoleError
from beanpole.observe.doctor import diagnose
from beanpole.observe.findings import Finding, Severity, Visit
from beanpole.observe.sampling import Sample

# --- The doctor -------------------------------------------------------------------------------------------------------

SECOND_NS = 1_000_000_000

KEPT_FOR_NS = 60 * SECOND_NS
"""How old the sample is at most that the last one is compared with: a burst that was just put is no trouble yet."""

APART_NS = 5 * SECOND_NS  # between samples that are kept
LATER_NS = 600 * SECOND_NS  # after so long without a look, nothing is compared: what was then is no news

Findings = list[tuple[str, Finding]]
"""The names of checks, and what they have found, the worst first."""


class Doctor:
    """Who looks at one server again and again."""

    def __init__(self) -> None:
        self._kept: deque[Sample] = deque()
        self._last: Sample | None = None
        self._found: Findings = []

    def look(self, server: Server, sample: Sample, shards: Mapping[str, Visit]) -> Findings:
        """Returns what is found in a sample; the same one is looked at once. `shards` are those of a map."""
        if sample is not self._last:
            visit = replace(self.visit(sample, server.own_connections), shards=shards, places=server.source.places)
            self._last, self._found = sample, diagnose(visit)
        return self._found

    def visit(self, sample: Sample, own_connections: int) -> Visit:
        """Returns what is compared: a sample, and one before it."""
        if self._kept and sample.at_ns - self._kept[-1].at_ns > LATER_NS:
            self._kept.clear()
        if not self._kept or sample.at_ns - self._kept[-1].at_ns >= APART_NS:
            self._kept.append(sample)
        while len(self._kept) > 2 and sample.at_ns - self._kept[0].at_ns > KEPT_FOR_NS:
            self._kept.popleft()
        before = self._kept[0]
        return Visit(before, sample, own_connections=own_connections)


def find_wrong(server: Server, sample: Sample, shards: Mapping[str, Visit]) -> Findings:
    """Returns what is wrong with a server that leads; nothing of one that follows: its leader knows."""
    return server.kept(Doctor).look(server, sample, shards) if sample.leads else []


def visits_of(seens: Sequence[Seen]) -> dict[str, Visit]:
    """Returns the visits of those of some servers that are shards of a map, and are there."""
    return {
        seen.server.name: seen.server.kept(Doctor).visit(seen.sample, seen.server.own_connections)
        for seen in seens
        if seen.server.source.is_shard and seen.sample is not None and not seen.is_away
    }


# --- The page ---------------------------------------------------------------------------------------------------------

TUBES_SHOWN = 10  # tubes of the overview, those at which most happens

FINDINGS_SHOWN = 20
FINDINGS_FIRST = 5  # findings above the numbers, so that both are seen at once; the others are folded

TUBES_NAMED = 10  # tubes that a finding names
KINDS = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "note"}  # the classes of findings


def lateness(seen: Seen) -> float | None:
    """The seconds for which 99 % of the jobs were ready that were reserved last; None: there was none, or not known."""
    return seen.server.history.latest("ready_p99")


def summed(values: Sequence[float | None]) -> float | None:
    """The sum of what is known; None: nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def most(values: Sequence[float | None]) -> float | None:
    """The largest of what is known; None: nothing is."""
    return max((value for value in values if value is not None), default=None)


def oldest_of(seen: Seen) -> float | None:
    """How long the oldest ready job of a server has waited that is not dead; None: the server does not say."""
    if not seen.sample:
        return None
    dead = seen.sample.dead_tubes
    ready = [tube for name, tube in seen.sample.tubes.items() if tube.current_jobs_ready and name not in dead]
    return most([oldest(tube) for tube in ready]) if ready else 0


def counted(stats: Sequence[Stats]) -> dict[str, Any]:
    keys = ("jobs_ready", "jobs_urgent", "jobs_reserved", "jobs_delayed", "jobs_buried")
    kinds = (*keys, "waiting", "workers", "connections")
    return {kind.removeprefix("jobs_"): sum(getattr(each, f"current_{kind}") for each in stats) for kind in kinds}


async def led_elsewhere(seens: Sequence[Seen]) -> list[Stats]:
    """What the leaders say whose nodes alone are seen."""
    found = []
    for seen in first_seen(seens):
        if seen.sample is not None and not seen.sample.leads and not seen.is_away:
            with contextlib.suppress(AwayError, BeanpoleError, OSError):
                found.append(await (await seen.server.client()).stats())
    return found


def figures(seens: Sequence[Seen], elsewhere: Sequence[Stats] = ()) -> dict[str, Any]:
    """The numbers of all servers together, and of leaders that are not among them."""
    there = [seen for seen in first_seen(seens) if seen.sample is not None and seen.sample.leads]
    found = counted([*(seen.sample.stats for seen in there if seen.sample is not None), *elsewhere])
    for name in ("put", "reserved", "deleted", "failed", "timed_out", "dead"):
        found[f"{name}_rate"] = summed([getattr(seen.total, name) for seen in there])
    found["oldest"] = most([oldest_of(seen) for seen in there])
    found["lateness"] = most([lateness(seen) for seen in there])
    return found


def found(seens: Sequence[Seen]) -> list[tuple[Seen, str, str, Finding]]:
    """What is wrong, the worst first: the server, the class, the check, the finding."""
    rows = [
        (seen, KINDS[finding.severity], name, finding)
        for seen in whole_of(seens)
        if seen.sample is not None and not seen.is_away
        for name, finding in find_wrong(
            seen.server, seen.sample, visits_of(seens) if seen.server.source.places is not None else {}
        )
    ]
    return sorted(rows, key=lambda row: -row[3].severity)


def at_work(rows: Sequence[Row]) -> list[Row]:
    """The tubes at which most happens, then those with the most jobs."""

    def order(row: Row) -> tuple[float, int]:
        rates = row.rates
        return -sum(each or 0 for each in (rates.put, rates.deleted, rates.failed)), -row.tube.current_jobs_ready

    return sorted(rows, key=order)[:TUBES_SHOWN]


async def show(view: View) -> dict[str, Any]:
    seens, span = await look(view), charts.span_of(view)
    wrong, whole = found(seens), whole_of(seens)
    tubes = at_work(await rows_of(seens))
    return {
        "seens": seens,
        "servers": [(seen, *state_of(seen), oldest_of(seen), lateness(seen)) for seen in seens],
        "figures": figures(seens, await led_elsewhere(seens)),
        "drawn": charts.charts_of(whole[0], span) if len(whole) == 1 else charts.charts_of_several(whole, span),
        "spans": charts.SPANS,
        "span": span,
        "findings": wrong[:FINDINGS_SHOWN],
        "findings_first": FINDINGS_FIRST,
        "more_findings": len(wrong) - FINDINGS_SHOWN,
        "tubes_named": TUBES_NAMED,
        "tubes": [(row, oldest(row.tube), spark) for row, spark in zip(tubes, sparks(tubes), strict=True)],
    }


SCREEN = Screen(
    "/",
    "overview.html",
    show,
    live=("servers", "figures", "findings", "charts", "tubes"),
    title="Overview",
    key="o",
)
