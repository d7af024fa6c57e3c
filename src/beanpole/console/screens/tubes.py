"""The list of all tubes: sorted, filtered, with the columns that were chosen, a hundred on a page; and one tube."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from markupsafe import Markup

from beanpole.client import Explanation, StatsTube
from beanpole.console.history import Key
from beanpole.console.reading import failures, jobs, sessions, tubes
from beanpole.console.reading.bodies import preview, visible
from beanpole.console.reading.tubes import tubes_of
from beanpole.console.screens import charts, words
from beanpole.console.screens.links import name_in
from beanpole.console.screens.screen import Screen, View, look, page_of
from beanpole.console.servers import Seen, first_seen, see
from beanpole.console.single_flight import AwayError
from beanpole.console.streams import Pieces
from beanpole.errors import BeanpoleError, NotFoundError, UnsupportedError
from beanpole.observe.growth import UNKNOWN, Rates
from beanpole.observe.sampling import OLDEST

TUBES_PER_PAGE = 100  # rows of a page
NOT_KNOWN = "\u2013"  # a dash, for what is not known

NEEDS = "stats-tubes, which plain beanstalkd does not have"
"""What the server must know to say more than `stats-tube` does."""


@dataclass(frozen=True, slots=True)
class Row:
    """A tube of a server."""

    seen: Seen
    tube: StatsTube

    @property
    def rates(self) -> Rates:
        """Its rates; computed when they are asked for, as most rows are on another page."""
        return self.seen.change[self.tube.name]

    @property
    def server(self) -> str:
        return self.seen.server.name

    @property
    def is_for_dead(self) -> bool:
        """Whether a rule sends the dead into it: nobody is to work on these."""
        return self.seen.sample is not None and self.tube.name in self.seen.sample.dead_tubes


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers."""

    key: str  # in the address
    title: str
    help: str
    of: Callable[[Row], float | None]  # the value; None: the server does not say
    write: Callable[[Any], str] = words.count
    is_first: bool = True  # whether it is shown unless others are chosen


def key(name: str) -> Callable[[Row], float | None]:
    def of(row: Row) -> float | None:
        value = row.tube.raw.get(name)
        return value if isinstance(value, int | float) else None

    return of


def rate(name: str) -> Callable[[Row], float | None]:
    return lambda row: getattr(row.rates, name)


def lately(name: Key) -> Callable[[Row], float | None]:
    return lambda row: row.seen.server.history.latest(name, row.tube.name)


LATELY = {"waited", "ran"}  # columns that know nothing where no job was reserved, or done with, a moment ago


def oldest(tube: StatsTube) -> float | None:
    """How long the oldest ready job of a tube has waited; 0: there is none; None: the server does not say."""
    if not tube.current_jobs_ready:
        return 0
    return tube.oldest_ready if OLDEST in tube.raw else None


COLUMNS: tuple[Column, ...] = (
    Column("ready", "Ready", "jobs that a worker can reserve", key("current-jobs-ready")),
    Column("urgent", "Urgent", "ready jobs of a priority below 1024", key("current-jobs-urgent"), is_first=False),
    Column("reserved", "Reserved", "jobs that workers hold", key("current-jobs-reserved")),
    Column("delayed", "Delayed", "jobs that wait for their time", key("current-jobs-delayed")),
    Column("buried", "Buried", "jobs put aside, until somebody kicks them", key("current-jobs-buried")),
    Column(
        "oldest", "Oldest", "how long the oldest ready job has waited", lambda row: oldest(row.tube), words.duration
    ),
    Column("waited", "Waited", "99 % of jobs were ready for less", lately("ready_p99"), words.duration, is_first=False),
    Column("ran", "Ran", "99 % of jobs were held by workers for less", lately("held_p99"), words.duration),
    Column("put", "Put/s", "jobs put a second", rate("put"), words.rate),
    Column("taken", "Reserved/s", "jobs reserved a second", rate("reserved"), words.rate, is_first=False),
    Column("deleted", "Deleted/s", "jobs deleted a second", rate("deleted"), words.rate),
    Column("failed", "Failed/s", "jobs a second released, buried, timed out or lost", rate("failed"), words.rate),
    Column("watching", "Watch", "connections that watch it", key("current-watching")),
    Column("waiting", "Wait", "connections that wait for a job of it", key("current-waiting")),
    Column("using", "Using", "connections that put into it", key("current-using"), is_first=False),
    Column("total", "Total", "jobs put since it came into being", key("total-jobs"), is_first=False),
    Column("deletes", "Deletes", "jobs deleted since then", key("cmd-delete"), is_first=False),
    Column("pauses", "Pauses", "how often it was paused", key("cmd-pause-tube"), is_first=False),
    Column("timeouts", "Timed out", "jobs whose time to run ended", key("jobs-timed-out"), is_first=False),
    Column("released", "Released", "jobs that workers released", key("jobs-released"), is_first=False),
    Column("dead", "Dead", "jobs that died by a rule", key("jobs-dead"), is_first=False),
    Column("expired", "Expired", "jobs deleted as their time was over", key("jobs-expired"), is_first=False),
)
"""All columns, in their order."""

