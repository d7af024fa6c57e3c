"""What can be asked of schedules."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.exceptions import HTTPException

from beanpole.console.api.operations import Asked, ScheduleName
from beanpole.console.api.queries import Body, body_of
from beanpole.console.fields import PageSize, Query
from beanpole.console.reading import schedules
from beanpole.errors import NotFoundError
from beanpole.schedules.document import header_of


class SchedulesQuery(Query, frozen=True):
    """Which schedules."""

    after: Annotated[ScheduleName | None, Meta(description="Only those behind this name: the `next` of a page.")] = None
    order: Annotated[Literal["name", "next"], Meta(description="`next`: that fire first, in one page.")] = "name"
    limit: PageSize = 100


Moment = Annotated[float | None, Meta(description="In Unix seconds; null: there is none.")]


class ScheduleShown(Struct, frozen=True):
    """A schedule."""

    name: str
    state: Annotated[str, Meta(description="`active`, `paused`, or `ended`: it has no time left.")]
    when: Annotated[str, Meta(description="Its line that says when: `cron: 30 2 * * *` for example.")]
    zone: Annotated[str, Meta(description="The time zone whose local time counts.")]
    next: Annotated[Moment, Meta(description="Its next time; of one that is paused as of then.")]
    last: Annotated[Moment, Meta(description="The last of its times that fired, was skipped or missed.")]
    due: Annotated[Moment, Meta(description="When the job of the next time is put: later by its `spread`.")]
    fires: int
    skips: int
    misses: int
    job: Annotated[int | None, Meta(description="The job that was put last.")]
    blocked: Annotated[str | None, Meta(description="Why what is due is not put: `disk` or `zone`.")]


class SchedulesPage(Struct, frozen=True):
    """Schedules of a server."""

    items: list[ScheduleShown]
    next: Annotated[str | None, Meta(description="What to give as `after` to go on; null: there is nothing behind.")]


class ScheduleWhole(Struct, frozen=True):
    """A schedule with its document."""

    schedule: ScheduleShown
    lines: Annotated[Mapping[str, str], Meta(description="The lines of its document, without what is so by default.")]
    body: Annotated[Body | None, Meta(description="Of its jobs. Null: the console hides bodies.")]
    times: Annotated[list[float], Meta(description="When it fires next, in Unix seconds, without its `spread`.")]
    missing: Annotated[str, Meta(description="Why its times are not known here; empty: they are.")]


def schedule_of(row: schedules.Row) -> ScheduleShown:
    found = row.schedule
    return ScheduleShown(
        found.name,
        found.state,
        row.when,
        row.zone,
        unix_s(found.next),
        unix_s(found.last),
        unix_s(found.due),
        found.fires,
        found.skips,
        found.misses,
        found.job,
        found.blocked,
    )


def unix_s(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


async def list_schedules(asked: Asked, query: SchedulesQuery) -> SchedulesPage:
    """The schedules of a server. Needs `list-schedules`."""
    found = await schedules.find(asked.server, query.after or "", query.order, query.limit)
    if found.missing:
        raise HTTPException(501, f"this {found.missing}")
    return SchedulesPage([schedule_of(each) for each in found.rows], found.next)


async def get_schedule(asked: Asked) -> ScheduleWhole:
    """One schedule, with its document and its next times. Needs `get-schedule`."""
    client, name = await asked.server.client(), asked.places.schedule
    try:
        found = await client.schedule(name)
    except NotFoundError:
        raise HTTPException(404, f"there is no schedule {name}") from None
    times = schedules.upcoming(found, asked.console.clock.unix_s())
    data = found.document.partition(b"\n\n")[2]
    return ScheduleWhole(
        schedule_of(schedules.row_of(found)),
        header_of(found.document),
        None if asked.server.hide_bodies else body_of(data, len(data), "text"),
        [at for at, _ in times.rows],
        times.missing,
    )
