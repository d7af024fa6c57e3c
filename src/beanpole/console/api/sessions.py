"""Who is connected, and what is held."""

from dataclasses import dataclass
from typing import Annotated, Literal

from starlette.exceptions import HTTPException

from beanpole.client import JobInfo, SessionInfo
from beanpole.client.extensions import ID_MAX
from beanpole.console import limits
from beanpole.console.api.kinds import Length, Range
from beanpole.console.api.operations import AnyTube, Asked
from beanpole.console.reading import held, sessions


@dataclass(frozen=True, slots=True)
class SessionsQuery:
    """Which sessions."""

    text: Annotated[str, Length(0, limits.API_TEXT_CHARS_MAX), "What stands in the name or the address."] = ""
    tube: AnyTube = ""
    waiting: Annotated[bool, "Only those that wait for a job."] = False
    holding: Annotated[bool, "Only those that hold jobs."] = False
    number: Annotated[int | None, Range(0, ID_MAX), "Only that of this number."] = None
    after: Annotated[int | None, Range(0, ID_MAX), "Only those of a greater number: the `next` of a page."] = None
    order: Annotated[
        Literal["number", "held", "silent", "waiting", "since"], "By any but `number` the longest first, in one page."
    ] = "number"
    limit: Annotated[int, Range(1, 1000), "The most of a page."] = 100


@dataclass(frozen=True, slots=True)
class SessionsPage:
    """Connections."""

    items: list[SessionInfo]
    next: Annotated[int | None, "What to give as `after` to go on; null: there is nothing behind."]
    looked: Annotated[int, "How many were looked at."]
    is_complete: Annotated[bool, "Whether that were all behind `after`."]


async def list_sessions(asked: Asked, query: SessionsQuery) -> SessionsPage:
    """Who is connected to a server. Needs `list-sessions`."""
    found = await sessions.find(
        asked.server,
        sessions.SessionFilter(
            text=query.text,
            tube=query.tube,
            waiting=query.waiting,
            holding=query.holding,
            number=query.number,
            after=query.after,
            order=query.order,
            limit=query.limit,
        ),
    )
    if found.missing:
        raise HTTPException(501, f"this {found.missing}")
    return SessionsPage(found.sessions, found.next, found.looked, found.is_complete)


@dataclass(frozen=True, slots=True)
class BusyQuery:
    """Which held jobs."""

    tube: AnyTube = ""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that is held. Durations are in seconds."""

    job: JobInfo
    left: Annotated[float, "What is left of its time to run."]
    session: Annotated[int | None, "The number of the session that holds it; null: unknown."]
    name: Annotated[str, "What that one calls itself."]
    peer: Annotated[str, "Its address."]
    silent: Annotated[float | None, "For how long nothing was heard of it; null: unknown."]


@dataclass(frozen=True, slots=True)
class Busy:
    """What is held."""

    items: Annotated[list[HeldJob], "The one that has run longest first."]
    total: Annotated[int, "How many jobs are held by the counts of their tubes."]
    is_complete: Annotated[bool, "Whether all tubes were looked at to their ends."]
    missing: Annotated[list[str], "What the server can't say."]


async def list_busy(asked: Asked, query: BusyQuery) -> Busy:
    """The jobs that are held, and by whom, as it was a second ago at most."""
    found = await held.find(asked.server, query.tube)
    items = [HeldJob(each.job, each.left_s, each.session, each.name, each.peer, each.silent_s) for each in found.jobs]
    return Busy(items, found.total, found.is_complete, list(found.missing))
