"""One tube: its state, its next jobs, its rules, the sessions that wait for it, and if it is closed, why."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.exceptions import HTTPException

from beanpole.client import Explanation, StatsTube
from beanpole.console.errors import AwayError
from beanpole.console.live.seen import Seen, see
from beanpole.console.reading import failures, jobs, rules, sessions
from beanpole.console.reading.bodies import preview
from beanpole.console.screens import drawn
from beanpole.console.screens.links import NAMELESS
from beanpole.console.screens.screen import Screen, View
from beanpole.console.screens.tubes import NEEDS, oldest, rows_of
from beanpole.errors import ArgumentError, BeanpoleError, NotFoundError, UnsupportedError
from beanpole.observe.growth import UNKNOWN
from beanpole.protocol import wire

T = TypeVar("T")

JOBS_SHOWN = 5
"""Jobs of each state."""

BODY_BYTES = 200
"""Of each of their bodies."""

SESSIONS_SHOWN = 10

CLOSED = {"paused", "rate", "concurrency"}
"""The words of the reasons for which a tube hands out no jobs, though it has some and workers wait."""

TROUBLE = CLOSED | {"full", "unwatched"}
"""Those that somebody should look at."""

COUNTS: tuple[tuple[str, str], ...] = (
    ("total-jobs", "put"),
    ("jobs-reserved", "reserved"),
    ("cmd-delete", "deleted"),
    ("jobs-released", "given back"),
    ("jobs-buried", "buried"),
    ("jobs-kicked", "kicked"),
    ("jobs-timed-out", "timed out"),
    ("jobs-lost", "lost: their worker's connection ended"),
    ("jobs-dead", "died by a rule"),
    ("jobs-expired", "expired"),
    ("jobs-moved-in", "moved here"),
    ("jobs-moved-out", "moved away"),
    ("jobs-cleared", "cleared"),
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
    jobs: list[tuple[Any, str, str]]
    """Each with the beginning of its body, and why it failed, if it has."""
    count: int
    missing: str = ""


def name_of(view: View) -> str:
    """The name of the tube. Raises HTTPException: no tube can have it."""
    name = str(view.request.path_params["tube"])
    if name == NAMELESS:
        name = view.query.get("tube", "")
    try:
        wire.tube_name(name)
    except ArgumentError as error:
        raise HTTPException(404, str(error)) from None
    return name


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


async def show(view: View) -> dict[str, Any]:
    """Returns the tube, which need not be there now."""
    name = name_of(view)
    seen, span = await see(view.server), drawn.span_of(view)
    row = next((row for row in await rows_of([seen]) if row.tube.name == name), None)
    is_there = row is not None
    tube = row.tube if row is not None else StatsTube({}, name=name)
    nothing = sessions.Waiting(missing="the server does not answer")
    states = asyncio.gather(*(following(seen, tube, state) for state in jobs.STATES))
    (why, why_not), waiting, applied = await asyncio.gather(
        explained(seen, name),
        known(sessions.who_waits(seen.server, name), nothing),
        known(rules.rules_of(seen.server, name), None),
    )
    return {
        "seen": seen,
        "name": name,
        "is_there": is_there,
        "tube": tube,
        "rates": row.rates if row is not None else UNKNOWN,
        "oldest": oldest(row.tube) if row is not None else None,
        "why": why,
        "why_not": why_not,
        "is_closed": why is not None and any(each.word in CLOSED for each in why.reasons),
        "trouble": TROUBLE,
        "waiting": waiting,
        "sessions_shown": SESSIONS_SHOWN,
        "rules": applied,
        "has_rules": await known(rules.has_rules(seen.server), otherwise=False),
        "states": await states,
        "drawn": drawn.one(seen, span, name),
        "spans": drawn.SPANS,
        "span": span,
        "counts": [(tube.raw[key], text) for key, text in COUNTS if key in tube.raw],
        "lacks_counts": is_there and "jobs-reserved" not in tube.raw,
        "needs": NEEDS,
        "hides_bodies": seen.server.hide_bodies,
    }


SCREEN = Screen("/tubes/{tube:path}", "tube.html", show, live=("now", "pausing", "why", "next", "charts", "waiting"))
