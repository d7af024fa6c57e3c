"""One job: what is known of it, why it is where it is, and the beginning of its body."""

from dataclasses import dataclass, replace

from beanpole.client import AsyncClient, Explanation, JobInfo, StatsJob
from beanpole.client.fallback import info_of
from beanpole.console.reading.jobs import knows_lists
from beanpole.console.servers import Purpose, Server
from beanpole.errors import JobTooBigError, NotFoundError

LIST_ATTEMPTS = 3
"""How often a job is looked for in the state that it had a moment ago."""

DOWNLOAD_BYTES_MAX = 67_108_864
"""Bytes of a body that may be downloaded: it is in memory as a whole, more than once."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """What is known of a job."""

    info: JobInfo
    """As a list has it, with so many bytes of the body as were asked for, and its `size`."""

    stats: StatsJob
    explanation: Explanation | None
    """Why it does not run; None: the server does not say."""


async def one(server: Server, id: int, bodies: int = 0) -> JobInfo:
    """Returns a job as a list has it, with so many bytes of its body.

    Raises NotFoundError, AwayError and what a client does.
    """
    return (await seen(server, id, bodies)).info


async def seen(server: Server, id: int, bodies: int = 0) -> JobSeen:
    """Returns what is known of a job. Raises what `one` does."""
    client = await server.client()
    stats = await client.stats_job(id)
    explanation = await client.explain(id) if "explain" in await client.features() else None
    if server.hide_bodies:
        bodies = 0
    if not await knows_lists(client):
        info = info_of(stats)
        if bodies:
            body = (await client.peek(id)).body
            info = replace(info, body=body[:bodies], size=len(body))
        return JobSeen(info, stats, explanation)
    return JobSeen(await listed(client, stats, bodies), stats, explanation)


async def listed(client: "AsyncClient[bytes]", stats: StatsJob, bodies: int) -> JobInfo:
    """Returns a job as the server lists it; one that changes its state again and again without key, death and body."""
    for _ in range(LIST_ATTEMPTS):
        page = await client.list_jobs(stats.tube, stats.state, 1, after=stats.id - 1, bodies=bodies or None)
        if page.jobs and page.jobs[0].id == stats.id:
            return page.jobs[0]
        stats = await client.stats_job(stats.id)
    return info_of(stats)


async def whole_body(server: Server, id: int) -> bytes:
    """Returns the whole body of a job, for a file. Raises NotFoundError, JobTooBigError, AwayError."""
    if server.hide_bodies:
        raise NotFoundError("bodies are hidden here")
    client = await server.client(Purpose.SEARCH)
    size = (await one(server, id)).size
    if size is not None and size > DOWNLOAD_BYTES_MAX:
        raise JobTooBigError(f"the body has {size} bytes; {DOWNLOAD_BYTES_MAX} may go through the console")
    return (await client.peek(id)).body
