"""Tubes."""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from starlette.exceptions import HTTPException

from beanpole.client import StatsTube
from beanpole.client.errors import NotFoundError
from beanpole.console.api.kinds import Length, Range
from beanpole.console.api.operations import AnyTube, Asked
from beanpole.console.api.servers import Figures, figures_of
from beanpole.console.live.history import Key
from beanpole.console.live.rates import Rates
from beanpole.console.live.seen import see
from beanpole.console.reading.tubes import tubes_of
from beanpole.limits import TUBE_NAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class TubesQuery:
    """Which tubes."""

    after: Annotated[str, Length(0, TUBE_NAME_BYTES_MAX), "Only those behind this name: the `next` of a page."] = ""
    limit: Annotated[int, Range(1, 1000), "The most of a page."] = 100


@dataclass(frozen=True, slots=True)
class Tube:
    """A tube."""

    name: str
    ready: int
    reserved: int
    delayed: int
    buried: int
    waiting: Annotated[int, "How many workers wait for a job of it."]
    paused_for: Annotated[float, "For how many seconds more it is paused; 0: it is not."]
    oldest_ready: Annotated[
        float | None, "For how many seconds its oldest ready job is; null: the server does not say."
    ]
    rates: Annotated[Rates, "Jobs a second between the last two samples; null: not known."]
    stats: Figures


@dataclass(frozen=True, slots=True)
class TubesPage:
    """Tubes in the order of their names."""

    items: list[Tube]
    next: Annotated[str | None, "What to give as `after` for the next page; null: this is the last."]


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
    page, rates = tubes[: query.limit], (await see(asked.server)).rates
    items = [tube_of(each, rates[each.name]) for each in page]
    return TubesPage(items, page[-1].name if len(page) < len(tubes) else None)


async def get_tube(asked: Asked) -> Tube:
    """One tube, as it is now."""
    client = await asked.server.client()
    try:
        stats = await client.stats_tube(asked.tube)
    except NotFoundError:
        raise HTTPException(404, f"there is no tube {asked.tube}") from None
    seen = await see(asked.server)
    shown, before = tube_of(stats, seen.rates[asked.tube]), seen.tube(asked.tube)
    if before is None:
        return shown
    # `stats-tube` says less than the sample does, which may be a second older.
    return replace(
        shown,
        oldest_ready=tube_of(before, shown.rates).oldest_ready,
        stats={**figures_of(before), **shown.stats},
    )


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Which values."""

    key: Annotated[Key, "What; durations are in seconds, rates in jobs a second."] = "ready"
    tube: Annotated[AnyTube, "Of which tube; empty: of the whole server."] = ""
    span: Annotated[Literal["15m", "6h"], "A point each 10 s for 15 minutes, or each minute for six hours."] = "15m"


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time."""

    at: Annotated[float, "In Unix seconds."]
    value: Annotated[float | None, "Null: there is none, as there was no sample."]


@dataclass(frozen=True, slots=True)
class History:
    """What a value was in the last hours."""

    items: list[Point]


async def get_history(asked: Asked, query: HistoryQuery) -> History:
    """How a server or a tube was in the last hours, since the console looks at it."""
    series = asked.server.history.series(query.key, query.tube or None, query.span)
    return History([Point(*each) for each in series.points])
