"""The jobs that an action is about, a piece after the other.

What acts on a filter leaves jobs alone whose ids are above the highest that its dry run has seen.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from beanpole.client import AsyncClient, JobInfo, StatsJob
from beanpole.client.errors import NotFoundError
from beanpole.client.extensions import RESTING
from beanpole.client.fallback import info_of
from beanpole.console.actions.action import Action, Filter, Group, Ids, Tube
from beanpole.console.actions.tally import together
from beanpole.console.reading.failures import pages_of_group
from beanpole.console.reading.jobs import JobFilter, knows_lists, pages
from beanpole.console.servers import Purpose, Server


def filters_of(action: Action) -> list[Filter]:
    """The filters that an action is about, one for each state; none: it is about something else."""
    match action.target:
        case Filter():
            return [action.target]
        case Tube(name=name) if action.verb == "clear":
            return [Filter(name, state) for state in action.given.states or RESTING]
    return []


async def jobs_of(
    server: Server, action: Action, highest: int | None, size: int
) -> AsyncGenerator[list[JobInfo], None]:
    """The jobs, up to `size` at a time. Of ids nothing else is known, unless the verb asks where they died."""
    client = await server.client(Purpose.ACTIONS)
    if isinstance(action.target, Ids):
        for start in range(0, len(action.target.ids), size):
            ids = action.target.ids[start : start + size]
            yield [JobInfo(id) for id in ids] if action.verb != "redrive" else await known(client, ids)
        return
    if isinstance(action.target, Group):
        group = pages_of_group(server, action.target.tube, action.target.error, highest)
        async with aclosing(cut(group, size)) as found:
            async for piece in found:
                yield piece
    for each in filters_of(action):
        wanted = JobFilter(each.tube, each.state, each.text)
        async with aclosing(cut(pages(server, wanted, highest, purpose=Purpose.ACTIONS), size)) as found:
            async for piece in found:
                yield piece


async def cut(pages: AsyncGenerator[list[JobInfo], None], size: int) -> AsyncGenerator[list[JobInfo], None]:
    """Pages in pieces of up to `size`. An empty page is one, so that a search that finds nothing can be ended."""
    async with aclosing(pages) as found:
        async for page in found:
            for start in range(0, max(len(page), 1), size):
                yield page[start : start + size]


async def known(client: "AsyncClient[bytes]", ids: Sequence[int]) -> list[JobInfo]:
    """What is known of jobs: all that a list would say, where the server has lists. One that is gone has no tube."""
    stats: dict[int, StatsJob] = {}
    for id, result in await together(client, ids, lambda line, id: line.stats_job(id)):
        if isinstance(result.error, NotFoundError):
            continue
        stats[id] = result.result()
    found = {id: info_of(each) for id, each in stats.items()}
    if await knows_lists(client):
        there = list(stats)
        listed = await together(
            client,
            there,
            lambda line, id: line.list_jobs(stats[id].tube, stats[id].state, 1, after=id - 1),
        )
        for id, result in listed:
            found |= {job.id: job for job in result.result().jobs if job.id == id}
    return [found.get(id, JobInfo(id)) for id in ids]