SPARK = "history"  # the key of the column with the sparkline

FIRST = (*(each.key for each in COLUMNS if each.is_first), SPARK)

STATES = tuple(f"current-jobs-{state}" for state in ("ready", "reserved", "delayed", "buried"))
"""What a tube says of its jobs."""

ONLY: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "": ("all tubes", lambda _: True),
    "jobs": ("with jobs", lambda row: any(row.tube.raw.get(each) for each in STATES)),
    "busy": ("with reserved jobs", lambda row: bool(row.tube.current_jobs_reserved)),
    "buried": ("with buried jobs", lambda row: bool(row.tube.current_jobs_buried)),
    "paused": ("paused", lambda row: bool(row.tube.pause)),
    "broken": ("closed by their breaker", lambda row: bool(row.tube.raw.get("breaker-closed"))),
    "alone": (
        "ready, nobody watches",
        lambda row: bool(row.tube.current_jobs_ready) and not row.tube.current_watching and not row.is_for_dead,
    ),
}
"""Filters by key: their names, and which rows they let through."""


async def rows_of(seens: Sequence[Seen]) -> list[Row]:
    """The tubes of some servers, those of a server that follows from its leader; none of one that is not known."""
    rows: list[Row] = []
    for seen in first_seen(seens):
        if seen.sample is not None and seen.sample.leads:
            rows += (Row(seen, tube) for tube in seen.sample.tubes.values())
            continue
        try:
            rows += (Row(seen, tube) for tube in await tubes_of(seen.server))
        except (AwayError, BeanpoleError, OSError):
            continue
    return rows


WAITS_S = 60  # seconds after which it matters how long the oldest job has waited: before, rows would jump about

LOOK = "look"  # the order in which what needs a look comes first

ORDERS = {LOOK: "What needs a look", "name": "Name"}
"""The orders that are no column's, and what a filter calls them."""


def need(row: Row) -> tuple[float, float, float]:
    """How much a tube needs a look: its oldest ready job, then failures, then buried jobs; what is not said is none."""
    waits = 0 if row.is_for_dead else oldest(row.tube) or 0
    return (waits if waits >= WAITS_S else 0, row.rates.failed or 0, row.tube.current_jobs_buried)


def ordered(rows: Sequence[Row], by: str) -> list[Row]:
    """Rows by what needs a look, by name, or by a column; those that do not say come last."""
    rows = sorted(rows, key=lambda row: (row.tube.name, row.server))
    if by == LOOK:
        return sorted(rows, key=need, reverse=True)
    column = next((each for each in COLUMNS if each.key == by.removeprefix("-")), None)
    if column is None:
        return rows[::-1] if by == "-name" else rows
    known = [(value, row) for row in rows if (value := column.of(row)) is not None]
    known.sort(key=lambda each: each[0], reverse=by.startswith("-"))
    return [row for _, row in known] + [row for row in rows if column.of(row) is None]


def orders_of(by: str) -> list[tuple[str, str]]:
    """The orders that a filter offers: that of now is among them."""
    column = next((each.title for each in COLUMNS if each.key == by.removeprefix("-")), "Name")
    return list(({by: column} | ORDERS).items())


def chosen(asked: Sequence[str]) -> list[Column]:
    """The columns that an address asks for; the first ones if there are none of these."""
    keys = set(asked) & {SPARK, *(each.key for each in COLUMNS)} or set(FIRST)
    return [each for each in COLUMNS if each.key in keys]


