"""Who is connected, and what they do."""

from dataclasses import asdict
from typing import Any

from msgspec.structs import replace

from beanpole.console import limits
from beanpole.console.reading import sessions
from beanpole.console.reading.export import Pieces
from beanpole.console.reading.sessions import SessionFilter
from beanpole.console.screens.asked import ask_all, number
from beanpole.console.screens.screen import Screen, View
from beanpole.console.servers import holders

SESSIONS_PER_PAGE = 100
"""Sessions that a page shows."""

DOING = (("", "all"), ("waiting", "that wait for jobs"), ("holding", "that hold jobs"))
"""Filters by what a session does."""


def wanted_of(view: View) -> SessionFilter:
    """What the address asks for."""
    query = view.query
    by = query.get("sort", "").removeprefix("-")
    return SessionFilter(
        text=query.get("text", ""),
        tube=query.get("tube", ""),
        waiting=query.get("doing") == "waiting",
        holding=query.get("doing") == "holding",
        number=number(view, "number"),
        after=number(view, "after"),
        order=next((each for each in sessions.ORDERS if each == by), "number"),
        limit=SESSIONS_PER_PAGE,
    )


async def show(view: View) -> dict[str, Any]:
    """Returns a page of sessions; with several servers the first page of each."""
    wanted = wanted_of(view)
    heard, away = await ask_all(view, lambda server: sessions.find(server, wanted))
    only = heard[0].value if len(view.servers) == 1 else None
    return {
        "wanted": wanted,
        "doing": DOING,
        "by": wanted.order if wanted.order == "number" else f"-{wanted.order}",
        "away": away,
        "rows": [(each.server.name, session) for each in heard for session in each.value.sessions],
        "fitting": sum(each.value.fitting for each in heard),
        "looked": sum(each.value.looked for each in heard),
        "is_complete": all(each.value.is_complete for each in heard),
        "after": only.next if only else None,
        "more": [each.server.name for each in heard if not only and each.value.next is not None],
        "missing": [(each.server.name, each.value.missing) for each in heard if each.value.missing],
        "several": len(view.servers) > 1,
    }


async def lines(view: View) -> Pieces:
    """All sessions that fit, by their numbers."""
    for server in await holders(view.servers):
        wanted = replace(wanted_of(view), after=None, order="number", limit=limits.SESSIONS_LOOKED)
        while True:
            found = await sessions.find(server, wanted)
            yield [{"server": server.name, **asdict(each)} for each in found.sessions]
            if found.next is None:
                break
            wanted = replace(wanted, after=found.next)


SCREEN = Screen(
    "/sessions", "sessions.html", show, live=("rows", "counts"), title="Sessions", key="s", lines=lines, every_s=2
)
