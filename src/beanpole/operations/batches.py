"""The jobs of a tube in batches: taken, and put as copies. No I/O.

Taking: ready jobs are reserved, so that no worker has them as well; when the connection ends they are ready again.
Delayed and buried jobs, and those of a paused tube, are left as they are until they are deleted: whatever stops the
program leaves them in their state. If somebody kicks one at that moment and a worker reserves it, it is both processed
and copied. The caller deletes the jobs of a batch before it asks for the next.

Putting: no command puts a buried job, so its copy is put with a delay, reserved by its id and buried, and no worker
sees it in between. If that is interrupted, the copy is ready after the delay.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from beanpole.client import JobInfo, Result, StatsJob
from beanpole.client.fallback import info_of
from beanpole.client.session import DEFAULT_TUBE
from beanpole.errors import BatchError, ConnectionLostError, DeadlineSoonError, NotFoundError, TimedOutError
from beanpole.operations.listing import count_of, search
from beanpole.operations.plan import Plan, Walk, ask, several, together

BATCH = 256  # jobs: a few round trips serve all of them, long before their time to run is over
BURY_WITHIN_S = 60  # the delay of a copy that will be buried: far more than two round trips

# Jobs at which a scan by ids is worth it, and the ids that it tries for each of them. Peek finds one job, and the next
# only when that is deleted; what the scan does not find, peek does.
SCAN_FROM = 16
SCAN_IDS_PER_JOB = 20

# --- Taking -----------------------------------------------------------------------------------------------------------


def copy_of(stats: StatsJob, body: bytes) -> JobInfo:
    """Return a job as its copy shall be: ready, if it is reserved for that."""
    state = "ready" if stats.state == "reserved" else stats.state
    return replace(info_of(stats), state=state, body=body, left=stats.time_left if state == "delayed" else 0)


def enter(tube: str, states: Collection[str]) -> Plan[dict[str, int]]:
    """Use and watch a tube that there is; return how many jobs it has in each of some states.

    Raises NotFoundError: there is no such tube; to use it first would make it.
    """
    there = {}
    for state in states:
        there[state] = yield from count_of(tube, [state])
    yield from ask(lambda client: client.use(tube))
    yield from ask(lambda client: client.watch(tube))
    if tube != DEFAULT_TUBE:
        yield from ask(lambda client: client.ignore(DEFAULT_TUBE))
    return there


def batches(tube: str, most: Mapping[str, int], count: int | None = None) -> Walk[list[JobInfo], None]:
    """Take the jobs of a tube, of each state as many as `most` says, and `count` in all, until there are no more.

    The client uses and watches the tube.
    """
    left = sys.maxsize if count is None else count
    for state, number in most.items():
        left -= yield from of_state(tube, state, min(number, left))


def of_state(tube: str, state: str, count: int) -> Walk[list[JobInfo], int]:
    """Take up to `count` jobs that are in one state; return how many there were."""
    left = count
    if state == "ready":
        while left:
            batch = yield from reserve(min(BATCH, left))
            if not batch:
                break
            yield batch
            left -= len(batch)
        if not left or not (yield from ask(lambda client: client.stats_tube(tube))).pause_time_left:
            return count - left
    ids = (yield from scanned(tube, state)) if left else []
    while left:
        piece = ids[: min(BATCH, left)]
        ids = ids[len(piece) :]
        try:
            if not piece:
                piece = [(yield from ask(lambda client: getattr(client, f"peek_{state}")())).id]
            batch = yield from in_state(piece, tube, state)
        except NotFoundError:
            break
        if batch:
            yield batch
            left -= len(batch)
    return count - left


def reserve(count: int) -> Plan[list[JobInfo]]:
    """Reserve ready jobs; return none if there is none, or the tube is paused."""
    try:
        jobs = yield from ask(lambda client: client.reserve_many(count, timeout=0))
    except (TimedOutError, DeadlineSoonError):
        return []
    asked = yield from together(jobs, lambda line, job: line.stats_job(job))
    return [copy_of(stats.result(), job.body) for job, stats in asked if not isinstance(stats.error, NotFoundError)]


def scanned(tube: str, state: str) -> Plan[list[int]]:
    """Return ids of many jobs that are in a state; none if it is faster to peek."""
    count = yield from count_of(tube, [state])
    if count < SCAN_FROM:
        return []
    found, _ = yield from search(tube, [state], count * SCAN_IDS_PER_JOB)
    return [job.id for job in found]


def in_state(ids: Sequence[int], tube: str, state: str) -> Plan[list[JobInfo]]:
    """Inspect jobs by their ids; return those that are still in the state."""
    asked = yield from several(ids, lambda line, id: (line.stats_job(id), line.peek(id)))
    found = [
        (stats.result(), peek.result().body)
        for _, (stats, peek) in asked
        if not isinstance(stats.error, NotFoundError) and not isinstance(peek.error, NotFoundError)
    ]
    return [copy_of(stats, body) for stats, body in found if stats.tube == tube and stats.state == state]


def delete(batch: Sequence[JobInfo]) -> Plan[int]:
    """Delete the jobs of a batch; return how many could not be deleted, because a worker has reserved them."""
    try:
        yield from ask(lambda client: client.delete_many(each.id for each in batch))
    except BatchError as error:
        others = [each for each in error.results if each is not None and not isinstance(each, NotFoundError)]
        if others:
            raise
        return sum(each is not None for each in error.results)
    return 0


# --- Putting ----------------------------------------------------------------------------------------------------------


def put_copies(tube: str, jobs: Sequence[JobInfo], *, ready: bool = False) -> Plan[list[Result[int]]]:
    """Put copies of jobs into a tube, in their states or ready; return for each its id or an error.

    Raises ReplyError: a copy could not be buried.
    """
    if ready:
        jobs = [replace(job, state="ready", left=0) for job in jobs]
    puts = yield from together(
        jobs,
        lambda line, job: line.put(
            job.body, job.pri, BURY_WITHIN_S if job.state == "buried" else int(job.left or 0), job.ttr, tube=tube
        ),
    )
    buried = [(put.result(), job.pri) for job, put in puts if job.state == "buried" and put.error is None]
    for _, results in (yield from several(buried, lambda line, job: (line.reserve_job(job[0]), line.bury(*job)))):
        for result in results:
            result.result()
    return [put for _, put in puts]


def raise_lost(results: Sequence[Result[Any]]) -> None:
    """Raise ConnectionLostError if the connection broke before all was answered."""
    for each in results:
        if isinstance(each.error, ConnectionLostError):
            raise each.error
