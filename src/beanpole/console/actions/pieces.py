"""How each verb is done to a piece of jobs.

What reserves a job and what finishes it go together, so that a console that ends in the middle leaves no job half done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beanpole.client import AsyncClient, JobInfo, Result, StatsJob
from beanpole.client.errors import BatchError, ConnectionLostError, NotFoundError
from beanpole.client.pipeline import AsyncPipeline
from beanpole.console.actions import copying
from beanpole.console.actions.action import Action
from beanpole.console.actions.tally import Tally, count, reason_of, sent, together, why_not
from beanpole.errors import BeanpoleError

MOVES = "change-job.tube"
"""What a server has that can move a job."""


@dataclass(frozen=True, slots=True)
class Doing:
    """An action that is being done."""

    client: "AsyncClient[bytes]"
    features: frozenset[str]
    action: Action
    tally: Tally


async def delete(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Deletes jobs."""
    ids = [job.id for job in jobs]
    outcomes: list[tuple[int, BeanpoleError | None]] = [(id, None) for id in ids]
    lost: BaseException | None = None
    try:
        await doing.client.delete_many(ids)
    except BatchError as error:
        results = [each if isinstance(each, BeanpoleError) else None for each in error.results]
        outcomes = list(zip(ids, results, strict=False))
        lost = error.__cause__
    await count(doing.client, doing.tally, "delete", outcomes)
    if isinstance(lost, ConnectionLostError):
        raise lost


async def simple(doing: Doing, jobs: Sequence[JobInfo], do: str, issue: Callable[[Any, int], Result[Any]]) -> None:
    """Sends one command for each job."""
    results = await together(doing.client, [job.id for job in jobs], issue)
    await count(doing.client, doing.tally, do, [(id, each.error) for id, each in results])


async def kick(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Makes jobs ready."""
    await simple(doing, jobs, "kick", lambda line, id: line.kick_job(id))


async def move(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Gives jobs another tube; they keep their states, and where the server can move them their ids."""
    to = doing.action.given.to
    assert to is not None, "it is asked for"
    if MOVES not in doing.features:
        await copying.move(doing.client, doing.tally, to, jobs)
        return
    await simple(doing, jobs, "move", lambda line, id: line.change_job(id, tube=to))


async def change(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Changes jobs: first the body, then, of those that have taken it, the rest."""
    given, ids = doing.action.given, [job.id for job in jobs]
    options: dict[str, Any] = {
        "tube": given.to,
        "priority": given.priority,
        "delay": given.delay,
        "ttr": given.ttr,
        "expire": given.expire,
    }
    outcomes: dict[int, BeanpoleError | None] = dict.fromkeys(ids)
    body = given.body
    if body is not None:
        results = await together(doing.client, ids, lambda line, id: line.change_body(id, body))
        outcomes |= {id: each.error for id, each in results}
    left = [id for id, error in outcomes.items() if error is None]
    if any(value is not None for value in options.values()):
        results = await together(doing.client, left, lambda line, id: line.change_job(id, **options))
        outcomes |= {id: each.error for id, each in results}
    for id in left if body is not None else ():
        error = outcomes[id]
        if error is not None and is_refusal(error):
            doing.tally.refused[f"its body was changed, but nothing else: {reason_of(error)}"] += 1
            del outcomes[id]
    await count(doing.client, doing.tally, "change", list(outcomes.items()))


async def redrive(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Brings dead jobs back to where they died, ready and with all attempts."""
    dead = [job for job in jobs if is_dead(job)]
    doing.tally.refused["it has not died"] += len(jobs) - len(dead)
    away = {job.id: job.origin for job in dead if job.origin}
    moved = await together(doing.client, away, lambda line, id: line.change_job(id, tube=away[id]))
    outcomes: dict[int, BeanpoleError | None] = dict.fromkeys(job.id for job in dead)
    outcomes |= {id: each.error for id, each in moved}
    # What stays where it is stays buried.
    down = [job.id for job in dead if job.state == "buried" and outcomes[job.id] is None]
    kicked = await together(doing.client, down, lambda line, id: line.kick_job(id))
    outcomes |= {id: each.error for id, each in kicked}
    await count(doing.client, doing.tally, "redrive", list(outcomes.items()))


def is_dead(job: JobInfo) -> bool:
    """Whether a job has died. Where nothing is known of that, a buried one has."""
    return job.died is not None or job.origin is not None or job.state == "buried"


# --- What is reserved first -------------------------------------------------------------------------------------------


async def bury(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Buries jobs that nobody holds; they keep their priority, unless one is given."""

    def issue(pipeline: AsyncPipeline[bytes], job: StatsJob) -> Result[Any]:
        return pipeline.bury(job.id, priority_of(doing, job))

    await reserved(doing, jobs, "bury", ("ready", "delayed"), issue)


async def snooze(doing: Doing, jobs: Sequence[JobInfo]) -> None:
    """Puts jobs off, which is no failed attempt. A server that does not count attempts has no word for it."""
    delay = doing.action.given.delay or 0

    def issue(pipeline: AsyncPipeline[bytes], job: StatsJob) -> Result[Any]:
        if "snooze-job" in doing.features:
            return pipeline.snooze_job(job.id, delay, priority_of(doing, job))
        return pipeline.release(job.id, priority_of(doing, job), int(delay))

    await reserved(doing, jobs, "put off", ("ready", "delayed", "buried"), issue)


def priority_of(doing: Doing, job: StatsJob) -> int:
    """The priority that a job shall have."""
    return job.pri if doing.action.given.priority is None else doing.action.given.priority


async def reserved(
    doing: Doing,
    jobs: Sequence[JobInfo],
    do: str,
    states: Sequence[str],
    issue: Callable[[AsyncPipeline[bytes], StatsJob], Result[Any]],
) -> None:
    """Reserves jobs that are in one of some states and finishes them, in one go."""
    outcomes: list[tuple[int, BeanpoleError | None]] = []
    there: list[StatsJob] = []
    for id, stats in await together(doing.client, [job.id for job in jobs], lambda line, id: line.stats_job(id)):
        if stats.error is not None:
            outcomes.append((id, stats.error))
        elif stats.result().state in states:
            there.append(stats.result())
        else:
            doing.tally.refused[why_not(do, stats.result().state)] += 1
    pipeline = doing.client.pipeline(raise_errors=False)
    asked = [(job, pipeline.reserve_job(job.id), issue(pipeline, job)) for job in there]
    await sent(pipeline, [each for _, taken, ended in asked for each in (taken, ended)])
    outcomes += [(job.id, taken.error or ended.error) for job, taken, ended in asked]
    kept = [job for job, taken, ended in asked if taken.error is None and is_refusal(ended.error)]
    if kept:
        await together(
            doing.client, [job.id for job in kept], lambda line, id: line.release(id, {j.id: j for j in kept}[id].pri)
        )
    await count(doing.client, doing.tally, do, outcomes)


def is_refusal(error: BeanpoleError | None) -> bool:
    """Whether the server has kept a job as it was reserved, for want of room."""
    return error is not None and not isinstance(error, (ConnectionLostError, NotFoundError))
