"""Jobs that failed for good."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, convert, field

from beanpole.console.api.jobs import Job
from beanpole.console.api.operations import Asked
from beanpole.console.reading import failures
from beanpole.console.reading.failures import FailureFilter, Stretch


class FailureGroup(Struct, frozen=True):
    """Jobs that failed in one tube with one error."""

    tube: str
    error: Annotated[str, Meta(description="The first line of the reason, with … for what differs from job to job.")]
    count: Annotated[int, Meta(description="How many were found.")]
    newest: Annotated[
        float | None, Meta(description="When the last died, in Unix seconds; null: that is not known of buried jobs.")
    ]
    oldest: float | None
    ids: Annotated[list[int], Meta(description="Some of them, the newest first.")]
    kinds: Annotated[Mapping[str, int], Meta(description="How many died how; `buried` are those that did not.")]
    example: Annotated[str, Meta(description="The first line of what one of them says.")]


class FailedJob(Struct, frozen=True):
    """A job that failed."""

    job: Job
    tube: Annotated[str, Meta(description="In which tube it failed; it lies in `job.tube`.")]
    reason: Annotated[str | None, Meta(description="What its worker said; null: nothing.")]
    end: Annotated[str, Meta(description="How it died; empty: it was buried.")]


class FailuresFound(Struct, frozen=True):
    """What a look of a moment has found."""

    groups: Annotated[list[FailureGroup], Meta(description="The largest first.")]
    jobs: Annotated[list[FailedJob], Meta(description="The first, if an error was asked for.")]
    looked: Annotated[int, Meta(description="How many jobs were looked at.")]
    total: Annotated[int, Meta(description="How many there are where the look was.")]
    stretches: Annotated[
        list[Stretch],
        Meta(description="Where such jobs can be, and how far the look came: `next` is null at the end."),
    ] = field(name="places")
    missing: Annotated[str, Meta(description="What the server can't say.")]


async def list_failures(asked: Asked, query: FailureFilter) -> FailuresFound:
    """Dead and buried jobs, grouped by the tube in which they failed and by their error."""
    return convert(await failures.find(asked.server, query), FailuresFound, from_attributes=True)
