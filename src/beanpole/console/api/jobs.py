"""Jobs: lists of them, and one with its body and the reasons why it does not run."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from starlette.exceptions import HTTPException

from beanpole.client import JobInfo
from beanpole.client.errors import NotFoundError
from beanpole.client.explanation import Explanation, Reason
from beanpole.client.extensions import ID_MAX
from beanpole.console import limits
from beanpole.console.api.kinds import Length, Range
from beanpole.console.api.operations import Asked
from beanpole.console.reading import job, jobs


@dataclass(frozen=True, slots=True)
class JobsQuery:
    """Which jobs."""

    state: jobs.State = "ready"
    text: Annotated[str, Length(0, limits.API_TEXT_CHARS_MAX), "What stands in the body or the key."] = ""
    after: Annotated[int, Range(0, ID_MAX), "Only jobs of a greater id: the `next` of a page."] = 0
    order: Annotated[Literal["id", "next"], "`next`: as workers get them, in one page."] = "id"
    limit: Annotated[int, Range(1, 1000), "The most of a page."] = 100


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Jobs of a tube in a state."""

    items: list[JobInfo]
    next: Annotated[int | None, "What to give as `after` to go on; null: there is nothing behind."]
    looked: Annotated[int, "How many jobs were looked at: a search ends after a moment, and `next` goes on."]
    looked_to: Annotated[int, "Up to which id."]
    is_complete: Annotated[bool, "Whether that were all behind `after`."]
    bodies_cut_at: Annotated[int | None, "Up to which byte bodies were searched; null: not at all."]
    missing: Annotated[str, "What the server can't do of what was asked."]


async def list_jobs(asked: Asked, query: JobsQuery) -> JobsPage:
    """Jobs of a tube in a state."""
    wanted = jobs.JobFilter(
        asked.tube, query.state, text=query.text, after=query.after, order=query.order, limit=query.limit
    )
    found = await jobs.find(asked.server, wanted)
    return JobsPage(
        found.jobs,
        found.next,
        found.looked,
        found.looked_to,
        found.is_complete,
        found.bodies_cut_at,
        found.missing,
    )


@dataclass(frozen=True, slots=True)
class JobQuery:
    """What of a job."""

    body: Annotated[
        Literal["text", "base64", "none"], "How to write its body; `text` is base64 for one that is no UTF-8."
    ] = "text"


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a job."""

    data: str
    encoding: Literal["text", "base64"]
    size: Annotated[int, "Bytes that it has."]
    is_cut: Annotated[bool, "Whether `data` is only its beginning."]


@dataclass(frozen=True, slots=True)
class JobShown:
    """A job."""

    job: JobInfo
    body: Annotated[Body | None, "Null: it was not asked for, or the console hides bodies."]


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a job is not done, or why a tube hands out no jobs."""

    facts: Annotated[Mapping[str, str], "What the server says besides, by its own keys."]
    reasons: list[Reason]


def body_of(data: bytes, size: int, encoding: str) -> Body:
    """A body as JSON can have it."""
    if encoding == "text":
        try:
            return Body(data.decode(), "text", size, len(data) < size)
        except UnicodeDecodeError:
            pass
    return Body(base64.b64encode(data).decode(), "base64", size, len(data) < size)


async def get_job(asked: Asked, query: JobQuery) -> JobShown:
    """One job, in any state and of any tube, with its body."""
    wanted = 0 if query.body == "none" or asked.server.hide_bodies else limits.API_BODY_SHOWN_BYTES
    try:
        found = await job.one(asked.server, asked.job, wanted)
    except NotFoundError:
        raise HTTPException(404, f"there is no job {asked.job}") from None
    size = len(found.body) if found.size is None else found.size
    return JobShown(found, body_of(found.body, size, query.body) if wanted else None)


async def explain_job(asked: Asked) -> Explained:
    """Why a job does not run. Needs `explain`."""
    client = await asked.server.client()
    try:
        return explained(await client.explain(asked.job))
    except NotFoundError:
        raise HTTPException(404, f"there is no job {asked.job}") from None


async def explain_tube(asked: Asked) -> Explained:
    """Why a tube hands out no jobs. Needs `explain-tube`."""
    client = await asked.server.client()
    try:
        return explained(await client.explain_tube(asked.tube))
    except NotFoundError:
        raise HTTPException(404, f"there is no tube {asked.tube}") from None


def explained(found: Explanation) -> Explained:
    """An explanation as the API shows it."""
    return Explained(dict(found), found.reasons)
