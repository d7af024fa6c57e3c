"""Who is connected, and what is held."""

from typing import Annotated

from msgspec import Meta, Struct, convert, field
from starlette.exceptions import HTTPException

from beanpole.console.api.jobs import Job
from beanpole.console.api.operations import Asked
from beanpole.console.fields import AnyTube, Query
from beanpole.console.reading import held, sessions
from beanpole.console.reading.sessions import FoundSessions, SessionFilter


async def list_sessions(asked: Asked, query: SessionFilter) -> FoundSessions:
    """Who is connected to a server. Needs `list-sessions`."""
    found = await sessions.find(asked.server, query)
    if found.missing:
        raise HTTPException(501, f"this {found.missing}")
    return found


class BusyQuery(Query, frozen=True):
    """Which held jobs."""

    tube: AnyTube = ""


class HeldJob(Struct, frozen=True):
    """A job that is held. Durations are in seconds."""

    job: Job
    left_s: Annotated[float, Meta(description="What is left of its time to run.")] = field(name="left")
    session: Annotated[int | None, Meta(description="The number of the session that holds it; null: unknown.")]
    name: Annotated[str, Meta(description="What that one calls itself.")]
    peer: Annotated[str, Meta(description="Its address.")]
    silent_s: Annotated[float | None, Meta(description="For how long nothing was heard of it; null: unknown.")] = field(
        name="silent"
    )


class Busy(Struct, frozen=True):
    """What is held."""

    jobs: Annotated[list[HeldJob], Meta(description="The one that has run longest first.")] = field(name="items")
    total: Annotated[int, Meta(description="How many jobs are held by the counts of their tubes.")]
    is_complete: Annotated[bool, Meta(description="Whether all tubes were looked at to their ends.")]
    missing: Annotated[list[str], Meta(description="What the server can't say.")]


async def list_busy(asked: Asked, query: BusyQuery) -> Busy:
    """The jobs that are held, and by whom, as it was a second ago at most."""
    return convert(await held.find(asked.server, query.tube), Busy, from_attributes=True)