def cells(row: Row, columns: Iterable[Column]) -> list[tuple[str, str]]:
    """What stands in a row, each with its class."""
    found = []
    for column in columns:
        value = column.of(row)
        name = "right" if value else "right zero"
        found.append((name, NOT_KNOWN if value is None else column.write(value)))
    return found


def sparks(rows: Sequence[Row]) -> list[Markup]:
    """The ready jobs of some tubes over 15 minutes, all on the scale of the one that had most."""
    series = [row.seen.server.history.series("ready", row.tube.name).values for row in rows]
    highest = [max((value for value in values if value is not None), default=0) for values in series]
    top = max(highest, default=0)
    return [
        charts.spark(values, f"Ready jobs, 15 minutes: up to {charts.text_of(most)}", top)
        for values, most in zip(series, highest, strict=True)
    ]


def found(view: View, rows: Sequence[Row]) -> list[Row]:
    """The rows that fit the filter of an address, in its order."""
    text, fits = view.query.get("text", "").lower(), ONLY.get(view.query.get("only", ""), ONLY[""])[1]
    fitting = [row for row in rows if text in row.tube.name.lower() and fits(row)]
    return ordered(fitting, view.query.get("sort") or LOOK)


async def lines(view: View) -> Pieces:
    rows = found(view, await rows_of(await look(view)))
    for start in range(0, len(rows), TUBES_PER_PAGE):
        yield [
            {"server": row.server, "tube": row.tube.name, **{key: row.tube[key] for key in row.tube if key != "name"}}
            for row in rows[start : start + TUBES_PER_PAGE]
        ]


async def show(view: View) -> dict[str, Any]:
    query = view.request.query_params
    by = query.get("sort") or LOOK
    seens = await look(view)
    everything = await rows_of(seens)
    rows = found(view, everything)
    page = page_of(view, rows, TUBES_PER_PAGE)
    columns = chosen(query.getlist("column"))
    has_spark = SPARK in query.getlist("column") or not query.getlist("column")
    has_rates = any(row.rates.put is not None for row in page.rows)
    lacking = [
        each.title
        for each in columns
        if each.key not in LATELY
        and (has_rates or each.write is not words.rate)
        and any(each.of(row) is None for row in page.rows)
    ]
    return {
        "seens": seens,
        "columns": columns,
        "all_columns": COLUMNS,
        "spark_key": SPARK,
        "has_spark": has_spark,
        "rows": [
            (row, cells(row, columns), spark)
            for row, spark in zip(page.rows, sparks(page.rows) if has_spark else [""] * len(page.rows), strict=True)
        ],
        "by": by,
        "orders": orders_of(by),
        "text": query.get("text", ""),
        "only": query.get("only", ""),
        "choices": [(name, title) for name, (title, _) in ONLY.items()],
        "start": page.start,
        "count": len(rows),
        "count_all": len(everything),
        "after": page.after,
        "lacking": lacking,
        "awaits_rates": bool(page.rows) and not has_rates,
        "needs": NEEDS,
    }


SCREEN = Screen("/tubes", "tubes.html", show, live=("away", "rows", "count"), title="Tubes", key="t", lines=lines)


# --- One tube ---------------------------------------------------------------------------------------------------------

T = TypeVar("T")

JOBS_SHOWN = 5  # jobs of each state
BODY_BYTES = 200  # of each of their bodies

SESSIONS_SHOWN = 10
GROUPS_SHOWN = 10

CLOSED = {"paused", "rate", "concurrency", "breaker", "groups"}
"""The words of the reasons for which a tube hands out no jobs, though it has some and workers wait."""

ALARMS = {"unwatched", "elsewhere"}
"""Those that are as they should be where a rule sends the dead."""

TROUBLE = CLOSED | {"full", "unwatched"}  # those that somebody should look at

LATELY_KEYS: tuple[Key, ...] = ("ready_p50", "ready_p99", "held_p50", "held_p99")
"""For how long jobs waited, and ran."""

COUNTS: tuple[tuple[str, str], ...] = (
    ("total-jobs", "put"),
    ("jobs-reserved", "reserved"),
    ("cmd-delete", "deleted"),
    ("jobs-released", "released"),
    ("jobs-buried", "buried"),
    ("jobs-kicked", "kicked"),
    ("jobs-timed-out", "timed out"),
    ("jobs-lost", "lost: their worker's connection ended"),
    ("jobs-dead", "died by a rule"),
    ("jobs-expired", "expired"),
    ("jobs-moved-in", "moved here"),
    ("jobs-moved-out", "moved away"),
    ("jobs-cleared", "cleared"),
    ("jobs-cancelled", "cancelled"),
    ("jobs-replaced", "replaced by another put"),
    ("puts-merged", "puts merged into a job that was there"),
    ("puts-refused", "puts refused by a rule"),
    ("cmd-pause-tube", "pauses"),
)
"""What is counted since the tube came into being, and what it is called."""


