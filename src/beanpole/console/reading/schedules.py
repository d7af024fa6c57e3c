"""Schedules: a page of them, one with its document, and when they fire next.

Times are computed here, by the code that the server has for them: at most `TIMES_SHOWN` of a schedule, each within the
fifty years that the code looks ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Literal

from beanpole.client import Schedule
from beanpole.console.servers import Server
from beanpole.errors import ScheduleError
from beanpole.operations.schedules import clock, next_of, times_from, when_of
from beanpole.schedules.document import Document, header_of, parse
from beanpole.schedules.zones import ZoneError

NEEDS = "needs list-schedules, which this server does not have"  # why a server shows no schedules

LINES_BYTES = 256
"""Bytes of each document in a list: the lines that say when stand first. A page of a server has a thousand of them."""

PAGE_MAX = 1_000  # schedules of a page of the server
TIMES_SHOWN = 10  # next times of a schedule

BLOCKED = {
    "disk": "The disk is full, as for a put. Jobs are put as soon as there is room.",
    "zone": "The server has no data of its time zone. Install tzdata on its machine: it looks again each minute.",
}
"""What keeps a schedule from putting what is due."""

Order = Literal["name", "next"]


@dataclass(frozen=True, slots=True)
class Times:
    """When a schedule fires next, in Unix seconds and by the clock of its zone; or why that is not known here."""

    zone: str
    rows: Sequence[tuple[float, str]] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule in a list."""

    schedule: Schedule
    when: str
    """Its line that says when, `cron: 30 2 * * *` for example."""
    zone: str
    local: str
    """Its next time by the clock of its zone; empty: there is none, or that is UTC."""


@dataclass(frozen=True, slots=True)
class Found:
    """Some schedules."""

    rows: list[Row]
    next: str | None  # the name behind which there are more; None: this is the end
    missing: str = ""


async def has_schedules(server: Server) -> bool:
    return "list-schedules" in await (await server.client()).features()


async def find(server: Server, after: str = "", order: Order = "name", limit: int = 100) -> Found:
    """A page of schedules by name, or the first ones by when they fire. Raises AwayError, and what a client does."""
    client = await server.client()
    if not await has_schedules(server):
        return Found([], None, NEEDS)
    if order == "next":
        found = await client.schedules(limit=limit, bodies=LINES_BYTES, order="next")
        return Found([row_of(each) for each in found], None)
    found = await client.schedules(after, min(limit + 1, PAGE_MAX), bodies=LINES_BYTES)
    is_last = len(found) < min(limit + 1, PAGE_MAX)
    return Found([row_of(each) for each in found[:limit]], None if is_last else found[:limit][-1].name)


def row_of(schedule: Schedule) -> Row:
    text = schedule.document
    if len(text) < schedule.size and b"\n\n" not in text:
        text = text[: text.rfind(b"\n") + 1] or text + "…".encode()  # a line that is not whole says nothing, but when
    header, at = header_of(text), next_of(schedule)
    zone = header.get("zone", "UTC")
    return Row(schedule, when_of(header), zone, clock(at, zone) if at is not None and zone != "UTC" else "")


def upcoming(schedule: Schedule, now_s: float) -> Times:
    """When a schedule fires next: from what the server has recorded on, or of one that is paused from now on."""
    zone = header_of(schedule.document).get("zone", "UTC")
    if schedule.state == "ended":
        return Times(zone)
    try:
        document = parse(schedule.document)
    except ScheduleError as error:  # the server is newer than this program
        return Times(zone, missing=str(error))
    at = next_of(schedule)
    return times_of(document, now_s if at is None else at.timestamp())


def times_of(document: Document, from_s: float) -> Times:
    """When a document fires, from a moment on."""
    try:
        found = list(islice(times_from(document, datetime.fromtimestamp(from_s, UTC)), TIMES_SHOWN))
    except ZoneError as error:
        return Times(document.zone, missing=str(error))
    return Times(document.zone, [(each.timestamp(), clock(each, document.zone)) for each in found])
