"""Jobs: lists of them, and one with its body and the reasons why it does not run."""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field
from starlette.exceptions import HTTPException

from beanpole.client.explanation import Explanation
from beanpole.console.api.operations import Asked
from beanpole.console.fields import Next, Number, PageSize, Query, Text
from beanpole.console.reading import job, jobs
from beanpole.errors import NotFoundError

API_BODY_SHOWN_BYTES = 1_048_576
"""Bytes of the body of a job that the API shows: it must fit the memory of the console, several times over."""


class JobsQuery(Query, frozen=True):
    """Which jobs."""

    state: jobs.State = "ready"
    text: Annotated[Text, Meta(description="What stands in the body or the key.")] = ""
    after: Annotated[Number, Meta(description="Only jobs of a greater id: the `next` of a page.")] = 0
    order: Annotated[Literal["id", "next"], Meta(description="`next`: as workers get them, in one page.")] = "id"
    limit: PageSize = 100


class Job(Struct, frozen=True):
    """What the server says of a job. Times are in seconds; null: it does not apply, or the server does not say."""

    id: int
    tube: str
    state: str
    pri: int
    ttr: int
    age: float
    delay: float
    reserves: int
    timeouts: int
    releases: int
    buries: int
    kicks: int
    attempt: Annotated[int | None, Meta(description="Which attempt this is, from 1.")]
    attempts: Annotated[int | None, Meta(description="How many attempts it has, by a rule of its tube.")]
    key: str | None
    origin: Annotated[str | None, Meta(description="The tube in which it died.")]
    died: Annotated[float | None, Meta(description="When it died, in Unix seconds.")]
    size: Annotated[int | None, Meta(description="Bytes of its body.")]


class JobsPage(Struct, frozen=True):
    """Jobs of a tube in a state."""

    jobs: list[Job] = field(name="items")
    next: Next
    looked: Annotated[
        int, Meta(description="How many jobs were looked at: a search ends after a moment, and `next` goes on.")
    ]
    looked_to: Annotated[int, Meta(description="Up to which id.")]
    is_complete: Annotated[bool, Meta(description="Whether that were all behind `after`.")]
    bodies_cut_at: Annotated[int | None, Meta(description="Up to which byte bodies were searched; null: not at all.")]
    missing: Annotated[str, Meta(description="What the server can't do of what was asked.")]


async def list_jobs(asked: Asked, query: JobsQuery) -> JobsPage:
    """Jobs of a tube in a state."""
    wanted = jobs.JobFilter(
        asked.places.tube, query.state, text=query.text, after=query.after, order=query.order, limit=query.limit
    )
    found = await jobs.find(asked.server, wanted)
    return convert(found, JobsPage, from_attributes=True)


class JobQuery(Query, frozen=True):
    """What of a job."""

    body: Annotated[
        Literal["text", "base64", "none"],
        Meta(description="How to write its body; `text` is base64 for one that is no UTF-8."),
    ] = "text"


class Body(Struct, frozen=True):
    """The body of a job."""

    data: str
    encoding: Literal["text", "base64"]
    size: Annotated[int, Meta(description="Bytes that it has.")]
    is_cut: Annotated[bool, Meta(description="Whether `data` is only its beginning.")]


class JobShown(Struct, frozen=True):
    """A job."""

    job: Job
    body: Annotated[Body | None, Meta(description="Null: it was not asked for, or the console hides bodies.")]


class Reason(Struct, frozen=True):
    """A reason that holds."""

    word: Annotated[str, Meta(description="What kind it is: `paused`, `delayed`, `reserved` and so on.")]
    facts: Annotated[Mapping[str, Any], Meta(description="What the server says of it, as on the page Protocol.")]
    text: Annotated[str, Meta(description="The same as a sentence.")]


class Explained(Struct, frozen=True):
    """Why a job is not done, or why a tube hands out no jobs."""

    facts: Annotated[Mapping[str, str], Meta(description="What the server says besides, by its own keys.")]
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
    wanted = 0 if query.body == "none" or asked.server.hide_bodies else API_BODY_SHOWN_BYTES
    try:
        found = await job.one(asked.server, asked.places.id, wanted)
    except NotFoundError:
        raise HTTPException(404, f"there is no job {asked.places.id}") from None
    size = len(found.body) if found.size is None else found.size
    body = body_of(found.body, size, query.body) if wanted else None
    return JobShown(convert(found, Job, from_attributes=True), body)


async def explain_job(asked: Asked) -> Explained:
    """Why a job does not run. Needs `explain`."""
    client = await asked.server.client()
    try:
        return explained(await client.explain(asked.places.id))
    except NotFoundError:
        raise HTTPException(404, f"there is no job {asked.places.id}") from None


async def explain_tube(asked: Asked) -> Explained:
    """Why a tube hands out no jobs. Needs `explain-tube`."""
    client = await asked.server.client()
    try:
        return explained(await client.explain_tube(asked.places.tube))
    except NotFoundError:
        raise HTTPException(404, f"there is no tube {asked.places.tube}") from None


def explained(found: Explanation) -> Explained:
    """An explanation as the API shows it."""
    return Explained(dict(found), [Reason(each.word, each.facts, each.text) for each in found.reasons])
