"""What can be asked of servers, tubes, jobs, failures, sessions and rules."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field
from msgspec.structs import replace
from starlette.exceptions import HTTPException

from beanpole.client import StatsTube
from beanpole.client.explanation import Explanation
from beanpole.client.stats import Stats, typed_keys
from beanpole.console.api.operations import Asked
from beanpole.console.fields import AnyTube, Next, Number, PageSize, Query, Text
from beanpole.console.history import Key, SpanName
from beanpole.console.reading import failures, jobs, sessions, tubes
from beanpole.console.reading.failures import FailureFilter, Stretch
from beanpole.console.reading.sessions import FoundSessions, SessionFilter
from beanpole.console.reading.tubes import tubes_of
from beanpole.console.servers import Server, see
from beanpole.errors import NotFoundError
from beanpole.observe.growth import Rates
from beanpole.observe.sampling import role_of

# --- Servers ----------------------------------------------------------------------------------------------------------

Figures = Annotated[
    Mapping[str, int | float | str | bool],
    Meta(description="What the server says itself, by its own keys: docs/protocol.md explains them."),
]


class ServerShown(Struct, frozen=True):
    """A server that the console looks at."""

    name: Annotated[str, Meta(description="What it is called in the paths of the others.")]
    address: Annotated[str, Meta(description="HOST:PORT or unix:PATH; its name if it has started the console itself.")]
    away: Annotated[str | None, Meta(description="Why it does not answer; null: it does.")]
    away_since: Annotated[float | None, Meta(description="In Unix seconds; null: it is there.")]
    role: Annotated[str, Meta(description="leader or follower; empty: it is in no cluster.")]
    rates: Annotated[Rates, Meta(description="Jobs a second between its last two samples; null: not known.")]
    stats: Annotated[Figures | None, Meta(description="As it said last; null: it was never there.")]


class ServersShown(Struct, frozen=True):
    """The servers of the console."""

    items: list[ServerShown]


def figures_of(stats: Stats | StatsTube) -> dict[str, int | float | str | bool]:
    """What a server says by its own keys, in types of JSON."""
    typed = {key: getattr(stats, name) for name, key, _ in typed_keys(type(stats))}
    return {key: typed.get(key, value) for key, value in stats.items()}


async def shown(server: Server) -> ServerShown:
    seen = await see(server)
    stats = seen.sample.stats if seen.sample is not None else None
    return ServerShown(
        server.name,
        server.source.address_text,
        seen.reason if seen.is_away else None,
        seen.away_since,
        role_of(stats) if stats is not None else "",
        seen.total,
        figures_of(stats) if stats is not None else None,
    )


async def list_servers(asked: Asked) -> ServersShown:
    """The servers that the console looks at, also those that are away."""
    return ServersShown(list(await asyncio.gather(*map(shown, asked.console.servers.values()))))


async def get_server(asked: Asked) -> ServerShown:
    """One server."""
    return await shown(asked.server)


# --- Tubes ------------------------------------------------------------------------------------------------------------


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


# --- Jobs -------------------------------------------------------------------------------------------------------------

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
    group: str | None
    meta: Annotated[dict[str, str] | None, Meta(description="Its headers, by their names.")]
    origin: Annotated[str | None, Meta(description="The tube in which it died.")]
    died: Annotated[float | None, Meta(description="When it died, in Unix seconds.")]
    size: Annotated[int | None, Meta(description="Bytes of its body.")]
    schedule: Annotated[str | None, Meta(description="The schedule that has put it.")]
    scheduled: Annotated[float | None, Meta(description="For which of its times, in Unix seconds.")]
    fire: Annotated[int | None, Meta(description="How many of its times had become jobs with this one.")]


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
        found = await jobs.one_job(asked.server, asked.places.id, wanted)
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
    return Explained(dict(found), [Reason(each.word, each.facts, each.text) for each in found.reasons])


# --- Failures ---------------------------------------------------------------------------------------------------------


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


# --- Sessions ---------------------------------------------------------------------------------------------------------


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
    return convert(await sessions.find_held(asked.server, query.tube), Busy, from_attributes=True)


# --- Rules ------------------------------------------------------------------------------------------------------------


class RuleSet(Struct, frozen=True):
    """The rules of a tube, of all whose names begin so, or of all."""

    pattern: Annotated[str, Meta(description="A tube's name, the beginning of one with * behind it, or *.")]
    rules: Annotated[Mapping[str, str], Meta(description="By their names.")]


class RulesInForce(RuleSet, frozen=True):
    """The same, and where they are in force."""

    tubes: Annotated[list[str], Meta(description="The tubes that are there and have these rules.")]


class RuleSets(Struct, frozen=True):
    """All rules of a server, by their patterns."""

    items: list[RulesInForce]


async def list_rules(asked: Asked) -> RuleSets:
    """The rules that are set. Needs `list-rules`."""
    await need_rules(asked)
    found = await tubes.all_rules(asked.server)
    return RuleSets([RulesInForce(each.pattern, dict(each.rules), each.tubes) for each in found])


async def get_rules(asked: Asked) -> RuleSet:
    """The rules that apply to a tube, which need not exist. Needs `get-rules`."""
    await need_rules(asked)
    found = await tubes.rules_of(asked.server, asked.places.tube)
    if found is None:
        raise HTTPException(404, f"no rules apply to the tube {asked.places.tube}")
    return RuleSet(found.pattern, dict(found))


async def need_rules(asked: Asked) -> None:
    if not await tubes.has_rules(asked.server):
        raise HTTPException(501, f"this {tubes.NEEDS_RULES}")
