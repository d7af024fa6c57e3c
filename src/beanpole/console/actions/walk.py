"""The jobs that an action is about, a piece after the other.

What acts on a filter leaves jobs alone whose ids are above the highest that its dry run has seen.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from beanpole.client import JobInfo
from beanpole.client.extensions import RESTING
from beanpole.console.actions.action import Action, Filter, Group, Ids, Tube
from beanpole.console.reading.failures import pages_of_group
from beanpole.console.reading.jobs import JobFilter, pages
from beanpole.console.servers import Purpose, Server
from beanpole.operations.jobs import known
from beanpole.operations.plan import run_async


def filters_of(action: Action) -> list[Filter]:
    """The filters that an action is about, one for each state; none: it is about something else."""
    match action.target:
        case Filter():
            return [action.target]
        case Tube(name=name) if action.verb == "clear":
            return [Filter(name, state) for state in action.given.get("states", RESTING)]
    return []


async def jobs_of(
    server: Server, action: Action, highest: int | None, size: int
) -> AsyncGenerator[list[JobInfo], None]:
    """The jobs, up to `size` at a time. Of ids nothing else is known, unless the verb asks where they died."""
    client = await server.client(Purpose.ACTIONS)
    if isinstance(action.target, Ids):
        for start in range(0, len(action.target.ids), size):
            ids = action.target.ids[start : start + size]
            yield [JobInfo(id) for id in ids] if action.verb != "redrive" else await run_async(client, known(ids))
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
