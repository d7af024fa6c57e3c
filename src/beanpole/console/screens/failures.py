"""Jobs that failed for good: in groups, and those of a group."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from beanpole.console import limits
from beanpole.console.reading import failures
from beanpole.console.reading.failures import FailureFilter, Failures, Group
from beanpole.console.screens.screen import Away, Heard, Screen, View, ask_all, number, page_of
from beanpole.console.servers import holders
from beanpole.console.single_flight import look_ends_at
from beanpole.console.streams import Pieces

STATES: tuple[tuple[failures.Where, str], ...] = (
    ("", "any"),
    ("buried", "buried"),
    ("ready", "ready"),
    ("delayed", "delayed"),
)

ORDERS: dict[str, Callable[[Group], Any]] = {
    "count": lambda each: each.count,
    "newest": lambda each: each.newest or 0,
    "oldest": lambda each: each.oldest or 0,
    "tube": attrgetter("tube"),
    "error": attrgetter("error"),
}
"""By what groups can be sorted."""

FIRST = "-count"

PLACES_SHOWN = 5  # places that were not looked at to the end that the notice above the table names


def wanted_of(view: View) -> FailureFilter:
    query = view.query
    return FailureFilter(
        tube=query.get("tube", ""),
        text=query.get("text", ""),
        error=query.get("error") or None,
        within=query.get("within", ""),
        state=next((state for state, _ in STATES if state == query.get("state")), ""),
        after=number(view, "from") or 0,
    )


def ordered(groups: list[Group], by: str) -> list[Group]:
    """Groups by a column; the largest first among equal ones."""
    key = ORDERS.get(by.removeprefix("-"), ORDERS["count"])
    return sorted(failures.in_order(groups), key=key, reverse=by.startswith("-"))


async def show(view: View) -> dict[str, Any]:
    wanted, until = wanted_of(view), look_ends_at()
    heard, away = await ask_all(view, lambda server: failures.find(server, wanted, until))
    return told(view, wanted, heard, away)


def told(view: View, wanted: FailureFilter, heard: Sequence[Heard[Failures]], away: Sequence[Away]) -> dict[str, Any]:
    """What the template shows of what was found."""
    groups = ordered([group for each in heard for group in each.value.groups], view.query.get("sort") or FIRST)
    page = page_of(view, groups, limits.FAILURES_PER_PAGE)
    shown = {
        "wanted": wanted,
        "states": STATES,
        "away": away,
        "looked": sum(each.value.looked for each in heard),
        "total": sum(each.value.total for each in heard),
        "further": [(each.server.name, stretch) for each in heard for stretch in each.value.unfinished],
        "partly": {each.server.name for each in heard if each.value.unfinished or wanted.after},
        "places_shown": PLACES_SHOWN,
        "missing": [(each.server.name, each.value.missing) for each in heard if each.value.missing],
    }
    if wanted.error is not None:
        # Two servers may have a group of that error: the first is shown.
        found, group = next(((each.value, group) for each in heard for group in each.value.groups), (None, None))
        jobs = [job for job in found.jobs if group and job.tube == group.tube] if found else []
        return shown | {"group": group, "jobs": jobs, "verbs": verbs_of(group)}
    return shown | {
        "group": None,
        "groups": page.rows,
        "count": len(groups),
        "jobs_count": sum(each.count for each in groups),
        "start": page.start,
        "after": page.after,
        "by": view.query.get("sort") or FIRST,
    }


def verbs_of(group: Group | None) -> list[tuple[str, str]]:
    """What can be done with the jobs of a group, and what the buttons say: no ready job is kicked."""
    can_kick = group is not None and any(state != "ready" for _, state in group.places)
    return [("redrive", "Redrive"), *([("kick", "Kick")] if can_kick else []), ("delete", "Delete")]


async def lines(view: View) -> Pieces:
    """All jobs that failed, with what their workers said: not only those that a look of the page comes to."""
    wanted = replace(wanted_of(view), after=0) if view.query.get("error") else wanted_of(view)
    for server in await holders(view.servers):
        async for piece in failures.failures_of(server, wanted):
            yield [{"server": server.name, **each.record} for each in piece]


SCREEN = Screen("/failures", "failures.html", show, title="Failures", key="f", lines=lines)
