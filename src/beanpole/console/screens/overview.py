"""The first page: how all servers are, what is wrong with them, and which tubes are at work."""

import contextlib
from collections.abc import Sequence
from typing import Any

from beanpole.client import Stats
from beanpole.console.errors import AwayError
from beanpole.console.live.seen import Seen
from beanpole.console.reading import findings
from beanpole.console.screens import drawn
from beanpole.console.screens.asked import look, state_of
from beanpole.console.screens.screen import Screen, View
from beanpole.console.screens.tubes import Row, oldest, rows_of, spark
from beanpole.console.servers import are_asked
from beanpole.errors import BeanpoleError
from beanpole.observe.findings import Finding, Severity

TUBES_SHOWN = 10
"""Tubes of the overview, those at which most happens."""

FINDINGS_SHOWN = 20

TUBES_NAMED = 10
"""Tubes that a finding names."""

KINDS = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.NOTE: "note"}
"""The classes of findings."""


def lateness(seen: Seen) -> float | None:
    """The seconds for which 99 % of the jobs were ready that were reserved last; None: there was none, or not known."""
    known = [value for value in seen.server.history.series("ready_p99").values[-3:] if value is not None]
    return known[-1] if known else None


def summed(values: Sequence[float | None]) -> float | None:
    """The sum of what is known; None: nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def most(values: Sequence[float | None]) -> float | None:
    """The largest of what is known; None: nothing is."""
    return max((value for value in values if value is not None), default=None)


def oldest_of(seen: Seen) -> float | None:
    """How long the oldest ready job of a server has waited; None: the server does not say."""
    if not seen.sample:
        return None
    ready = [tube for tube in seen.sample.tubes.values() if tube.current_jobs_ready]
    return most([oldest(tube) for tube in ready]) if ready else 0


def counted(stats: Sequence[Stats]) -> dict[str, Any]:
    """How many jobs and sessions there are now."""
    keys = ("jobs_ready", "jobs_urgent", "jobs_reserved", "jobs_delayed", "jobs_buried")
    kinds = (*keys, "waiting", "workers", "connections")
    return {kind.removeprefix("jobs_"): sum(getattr(each, f"current_{kind}") for each in stats) for kind in kinds}


async def led_elsewhere(seens: Sequence[Seen]) -> list[Stats]:
    """What the leaders say whose nodes alone are seen."""
    asked = are_asked([seen.sample.stats if seen.sample else None for seen in seens])
    found = []
    for seen, is_asked in zip(seens, asked, strict=True):
        if is_asked and seen.sample is not None and not seen.sample.leads and not seen.is_away:
            with contextlib.suppress(AwayError, BeanpoleError, OSError):
                found.append(await (await seen.server.client()).stats())
    return found


def figures(seens: Sequence[Seen], elsewhere: Sequence[Stats] = ()) -> dict[str, Any]:
    """The numbers of all servers together, and of leaders that are not among them."""
    asked = are_asked([seen.sample.stats if seen.sample else None for seen in seens])
    there = [
        seen for seen, is_asked in zip(seens, asked, strict=True) if is_asked and seen.sample and seen.sample.leads
    ]
    found = counted([*(seen.sample.stats for seen in there if seen.sample is not None), *elsewhere])
    for name in ("put", "reserved", "deleted", "failed", "timed_out", "dead"):
        found[f"{name}_rate"] = summed([getattr(seen.total, name) for seen in there])
    found["oldest"] = most([oldest_of(seen) for seen in there])
    found["lateness"] = most([lateness(seen) for seen in there])
    return found


async def found(seens: Sequence[Seen]) -> list[tuple[Seen, str, str, Finding]]:
    """What is wrong, the worst first: the server, the class, the check, the finding."""
    rows = [
        (seen, KINDS[finding.severity], name, finding)
        for seen in seens
        if seen.sample is not None and not seen.is_away
        for name, finding in await findings.find(seen.server, seen.sample)
    ]
    return sorted(rows, key=lambda row: -row[3].severity)


def at_work(rows: Sequence[Row]) -> list[Row]:
    """The tubes at which most happens, then those with the most jobs."""

    def order(row: Row) -> tuple[float, int]:
        rates = row.rates
        return -sum(each or 0 for each in (rates.put, rates.deleted, rates.failed)), -row.tube.current_jobs_ready

    return sorted(rows, key=order)[:TUBES_SHOWN]


async def show(view: View) -> dict[str, Any]:
    """Returns the servers with what is known of each."""
    seens, span = await look(view), drawn.span_of(view)
    wrong = await found(seens)
    tubes = at_work(await rows_of(seens))
    return {
        "seens": seens,
        "servers": [(seen, *state_of(seen), oldest_of(seen), lateness(seen)) for seen in seens],
        "figures": figures(seens, await led_elsewhere(seens)),
        "drawn": drawn.one(seens[0], span) if len(seens) == 1 else drawn.several(seens, span),
        "spans": drawn.SPANS,
        "span": span,
        "findings": wrong[:FINDINGS_SHOWN],
        "more_findings": len(wrong) - FINDINGS_SHOWN,
        "tubes_named": TUBES_NAMED,
        "tubes": [(row, oldest(row.tube), spark(row)) for row in tubes],
        "several": len(seens) > 1,
    }


SCREEN = Screen(
    "/",
    "overview.html",
    show,
    live=("servers", "figures", "findings", "charts", "tubes"),
    title="Overview",
    key="o",
)
