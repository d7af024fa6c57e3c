"""Schedules: a page of them, and one with its next times and its document."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException

from beanpole.client import Schedule
from beanpole.console.reading import schedules
from beanpole.console.reading.bodies import visible
from beanpole.console.reading.schedules import BLOCKED, Found, Order
from beanpole.console.screens.links import checked, name_in, schedule_url
from beanpole.console.screens.screen import Screen, View, ask_all
from beanpole.console.servers import Server, holders
from beanpole.console.streams import Pieces, body_fields
from beanpole.errors import NotFoundError
from beanpole.operations.schedules import next_of, utc
from beanpole.protocol.limits import DOCUMENT_BYTES_MAX
from beanpole.schedules.document import header_of

SCHEDULES_PER_PAGE = 100  # schedules that a page shows

ORDERS = (("", "by name"), ("next", "that fire first"))


def order_of(view: View) -> Order:
    return "next" if view.query.get("order") == "next" else "name"


async def show(view: View) -> dict[str, Any]:
    """Returns a page of schedules; with several servers the first page of each."""
    name = view.query.get("name", "").strip()
    if name:
        raise HTTPException(303, headers={"Location": schedule_url(view, view.server.name, name)})
    after = view.query.get("after", "") and checked(view.query["after"])

    async def ask(server: Server) -> Found:
        return await schedules.find(server, after, order_of(view), SCHEDULES_PER_PAGE)

    heard, away = await ask_all(view, ask)
    rows = [(each.server.name, row) for each in heard for row in each.value.rows]
    if order_of(view) == "next":
        rows.sort(key=lambda each: at.timestamp() if (at := next_of(each[1].schedule)) else float("inf"))
    only = heard[0].value if len(view.servers) == 1 else None
    return {
        "away": away,
        "rows": rows,
        "next_of": next_of,
        "blocked": BLOCKED,
        "order": view.query.get("order", ""),
        "orders": ORDERS,
        "after": only.next if only else None,
        "more": [each.server.name for each in heard if not only and each.value.next is not None],
        "missing": [(each.server.name, each.value.missing) for each in heard if each.value.missing],
        "servers": [each.server.name for each in heard if not each.value.missing],
    }


async def lines(view: View) -> Pieces:
    """All schedules, with their lines and bodies."""
    for server in await holders(view.servers):
        if not await schedules.has_schedules(server):
            continue
        client, after = await server.client(), ""
        while page := await client.schedules(after, SCHEDULES_PER_PAGE, bodies=DOCUMENT_BYTES_MAX):
            yield [record(server, each) for each in page]
            after = page[-1].name


def record(server: Server, found: Schedule) -> dict[str, Any]:
    """A schedule as `beanpole schedule list --json` has it, and the body of its jobs."""
    body = {} if server.hide_bodies else body_fields(found.document.partition(b"\n\n")[2])
    known = {name: value for name, value in asdict(found).items() if name != "document" and value is not None}
    times = {name: utc(at) for name, at in known.items() if isinstance(at, datetime)}
    return {"server": server.name, **known, **times, "lines": header_of(found.document), **body}


SCREEN = Screen(
    "/schedules", "schedules.html", show, live=("rows",), title="Schedules", key="e", lines=lines, every_s=5
)


# --- One --------------------------------------------------------------------------------------------------------------


async def show_schedule(view: View) -> dict[str, Any]:
    name = name_in(view, "schedule")
    server = view.server
    if not await schedules.has_schedules(server):
        raise HTTPException(501, f"a schedule {schedules.NEEDS}")
    try:
        found = await (await server.client()).schedule(name)
    except NotFoundError:
        raise HTTPException(404, f"there is no schedule {name}: it was dropped, or never was") from None
    header, _, body = found.document.partition(b"\n\n")
    return {
        "schedule": found,
        "row": schedules.row_of(found),
        "next": next_of(found),
        "times": schedules.upcoming(found, view.console.clock.unix_s()),
        "blocked": BLOCKED.get(found.blocked or "", found.blocked),
        "lines": visible(header.decode("utf-8", "replace")),
        "body": visible(body.decode("utf-8", "replace")),
        "size": len(body),
        "hides_bodies": server.hide_bodies,
    }


SCHEDULE = Screen("/schedules/{schedule:path}", "schedule.html", show_schedule)