@dataclass(frozen=True, slots=True)
class Next:
    """The next jobs of a state."""

    state: str
    jobs: list[tuple[Any, str, str]]  # each with the beginning of its body, and why it failed, if it has
    count: int
    missing: str = ""


async def known(answer: Awaitable[T], otherwise: T) -> T:
    """What a server answers; where it can't, something else."""
    try:
        return await answer
    except (AwayError, BeanpoleError, OSError):
        return otherwise


async def following(seen: Seen, tube: StatsTube, state: jobs.State) -> Next:
    """The next jobs of a state, none where there are none."""
    count = int(getattr(tube, f"current_jobs_{state}"))
    if not count:
        return Next(state, [], 0)
    wanted = jobs.JobFilter(tube.name, state, order="next", limit=JOBS_SHOWN)
    found = await known(jobs.find(seen.server, wanted, bodies=BODY_BYTES), None)
    if found is None:
        return Next(state, [], count, "the server does not answer")
    whys = failures.first_lines(found)
    return Next(state, [(job, preview(job.body), whys.get(job.id, "")) for job in found.jobs], count, found.missing)


async def explained(seen: Seen, name: str) -> tuple[Explanation | None, str]:
    """Why it hands out no jobs, and why that is not known."""
    try:
        return await (await seen.server.client()).explain_tube(name), ""
    except NotFoundError:
        return None, ""
    except UnsupportedError:
        return None, "needs explain-tube, which this server does not have"
    except (AwayError, BeanpoleError, OSError) as error:
        return None, str(error)


async def show_tube(view: View) -> dict[str, Any]:
    name = name_in(view, "tube")
    seen, span = await see(view.server), charts.span_of(view)
    row = next((row for row in await rows_of([seen]) if row.tube.name == name), None)
    is_there = row is not None
    tube = row.tube if row is not None else StatsTube({}, name=name)
    nothing = sessions.Waiting(missing="the server does not answer")
    states = asyncio.gather(*(following(seen, tube, state) for state in jobs.STATES))
    (why, why_not), waiting, applied, dead_of, groups = await asyncio.gather(
        explained(seen, name),
        known(sessions.who_waits(seen.server, name), nothing),
        known(tubes.rules_of(seen.server, name), None),
        known(tubes.patterns_of_dead(seen.server, seen.sample, name), ()),
        known(tubes.groups_of(seen.server, name, GROUPS_SHOWN + 1), []),
    )
    return {
        "seen": seen,
        "name": name,
        "is_there": is_there,
        "tube": tube,
        "rates": row.rates if row is not None else UNKNOWN,
        "oldest": oldest(row.tube) if row is not None else None,
        "lately": {key: seen.server.history.latest(key, name) for key in LATELY_KEYS},
        "why": why,
        "why_not": why_not,
        "is_closed": why is not None and any(each.word in CLOSED for each in why.reasons),
        "trouble": TROUBLE,
        "reasons": [each for each in why.reasons if not dead_of or each.word not in ALARMS] if why is not None else [],
        "dead_of": dead_of,
        "waiting": waiting,
        "sessions_shown": SESSIONS_SHOWN,
        "rules": applied,
        "has_rules": await known(tubes.has_rules(seen.server), otherwise=False),
        "groups": [(each, visible(each.group)) for each in groups],
        "groups_shown": GROUPS_SHOWN,
        "states": await states,
        "drawn": charts.charts_of(seen, span, name),
        "spans": charts.SPANS,
        "span": span,
        "counts": [(tube.raw[key], text) for key, text in COUNTS if key in tube.raw],
        "lacks_counts": is_there and "jobs-reserved" not in tube.raw,
        "needs": NEEDS,
        "hides_bodies": seen.server.hide_bodies,
    }


LIVE = ("now", "pausing", "why", "groups", "next", "charts", "waiting")

TUBE = Screen("/tubes/{tube:path}", "tube.html", show_tube, live=LIVE)
