"""The jobs of a tube in batches, for `clear`, `move`, `export --remove` and `import`: taken, and put as copies.

Taking: ready jobs are reserved, so that no worker has them as well; when the connection ends they are ready again.
Delayed and buried jobs, and those of a paused tube, are left as they are until they are deleted: whatever stops the
verb leaves them in their state. If somebody kicks one at that moment and a worker reserves it, it is both processed and
copied. The caller deletes the jobs of a batch before it asks for the next.

Putting: no command puts a buried job, so its copy is put with a delay, reserved by its id and buried, and no worker
sees it in between. If that is interrupted, the copy is ready after the delay.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beanpole.cli.errors import note
from beanpole.cli.scan import count_of, find
from beanpole.client import Client, Result, StatsJob
from beanpole.client.errors import BatchError, DeadlineSoonError, NotFoundError, TimedOutError
from beanpole.client.session import DEFAULT_TUBE

BATCH = 256
"""Jobs of a batch: a few round trips serve all of them, long before their time to run is over."""

BURY_WITHIN_S = 60
"""Seconds of delay of a copy that will be buried: far more than two round trips."""

SCAN_FROM = 16
"""Jobs at which a scan by ids is worth it; peek finds one job, and the next only when that is deleted."""

SCAN_IDS_PER_JOB = 20
"""Ids that a scan tries for each job of the tube; what it does not find, peek does."""

STATES = ("ready", "delayed", "buried")

# --- Taking -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Taken:
    """A job that may be copied, and must then be deleted."""

    stats: StatsJob
    """How the job was when it was taken; the state of a reserved job is ready."""

    body: bytes

    @property
    def state(self) -> str:
        """The state that a copy shall have."""
        return "ready" if self.stats.state == "reserved" else self.stats.state

    @property
    def delay_s(self) -> int:
        """Seconds until the job is ready."""
        return self.stats.time_left if self.stats.state == "delayed" else 0


def enter(client: Client[bytes], tube: str, states: Collection[str]) -> dict[str, int]:
    """Use and watch a tube that there is; return how many jobs it has in each of some states.

    Raises Failure: there is no such tube; to use it first would make it.
    """
    there = {state: count_of(client, tube, [state]) for state in states}
    client.use(tube)
    client.watch(tube)
    if tube != DEFAULT_TUBE:
        client.ignore(DEFAULT_TUBE)
    return there


def batches(
    client: Client[bytes], tube: str, most: Mapping[str, int], count: int | None = None
) -> Iterator[list[Taken]]:
    """Take the jobs of a tube, of each state as many as `most` says, and `count` in all, until there are no more.

    The client uses and watches the tube.
    """
    left = sys.maxsize if count is None else count
    for state, number in most.items():
        for batch in of_state(client, tube, state, min(number, left)):
            yield batch
            left -= len(batch)


def of_state(client: Client[bytes], tube: str, state: str, count: int) -> Iterator[list[Taken]]:
    """Take the jobs that are in one state."""
    if state == "ready":
        while count:
            batch = reserve(client, min(BATCH, count))
            if not batch:
                break
            yield batch
            count -= len(batch)
        if not count or not client.stats_tube(tube).pause_time_left:
            return
    peek: Callable[[], Any] = {"ready": client.peek_ready, "delayed": client.peek_delayed}.get(
        state, client.peek_buried
    )
    ids = scanned(client, tube, state) if count else []
    while count:
        piece = ids[: min(BATCH, count)]
        ids = ids[len(piece) :]
        try:
            batch = in_state(client, piece or [peek().id], tube, state)
        except NotFoundError:
            return
        if batch:
            yield batch
            count -= len(batch)


def reserve(client: Client[bytes], count: int) -> list[Taken]:
    """Reserve ready jobs; return none if there is none, or the tube is paused."""
    try:
        jobs = client.reserve_many(count, timeout=0)
    except (TimedOutError, DeadlineSoonError):
        return []
    with client.pipeline(raise_errors=False) as pipeline:
        asked = [(job, pipeline.stats_job(job)) for job in jobs]
    return [Taken(stats.result(), job.body) for job, stats in asked if not isinstance(stats.error, NotFoundError)]


def scanned(client: Client[bytes], tube: str, state: str) -> list[int]:
    """Return ids of many jobs that are in a state; none if it is faster to peek."""
    stats = client.stats_tube(tube)
    count = int(stats[f"current-jobs-{state}"])
    if count < SCAN_FROM:
        return []
    return [job.id for job in find(client, tube, [state], id_count_max=count * SCAN_IDS_PER_JOB).jobs]


def in_state(client: Client[bytes], ids: Sequence[int], tube: str, state: str) -> list[Taken]:
    """Inspect jobs by their ids; return those that are still in the state."""
    with client.pipeline(raise_errors=False) as pipeline:
        asked = [(pipeline.stats_job(id), pipeline.peek(id)) for id in ids]
    found = [
        Taken(stats.result(), peek.result().body)
        for stats, peek in asked
        if not isinstance(stats.error, NotFoundError) and not isinstance(peek.error, NotFoundError)
    ]
    return [each for each in found if each.stats.tube == tube and each.stats.state == state]


def delete(client: Client[bytes], batch: Sequence[Taken]) -> int:
    """Delete the jobs of a batch; return how many could not be deleted, because a worker has reserved them."""
    try:
        client.delete_many(each.stats.id for each in batch)
    except BatchError as error:
        others = [each for each in error.results if each is not None and not isinstance(each, NotFoundError)]
        if others:
            raise
        return sum(each is not None for each in error.results)
    return 0


def report_reserved(client: Client[bytes], tube: str) -> None:
    """Say how many jobs stay in a tube, as they are reserved."""
    if number := count_of(client, tube, ["reserved"]):
        note(f"{number} reserved {'job stays' if number == 1 else 'jobs stay'} in {tube}")


# --- Putting ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copy:
    """A job to be put."""

    body: bytes
    pri: int
    ttr: int
    delay_s: int = 0
    buried: bool = False


def put_copies(client: Client[bytes], tube: str, copies: Sequence[Copy]) -> list[Result[int]]:
    """Put jobs into a tube; return for each its id or an error.

    Raises ReplyError: a copy could not be buried; ConnectionLostError: some were put, or all, or none.
    """
    with client.pipeline(raise_errors=False) as pipeline:
        results = [
            pipeline.put(each.body, each.pri, BURY_WITHIN_S if each.buried else each.delay_s, each.ttr, tube=tube)
            for each in copies
        ]
    with client.pipeline() as pipeline:
        for each, result in zip(copies, results, strict=True):
            if each.buried and result.error is None:
                pipeline.reserve_job(result.result())
                pipeline.bury(result.result(), each.pri)
    return results
