"""The jobs of a server that can't list them: asked for id after id, with beanstalkd's own commands.

Nothing is reserved. A `peek` makes its tube used: afterwards another one is, as a tube that is used does not go.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from beanpole.client import AsyncClient, Job, JobInfo, Result
from beanpole.client.errors import NotFoundError
from beanpole.client.fallback import info_of
from beanpole.console import limits

ONLY_FIRST = "needs list-jobs, which this server does not have: it shows the first job only"

PEEKED = ("ready", "delayed", "buried")
"""The states whose first job can be seen."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some jobs, and behind which id there may be more; None: there are none."""

    jobs: list[JobInfo]
    next: int | None


async def first(client: "AsyncClient[bytes]", tube: str, state: str) -> list[JobInfo]:
    """The job that leaves the state first, whose body is whole; empty: there is none."""
    for body in await peeked(client, tube, (state,) if state in PEEKED else ()):
        try:
            return [replace(info_of(await client.stats_job(body.id)), body=body.body, size=len(body.body))]
        except NotFoundError:
            continue  # it is gone
    return []


async def peeked(client: "AsyncClient[bytes]", tube: str, states: tuple[str, ...] = PEEKED) -> list["Job[bytes]"]:
    """The first jobs of some states of a tube that is there."""
    if tube not in await client.tubes():
        return []
    async with client.pipeline(raise_errors=False) as asked:
        peeks: dict[str, Result[Job[bytes]]] = {}
        for state in states:
            if state == "ready":
                peeks[state] = asked.peek_ready(tube=tube)
            elif state == "delayed":
                peeks[state] = asked.peek_delayed(tube=tube)
            else:
                peeks[state] = asked.peek_buried(tube=tube)
        asked.use("default")
    return [each.result() for each in peeks.values() if not isinstance(each.error, NotFoundError)]


async def pieces(
    client: "AsyncClient[bytes]", tube: str, state: str, after: int, bodies: int
) -> AsyncGenerator[Piece, None]:
    """The jobs of a tube in a state by their ids, as many as were looked at in one round trip at a time.

    It ends behind the newest id that the server is known to have had, or when it has seen as many jobs as there are.
    """
    try:
        left = int((await client.stats_tube(tube))[f"current-jobs-{state}"])
    except NotFoundError:
        left = 0
    stats = await client.stats()
    # No command says the newest id of a server that has restarted.
    last = max([stats.total_jobs, *(job.id for job in await peeked(client, tube))]) + limits.IDS_PER_PIECE
    bodies_at_once = max(1, min(limits.PEEKS_AT_ONCE, limits.PEEKED_BYTES // max(stats.max_job_size, 1)))
    seen, at = 0, after
    while left and at < last:
        ids = range(at + 1, at + 1 + limits.IDS_PER_PIECE)
        async with client.pipeline(raise_errors=False) as asked:
            results = [asked.stats_job(id) for id in ids]
        there = [each.result() for each in results if not isinstance(each.error, NotFoundError)]
        last = max([last, *(job.id + limits.IDS_PER_PIECE for job in there)])
        jobs = [info_of(job) for job in there if job.tube == tube and job.state == state]
        seen += len(jobs)
        at = ids[-1]
        is_over = at >= last or (after == 0 and seen >= left)
        if not jobs:
            yield Piece([], None if is_over else at)
        step = bodies_at_once if bodies else len(jobs)
        for start in range(0, len(jobs), max(step, 1)):
            shown = jobs[start : start + step]
            is_last = start + step >= len(jobs)
            behind = (None if is_over else at) if is_last else shown[-1].id
            yield Piece(await with_bodies(client, shown, bodies) if bodies else shown, behind)
        if is_over:
            return
    if not left or after >= last:
        yield Piece([], None)


async def with_bodies(client: "AsyncClient[bytes]", jobs: list[JobInfo], bodies: int) -> list[JobInfo]:
    """Jobs with the beginnings of their bodies; those that are gone are left out."""
    async with client.pipeline(raise_errors=False) as asked:
        results = [(job, asked.peek(job.id)) for job in jobs]
    return [
        replace(job, body=each.result().body[:bodies], size=len(each.result().body))
        for job, each in results
        if not isinstance(each.error, NotFoundError)
    ]
