"""Jobs that failed for good."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from beanpole.client import JobInfo
from beanpole.client.extensions import ID_MAX
from beanpole.console import limits
from beanpole.console.api.kinds import Length, Range
from beanpole.console.api.operations import AnyTube, Asked
from beanpole.console.reading import failures
from beanpole.console.reading.failures import Failure, Group, Stretch


@dataclass(frozen=True, slots=True)
class FailuresQuery:
    """Which of them."""

    tube: Annotated[AnyTube, "In which tube they failed; empty: any."] = ""
    text: Annotated[str, Length(0, limits.API_TEXT_CHARS_MAX), "What stands in the reason."] = ""
    error: Annotated[
        str | None, Length(0, limits.ERROR_CHARS), "Only those of the groups with this error, whose jobs are named."
    ] = None
    within: Annotated[AnyTube, "In which tube they lie; empty: any."] = ""
    state: Annotated[Literal["", "ready", "delayed", "buried"], "In which state they are; empty: any."] = ""
    after: Annotated[int, Range(0, ID_MAX), "Only jobs of a greater id: the `next` of a place."] = 0


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs that failed in one tube with one error."""

    tube: str
    error: Annotated[str, "The first line of the reason, with … for what differs from job to job."]
    count: Annotated[int, "How many were found."]
    newest: Annotated[float | None, "When the last died, in Unix seconds; null: that is not known of buried jobs."]
    oldest: float | None
    ids: Annotated[list[int], "Some of them, the newest first."]
    kinds: Annotated[Mapping[str, int], "How many died how; `buried` are those that did not."]
    example: Annotated[str, "The first line of what one of them says."]


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that failed."""

    job: JobInfo
    tube: Annotated[str, "In which tube it failed; it lies in `job.tube`."]
    reason: Annotated[str | None, "What its worker said; null: nothing."]
    end: Annotated[str, "How it died; empty: it was buried."]


@dataclass(frozen=True, slots=True)
class FailuresFound:
    """What a look of a moment has found."""

    groups: Annotated[list[FailureGroup], "The largest first."]
    jobs: Annotated[list[FailedJob], "The first, if an error was asked for."]
    looked: Annotated[int, "How many jobs were looked at."]
    total: Annotated[int, "How many there are where the look was."]
    places: Annotated[list[Stretch], "Where such jobs can be, and how far the look came: `next` is null at the end."]
    missing: Annotated[str, "What the server can't say."]


async def list_failures(asked: Asked, query: FailuresQuery) -> FailuresFound:
    """Dead and buried jobs, grouped by the tube in which they failed and by their error."""
    wanted = failures.FailureFilter(
        tube=query.tube,
        text=query.text,
        error=query.error,
        within=query.within,
        state=query.state,
        after=query.after,
    )
    found = await failures.find(asked.server, wanted)
    return FailuresFound(
        [group_of(each) for each in found.groups],
        [job_of(each) for each in found.jobs],
        found.looked,
        found.total,
        found.stretches,
        found.missing,
    )


def group_of(group: Group) -> FailureGroup:
    """A group as the API shows it."""
    return FailureGroup(
        group.tube,
        group.error,
        group.count,
        group.newest,
        group.oldest,
        group.ids,
        group.kinds,
        group.example,
    )


def job_of(failed: Failure) -> FailedJob:
    """A job that failed as the API shows it."""
    return FailedJob(failed.job, failed.tube, failed.why.text, failed.why.end)
