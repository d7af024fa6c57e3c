"""The jobs of a tube in a state: a page of them, or those in whose body a text stands; and one job with its body."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from beanpole.client import JobInfo, StatsTube
from beanpole.client.explanation import ENDS, HOW
from beanpole.client.extensions import ID_MAX, key_bytes
from beanpole.console import limits
from beanpole.console.actions.action import VERBS
from beanpole.console.answers import HEADERS
from beanpole.console.reading import failures
from beanpole.console.reading.bodies import Shown, preview, shown, visible
from beanpole.console.reading.jobs import STATES, Found, JobFilter, JobSeen, find, job_seen, pages, whole_body
from beanpole.console.reading.tubes import tubes_of
from beanpole.console.screens import links, words
from beanpole.console.screens.screen import Screen, View
from beanpole.console.screens.tubes import ALARMS
from beanpole.console.servers import Server
from beanpole.console.streams import MEDIA_TYPE, record_of
from beanpole.errors import ArgumentError, JobTooBigError, NotFoundError
from beanpole.operations.table import Operation
from beanpole.protocol import wire

SEARCH_CHARS_MAX = 200  # characters of what is searched for
EXPORT_BYTES = 16_777_216  # bytes of each body in an export: of a longer one the line says that it is cut
TUBES_OFFERED = 100  # tubes of which one is offered to choose from

ORDERS = (("id", "by id"), ("next", "as workers get them"))

COUNTERS = ("reserves", "timeouts", "releases", "buries", "kicks")
"""What is counted of a job; a list has those that are not 0 for all."""


async def show(view: View) -> dict[str, Any]:
    to_job(view)
    wanted = filter_of(view.query)
    if wanted is None:
        return {"wanted": None, "tubes": await some_tubes(view)}
    counted = await counts(view, wanted)
    context: dict[str, Any] = {"wanted": wanted, "states": STATES, "orders": ORDERS, "counts": counted}
    if MEDIA_TYPE in view.request.headers.get("accept", ""):
        return context  # only the counts are sent again
    to_state(view, counted)
    found = await find(view.server, wanted, bodies=limits.BODY_SHOWN_BYTES)
    verbs, lacking = await verbs_of(view.server, wanted.state, found.jobs)
    whys = failures.first_lines(found)
    return {
        **context,
        "found": found,
        "rows": [(job, preview(job.body), visible(job.key or ""), whys.get(job.id, "")) for job in found.jobs],
        "hides_bodies": view.server.hide_bodies,
        "verbs": [(each.name, each.text) for each in verbs],
        "lacking": lacking,
        "total": total_of(wanted, found, counted),
        "counters": [name for name in COUNTERS if any(getattr(job, name) for job in found.jobs)],
        "has_groups": any(job.group for job in found.jobs),
        "has_keys": any(job.key for job in found.jobs),
        "has_whys": bool(whys),
        "has_died": any(job.died is not None for job in found.jobs),
        "has_bodies": any(job.body for job in found.jobs),
        "has_sizes": any(job.size is not None for job in found.jobs),
    }


async def lines(view: View) -> AsyncGenerator[list[dict[str, Any]], None]:
    """All jobs that fit the filter, with their bodies."""
    wanted = filter_of(view.query)
    if wanted is None:
        raise HTTPException(400, "say of which tube: ?tube=")
    server = view.server
    if wanted.order == "next":
        found = await find(server, wanted, bodies=EXPORT_BYTES)
        yield [record(job, hides=server.hide_bodies) for job in found.jobs]
        return
    async for piece in pages(server, wanted, bodies=EXPORT_BYTES):
        yield [record(job, hides=server.hide_bodies) for job in piece]


def record(job: JobInfo, *, hides: bool) -> dict[str, Any]:
    made = record_of(job, body=not hides)
    if not hides and job.size is not None and job.size > len(job.body):
        made["body_is_cut"] = True
    return made


def to_job(view: View) -> None:
    """Leads to the job whose number was asked for. Raises HTTPException: there was one."""
    text = view.query.get("id", "").strip()
    if text:
        number = whole(text, "id")
        raise HTTPException(303, headers={"Location": links.job_url(view, view.server.name, number)})


def to_state(view: View, counted: Mapping[str, int] | None) -> None:
    """Leads to the first state that has jobs, if none was asked for and the first of all has none.

    An address that goes on in a list, `after`, stays in it. Raises HTTPException: there is such a state.
    """
    if counted is None or view.query.get("state") or view.query.get("after"):
        return
    state = next((each for each in STATES if counted[each]), STATES[0])
    if state != STATES[0]:
        raise HTTPException(303, headers={"Location": links.url(view, state=state)})


def filter_of(query: Mapping[str, str]) -> JobFilter | None:
    """The filter in an address; None: it names no tube. Raises HTTPException for what makes no sense."""
    tube = query.get("tube", "")
    if not tube:
        return None
    try:
        wire.tube_name(tube)
    except ArgumentError as error:
        raise HTTPException(400, str(error)) from None
    state, order, text = query.get("state") or STATES[0], query.get("order") or "id", query.get("text", "")
    if state not in STATES:
        raise HTTPException(400, f"the state is one of {', '.join(STATES)}, not {state!r}")
    if order not in dict(ORDERS):
        raise HTTPException(400, f"the order is id or next, not {order!r}")
    if len(text) > SEARCH_CHARS_MAX:
        raise HTTPException(400, f"a search has up to {SEARCH_CHARS_MAX} characters")
    after, group = whole(query.get("after") or "0", "after"), query.get("group", "")
    if len(group) > SEARCH_CHARS_MAX or not key_fits(group):
        raise HTTPException(400, f"a group has up to {SEARCH_CHARS_MAX} bytes, and no space")
    return JobFilter(tube, state, text, after, order, group=group)


def key_fits(group: str) -> bool:
    """Whether a group can have this name, which may be empty: then any is meant."""
    try:
        key_bytes(group or "any")
    except ArgumentError:
        return False
    return True


def whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(ID_MAX)) or int(text) > ID_MAX:
        raise HTTPException(400, f"{name} is the number of a job, not {text[:50]!r}")
    return int(text)


async def counts(view: View, wanted: JobFilter) -> dict[str, int] | None:
    """How many jobs of the tube are in each state; None: there is no such tube."""
    client = await view.server.client()
    try:
        stats = await client.stats_tube(wanted.tube)
    except NotFoundError:
        return None
    return {state: int(stats[f"current-jobs-{state}"]) for state in STATES}


async def verbs_of(server: Server, state: str, jobs: Sequence[JobInfo]) -> tuple[list[Operation], list[str]]:
    """What can be done with jobs of a state on this server, and what only other servers can, with the reason."""
    features = await (await server.client()).features()
    has_died = any(job.died is not None for job in jobs)
    there: list[Operation] = []
    lacking: list[str] = []
    for verb in VERBS.values():
        if verb.about != "jobs" or state not in verb.states or (verb.name == "redrive" and not has_died):
            continue
        if verb.name == "cancel" and state != "reserved":  # where it is what Delete is
            continue
        if feature := verb.missing({}, features):
            lacking.append(f"{verb.text} needs {feature}, which this server does not have")
        else:
            there.append(verb)
    return there, lacking


def total_of(wanted: JobFilter, found: Found, counts: Mapping[str, int] | None) -> str:
    """How many jobs fit the filter, as far as that is known."""
    if not wanted.text and not wanted.group:
        return words.count(counts[wanted.state]) if counts else ""
    return words.count(len(found.jobs)) if found.is_complete and not wanted.after else ""


async def some_tubes(view: View) -> list[StatsTube]:
    """The tubes to choose from: those with jobs, by name."""
    tubes = await tubes_of(view.server)
    return [tube for tube in tubes if any(tube[f"current-jobs-{state}"] for state in STATES)][:TUBES_OFFERED]


SCREEN = Screen("/jobs", "jobs.html", show, live=("counts",), title="Jobs", key="j", lines=lines)


# --- One job ----------------------------------------------------------------------------------------------------------

PAST = {"died", "failed", "ended", "meta"}  # the reasons of `explain` that don't say why it waits


async def show_job(view: View) -> dict[str, Any]:
    id = whole(view.request.path_params["id"], "id")
    try:
        found = await job_seen(view.server, id, limits.JSON_BYTES_MAX)
    except NotFoundError:
        raise HTTPException(404, f"there is no job {id}: it is done, or was deleted, or never was") from None
    verbs, lacking = await verbs_of(view.server, found.info.state, [found.info])
    reasons = found.explanation.reasons if found.explanation else []
    past: dict[str, Any] = {each.word: each for each in reasons if each.word in PAST}
    death = past["died"].facts if "died" in past else None
    waits_for_redrive = found.info.origin not in {None, found.info.tube}
    hidden = PAST | ALARMS if waits_for_redrive else PAST
    return {
        "id": id,
        "job": found.info,
        "stats": found.stats,
        "key": visible(found.info.key or ""),
        "group": visible(found.info.group or ""),
        "meta": {visible(name): visible(value) for name, value in (found.info.meta or {}).items()},
        "counters": COUNTERS,
        "verbs": [(each.name, each.text, "danger" if each.is_danger else "") for each in verbs],
        "lacking": lacking,
        "explanation": found.explanation,
        "now": view.console.clock.unix_s(),
        "attempts": attempts_of(found.info, death),
        "waits_for_redrive": waits_for_redrive,
        "reasons": [(each.word, visible(words.sentence(each.text))) for each in reasons if each.word not in hidden],
        "death": death,
        "ends": ENDS,
        "history": [each.facts for each in reasons if each.word == "ended"],
        "how": HOW,
        "failure": past["failed"].text if "failed" in past else None,
        "hides_bodies": view.server.hide_bodies,
        "body": None if view.server.hide_bodies else body_of(found, view.query.get("as", "")),
    }


def attempts_of(job: JobInfo, death: Mapping[str, Any] | None) -> int:
    """How often workers have tried a job, as the server counts for its rules; else how often it was reserved."""
    if death is not None:
        return int(death["attempts"])
    return job.reserves if job.attempt is None else job.attempt


def body_of(found: JobSeen, kind: str) -> Shown:
    body = found.info.body
    return shown(body, len(body) if found.info.size is None else found.info.size, kind)


async def download(request: Request) -> Response:
    """The whole body as a file that no browser opens."""
    view = View.of(request)
    id = whole(request.path_params["id"], "id")
    if view.server.hide_bodies:
        raise HTTPException(403, "bodies are hidden: this console was started with --http-hide-bodies")
    try:
        body = await whole_body(view.server, id)
    except NotFoundError:
        raise HTTPException(404, f"there is no job {id}") from None
    except JobTooBigError as error:
        raise HTTPException(413, str(error)) from None
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="job-{id}"'}
    return Response(body, headers=headers, media_type="application/octet-stream")


JOB = Screen("/jobs/{id}", "job.html", show_job)

ROUTES = (Route("/jobs/{id}/body", download),)
