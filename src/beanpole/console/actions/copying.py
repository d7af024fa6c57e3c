"""Moves jobs at a server that has no word for it: a copy is put into the other tube, and then the job is deleted.

No job is lost, whatever breaks, but those of a piece may be in both tubes. A ready job is reserved for that, so that no
worker has it as well; what is delayed or buried stays that until it is deleted. The copy of a buried job is put with a
delay, reserved and buried, and no worker sees it in between. Copies have ids of their own.
"""

from collections.abc import Sequence

from beanpole.client import AsyncClient, Job, JobInfo, Result, StatsJob
from beanpole.client.errors import NotFoundError
from beanpole.console import limits
from beanpole.console.actions.tally import Tally, count, sent, together
from beanpole.errors import BeanpoleError

BURY_WITHIN_S = 60
"""Seconds of delay of a copy that will be buried: far more than two round trips."""

TWICE = "a worker has it: it is in both tubes now"


async def move(client: "AsyncClient[bytes]", tally: Tally, to: str, jobs: Sequence[JobInfo]) -> None:
    """Moves jobs into a tube."""
    for start in range(0, len(jobs), limits.ACTION_RESERVED_PIECE):
        piece = jobs[start : start + limits.ACTION_RESERVED_PIECE]
        outcomes: list[tuple[int, BeanpoleError | None]] = []
        there: list[StatsJob] = []
        for id, stats in await together(client, [job.id for job in piece], lambda line, id: line.stats_job(id)):
            if stats.error is not None:
                outcomes.append((id, stats.error))
            else:
                there.append(stats.result())
        outcomes += await copied(client, tally, to, there)
        await count(client, tally, "move", outcomes)


async def copied(
    client: "AsyncClient[bytes]", tally: Tally, to: str, jobs: Sequence[StatsJob]
) -> list[tuple[int, BeanpoleError | None]]:
    """Puts copies of jobs and deletes these; returns what became of each."""
    outcomes: list[tuple[int, BeanpoleError | None]] = []
    pipeline = client.pipeline(raise_errors=False)
    bodies = [(job, pipeline.reserve_job(job.id) if job.state == "ready" else pipeline.peek(job.id)) for job in jobs]
    await sent(pipeline, [each for _, each in bodies])
    outcomes += [(job.id, body.error) for job, body in bodies if body.error is not None]
    pipeline = client.pipeline(raise_errors=False)
    puts: list[tuple[StatsJob, Result[int]]] = []
    for job, body in bodies:
        if body.error is None:
            found: Job[bytes] = body.result()
            delay = BURY_WITHIN_S if job.state == "buried" else job.time_left if job.state == "delayed" else 0
            puts.append((job, pipeline.put(found.body, job.pri, delay, job.ttr, tube=to)))
    await sent(pipeline, [each for _, each in puts])
    pipeline = client.pipeline(raise_errors=False)
    deletes: list[tuple[StatsJob, Result[None]]] = []
    for job, put in puts:
        if put.error is None:
            if job.state == "buried":
                pipeline.reserve_job(put.result())
                pipeline.bury(put.result(), job.pri)
            deletes.append((job, pipeline.delete(job.id)))
            continue
        outcomes.append((job.id, put.error))
        if job.state == "ready":
            pipeline.release(job.id, job.pri)
    await sent(pipeline, [each for _, each in deletes])
    for job, deleted in deletes:
        if isinstance(deleted.error, NotFoundError):
            tally.refused[TWICE] += 1
        else:
            outcomes.append((job.id, deleted.error))
    return outcomes
