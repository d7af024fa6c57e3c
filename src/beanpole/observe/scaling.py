"""How many jobs of a tube should run at a time: enough for what comes, and for what has piled up.

What comes, and the backlog spread over the time in which it shall be gone, are jobs a second; times the seconds that a
job runs they are the jobs that run at a time (Little, "A Proof for the Queuing Formula: L = λW", 1961). More than the
tube gives out, by its rules or as somebody has paused it, would only wait.
"""

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from beanpole.observe.sampling import HELD
from beanpole.protocol.rules import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from beanpole.client import Histogram, Rules, StatsTube
    from beanpole.observe.sampling import Sample

ROUNDING = 1e-9  # of a number that should be whole, and is a little more


@dataclass(frozen=True, slots=True)
class Need:
    """What a tube needs, and of what that was computed."""

    workers: int
    """Workers, each of which runs so many jobs at a time as was said."""

    jobs: int
    """Jobs that should run at a time: what comes and the backlog, within the limits, and what runs now."""

    arrival: float
    """Jobs a second that came."""

    backlog: int
    """Ready jobs."""

    run_s: float | None
    """How long a job runs on the average; None: none has run yet, so that one worker is needed to find out."""

    limit: str
    """What keeps it from needing more: pause, breaker, concurrency, rate; empty: nothing does."""


def need_of(  # noqa: PLR0913 - what it is computed of
    tube: "StatsTube", arrival: float, run_s: float | None, rules: "Rules | None", *, drain_s: float, slots: int
) -> Need:
    """Return how many workers of so many `slots` a tube needs, if its backlog shall be gone in `drain_s` seconds.

    Never fewer than have its jobs now: who ends a worker should not end its jobs. `rules` are None where there are
    none, or the server knows no rules.
    """
    backlog = tube.current_jobs_ready
    wanted = arrival + backlog / drain_s
    limit = ""
    limits = parse(rules.text.encode("utf-8", "surrogateescape")) if rules is not None else None
    if limits is not None and limits.rate is not None and wanted * limits.rate_interval_ns > 1e9:
        wanted, limit = 1e9 / limits.rate_interval_ns, "rate"
    jobs = ceil(wanted * run_s - ROUNDING) if run_s is not None else int(wanted > 0)
    jobs = max(jobs, int(wanted > 0))
    for name, most in (
        ("concurrency", limits.concurrency if limits is not None else 0),
        ("breaker", 1 if tube.raw.get("breaker-closed") else 0),
    ):
        if 0 < most < jobs:
            jobs, limit = most, name
    if tube.pause_time_left:
        jobs, limit = 0, "pause"
    jobs = max(jobs, tube.current_jobs_reserved)
    return Need(ceil(jobs / slots), jobs, arrival, backlog, run_s, limit)


def run_time(before: "Sample | None", after: "Sample", name: str) -> float | None:
    """Return how long jobs of a tube ran on the average between two samples, else since the server started."""
    now = held(after, name)
    if now is None or not now.count:
        return None
    then = held(before, name) if before is not None and before.stats.id == after.stats.id else None
    if then is not None and then.count < now.count and then.sum <= now.sum:
        return (now.sum - then.sum) / (now.count - then.count) / 1e6
    return now.sum / now.count / 1e6


def held(sample: "Sample", name: str) -> "Histogram | None":
    """Return how long jobs of a tube were held; None: nobody knows."""
    times: Mapping[str, Mapping[str, Histogram]] = sample.histograms.tubes if sample.histograms is not None else {}
    return times.get(name, {}).get(HELD)
