"""Finds the jobs of a tube, which no command of the protocol lists: by asking for job after job by its id.

``stats-tube`` says how many jobs to look for, and ``peek-ready``, ``peek-delayed``, ``peek-buried`` and the server's
``total-jobs`` are ids to begin at. From each of them the scan goes down and up, as jobs that wait together were mostly
put together. It ends when it has found as many as there were, or has asked for too many ids. Jobs that are deleted
during the scan are missing in the end, so a scan of a busy tube goes on to its limit; it never ends early.

Each id costs the server a lookup. They are asked for together, `STEP` a round trip.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from beanpole.cli import limits
from beanpole.cli.errors import missing
from beanpole.client import Client, StatsJob
from beanpole.client.errors import NotFoundError

STATES = ("ready", "reserved", "delayed", "buried")
STEP = 1_024
"""Ids that are asked for in one round trip."""

ID_MAX = 2**64 - 1


@dataclass(frozen=True)
class Found:
    """What a scan has found."""

    jobs: list[StatsJob]
    """The jobs, by their ids."""

    id_count: int
    """How many ids were asked for."""

    left_count: int
    """How many jobs were not found, by the server's statistics; 0 also when all the ids that were named are done."""


def count_of(client: Client[bytes], tube: str, states: Collection[str]) -> int:
    """Return how many jobs of a tube are in some states.

    Raises Failure: there is no such tube.
    """
    with missing(f"there is no tube {tube}"):
        stats = client.stats_tube(tube)
    return sum(int(stats[f"current-jobs-{state}"]) for state in states)


def find(
    client: Client[bytes],
    tube: str,
    states: Collection[str] = STATES,
    *,
    first: int | None = None,
    last: int | None = None,
    id_count_max: int = limits.SCAN_IDS_DEFAULT,
    advance: Callable[[int], object] = lambda _: None,
) -> Found:
    """Look for the jobs of a tube that are in some states.

    With `first` or `last`, all ids from the one to the other are asked for; the most is `id_count_max` all the same.
    `advance` is called with the number of jobs that each round trip has found.
    """
    wanted = count_of(client, tube, states)
    if first is None and last is None:
        ranges = around(seeds(client, tube))
    else:
        first, last = first or 1, last or ID_MAX
        ranges = (range(low, min(low + STEP, last + 1)) for low in range(first, last + 1, STEP))
    jobs: list[StatsJob] = []
    id_count = 0
    for ids in ranges:
        if len(jobs) >= wanted or id_count >= id_count_max:
            break
        with client.pipeline(raise_errors=False) as pipeline:
            asked = [pipeline.stats_job(id) for id in ids]
        answers = [each.result() for each in asked if not isinstance(each.error, NotFoundError)]
        found = [job for job in answers if job.tube == tube and job.state in states]
        jobs += found
        id_count += len(ids)
        advance(len(found))
    else:
        wanted = 0
    jobs.sort(key=lambda job: job.id)
    return Found(jobs, id_count, max(0, count_of(client, tube, states) - len(jobs)) if len(jobs) < wanted else 0)


def seeds(client: Client[bytes], tube: str) -> list[int]:
    """Return ids in whose neighbourhood the jobs of a tube may be."""
    with client.using(tube), client.pipeline(raise_errors=False) as pipeline:
        peeks = [pipeline.peek_ready(), pipeline.peek_delayed(), pipeline.peek_buried()]
        stats = pipeline.stats()
    known = {peek.result().id for peek in peeks if not isinstance(peek.error, NotFoundError)}
    return sorted(known | {max(1, stats.result().total_jobs)})


def around(ids: list[int]) -> Iterator[range]:
    """Return ranges of ids: around each of some ids, in turn, down and up to the middle between it and the next."""
    middles = [(low + high) // 2 for low, high in pairwise(ids)]
    lows, highs = [1, *(middle + 1 for middle in middles)], [*middles, ID_MAX]
    turns = [outward(*each) for each in zip(ids, lows, highs, strict=True)]
    while turns:
        for turn in list(turns):
            piece = next(turn, None)
            if piece is None:
                turns.remove(turn)
            else:
                yield piece


def outward(id: int, low: int, high: int) -> Iterator[range]:
    """Return ranges that begin at an id and go down to `low` and up to `high`, by turns."""
    below, above = id, id + 1
    while below >= low or above <= high:
        if below >= low:
            yield range(max(low, below - STEP + 1), below + 1)
            below -= STEP
        if above <= high:
            yield range(above, min(high, above + STEP - 1) + 1)
            above += STEP
