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
from dataclasses import fields, replace
from operator import methodcaller
from typing import Any

from beanpole.client import Inserted, JobInfo, Result, StatsJob
from beanpole.client.fallback import info_of
from beanpole.client.putting import PutOptions
from beanpole.client.session import DEFAULT_TUBE
from beanpole.errors import (
    ArgumentError,
    BatchError,
    ConnectionLostError,
    DeadlineSoonError,
    ExistsError,
    NotFoundError,
    TimedOutError,
)
from beanpole.operations.listing import FIELDS, count_of, search
from beanpole.operations.plan import Plan, Walk, ask, several, together
from beanpole.protocol.limits import FRAMES_MAX

BATCH = 256  # jobs: a few round trips serve all of them, long before their time to run is over
BURY_WITHIN_S = 60  # the delay of a copy that will be buried: far more than two round trips

# Jobs at which a scan by ids is worth it, and the ids that it tries for each of them. Peek finds one job, and the next
# only when that is deleted; what the scan does not find, peek does.
SCAN_FROM = 16
SCAN_IDS_PER_JOB = 20

KEPT = tuple(each.name for each in fields(JobInfo) if each.name in PutOptions.__annotations__)
"""The options of a put that a list says of a job, besides its numbers."""

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
    return [
        taken_over(copy_of(stats.result(), job.body), job.info)
        for job, stats in asked
        if not isinstance(stats.error, NotFoundError)
    ]


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
    there = [copy_of(stats, body) for stats, body in found if stats.tube == tube and stats.state == state]
    said = (yield from said_of([job.id for job in there], tube, state)) if there else {}
    return [taken_over(job, said.get(job.id)) for job in there]


def said_of(ids: Collection[int], tube: str, state: str) -> Plan[dict[int, JobInfo]]:
    """Return what a list says of some jobs in one state; nothing, if the server has none."""
    said: dict[int, JobInfo] = {}
    features = yield from ask(lambda client: client.features())
    at: int | None = min(ids) - 1
    last = max(ids)
    while "list-jobs.fields" in features and at is not None and at < last:
        most = min(last - at, FRAMES_MAX)
        page = yield from ask(methodcaller("list_jobs", tube, state, most, after=at, fields=FIELDS))
        said |= {job.id: job for job in page.jobs}
        at = page.next
    return said


def taken_over(copy: JobInfo, said: JobInfo | None) -> JobInfo:
    """Add to a copy what `stats-job` does not say."""
    if said is None:
        return copy
    return replace(copy, **{name: getattr(said, name) for name in (*KEPT, "reason", "died")})


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


def put_copies(
    tube: str, jobs: Sequence[JobInfo], *, ready: bool = False, kept: Collection[str] = ()
) -> Plan[list[Result[Any]]]:
    """Put copies of jobs into a tube, in their states or ready; each has put something, or has an error.

    They have those of the options `kept` that the server knows. ExistsError: another job holds the key; a buried job,
    which holds none, leaves it behind then. Raises ReplyError: a copy could not be buried.
    """
    if ready:
        jobs = [replace(job, state="ready", left=0) for job in jobs]
    features = yield from ask(lambda client: client.features())
    puts = yield from put_each(tube, jobs, [name for name in kept if f"put-job.{name}" in features])
    taken = {place: put.result() for place, put in enumerate(puts) if is_taken(put)}
    behind = [place for place in taken if jobs[place].state == "buried"]
    for place, other in taken.items():
        puts[place].fail(ExistsError(f"job {other.id} has its key", other.id))
    for place, put in zip(behind, (yield from put_each(tube, [jobs[each] for each in behind], ())), strict=True):
        puts[place] = put
    down = [(put.result(), job) for put, job in zip(puts, jobs, strict=True) if not put.error and job.state == "buried"]
    tells = "fail-job" in features
    for _, results in (yield from several(down, lambda line, each: bury(line, *each, tells=tells))):
        for result in results:
            result.result()
    return puts


def put_each(tube: str, jobs: Sequence[JobInfo], kept: Collection[str]) -> Plan[list[Result[Any]]]:
    puts = yield from together(jobs, lambda line, job: put(line, tube, job, kept))
    return [each for _, each in puts]


def put(line: Any, tube: str, job: JobInfo, kept: Collection[str]) -> Result[Any]:  # noqa: ANN401 - a pipeline
    """Send what puts a job. What can't be sent has an error, as if the server had refused it."""
    options = {name: value for name in kept if (value := getattr(job, name)) is not None}
    delay = BURY_WITHIN_S if job.state == "buried" else int(job.left or 0)
    issue = line.put_job if options else line.put
    refused: Result[Any] = Result()
    try:
        return issue(job.body, job.pri, delay, job.ttr, tube=tube, **options)  # type: ignore[no-any-return]
    except ArgumentError as error:
        refused.fail(error)
        return refused


def is_taken(put: Result[Any]) -> bool:
    """Whether another job has the key."""
    return put.error is None and isinstance(put.result(), Inserted) and put.result().outcome == "exists"


def bury(line: Any, put: Inserted | int, job: JobInfo, *, tells: bool) -> list[Result[Any]]:  # noqa: ANN401 - a pipeline
    """Send what buries the copy of a job that was put, with why its last attempt failed, if the server `tells` it."""
    id = put if isinstance(put, int) else put.id
    taken = line.reserve_job(id)
    if tells and job.died is not None:
        return [taken, line.fail_job(id, job.reason or "", priority=job.pri, dead=True)]
    if tells and job.reason:
        failed = line.fail_job(id, job.reason, priority=job.pri, delay=BURY_WITHIN_S)
        return [taken, failed, line.reserve_job(id), line.bury(id, job.pri)]
    return [taken, line.bury(id, job.pri)]


def raise_lost(results: Sequence[Result[Any]]) -> None:
    """Raise ConnectionLostError if the connection broke before all was answered."""
    for each in results:
        if isinstance(each.error, ConnectionLostError):
            raise each.error
