"""Tubes."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.exceptions import HTTPException

from beanpole.client import StatsTube
from beanpole.console.api.operations import Asked
from beanpole.console.api.servers import Figures, figures_of
from beanpole.console.fields import AnyTube, PageSize, Query
from beanpole.console.live.history import Key, SpanName
from beanpole.console.live.seen import see
from beanpole.console.reading.tubes import tubes_of
from beanpole.errors import NotFoundError
from beanpole.observe.growth import Rates


class TubesQuery(Query, frozen=True):
    """Which tubes."""

    after: Annotated[AnyTube, Meta(description="Only those behind this name: the `next` of a page.")] = ""
    limit: PageSize = 100


class Tube(Struct, frozen=True):
    """A tube."""

    name: str
    ready: int
    reserved: int
    delayed: int
    buried: int
    waiting: Annotated[int, Meta(description="How many workers wait for a job of it.")]
    paused_for: Annotated[float, Meta(description="For how many seconds more it is paused; 0: it is not.")]
    oldest_ready: Annotated[
        float | None, Meta(description="For how many seconds its oldest ready job is; null: the server does not say.")
    ]
    rates: Annotated[Rates, Meta(description="Jobs a second between the last two samples; null: not known.")]
    stats: Figures


class TubesPage(Struct, frozen=True):
    """Tubes in the order of their names."""

    items: list[Tube]
    next: Annotated[str | None, Meta(description="What to give as `after` for the next page; null: this is the last.")]


def tube_of(stats: StatsTube, rates: Rates) -> Tube:
    """A tube as the API shows it."""
    return Tube(
        stats.name,
        stats.current_jobs_ready,
        stats.current_jobs_reserved,
        stats.current_jobs_delayed,
        stats.current_jobs_buried,
        stats.current_waiting,
        stats.pause_time_left,
        stats.oldest_ready if "oldest-ready" in stats else None,
        rates,
        figures_of(stats),
    )


async def list_tubes(asked: Asked, query: TubesQuery) -> TubesPage:
    """The tubes of a server, as they were within the last second."""
    tubes = [each for each in await tubes_of(asked.server) if each.name > query.after]
    page, rates = tubes[: query.limit], (await see(asked.server)).change
    items = [tube_of(each, rates[each.name]) for each in page]
    return TubesPage(items, page[-1].name if len(page) < len(tubes) else None)


async def get_tube(asked: Asked) -> Tube:
    """One tube, as it is now."""
    client = await asked.server.client()
    try:
        stats = await client.stats_tube(asked.places.tube)
    except NotFoundError:
        raise HTTPException(404, f"there is no tube {asked.places.tube}") from None
    seen = await see(asked.server)
    shown, before = tube_of(stats, seen.change[asked.places.tube]), seen.tube(asked.places.tube)
    if before is None:
        return shown
    # `stats-tube` says less than the sample does, which may be a second older.
    return replace(
        shown,
        oldest_ready=tube_of(before, shown.rates).oldest_ready,
        stats={**figures_of(before), **shown.stats},
    )


class HistoryQuery(Query, frozen=True):
    """Which values."""

    key: Annotated[Key, Meta(description="What; durations are in seconds, rates in jobs a second.")] = "ready"
    tube: Annotated[AnyTube, Meta(description="Of which tube; empty: of the whole server.")] = ""
    span: Annotated[SpanName, Meta(description="A point each 10 s for 15 minutes, or each minute for six hours.")] = (
        "15m"
    )


class Point(Struct, frozen=True):
    """A value at a time."""

    at: Annotated[float, Meta(description="In Unix seconds.")]
    value: Annotated[float | None, Meta(description="Null: there is none, as there was no sample.")]


class History(Struct, frozen=True):
    """What a value was in the last hours."""

    items: list[Point]


async def get_history(asked: Asked, query: HistoryQuery) -> History:
    """How a server or a tube was in the last hours, since the console looks at it."""
    series = asked.server.history.series(query.key, query.tube or None, query.span)
    return History([Point(*each) for each in series.points])
