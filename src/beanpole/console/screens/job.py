"""One job: what is known of it, why it is where it is, its body; and the body as a file."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from beanpole.console import limits
from beanpole.console.answers import HEADERS
from beanpole.console.reading.bodies import Shown, shown, visible
from beanpole.console.reading.job import JobSeen, seen, whole_body
from beanpole.console.screens.jobs import COUNTERS, verbs_of, whole
from beanpole.console.screens.screen import Screen, View
from beanpole.console.security.visitors import visitor_of
from beanpole.errors import JobTooBigError, NotFoundError

DEAD = {"died", "failed"}
"""The reasons of `explain` that say what was, not what is."""


async def show(view: View) -> dict[str, Any]:
    """Returns what is known of a job. Raises HTTPException: there is none."""
    id = whole(view.request.path_params["id"], "id")
    try:
        found = await seen(view.server, id, limits.JSON_BYTES_MAX)
    except NotFoundError:
        raise HTTPException(404, f"there is no job {id}: it is done, or was deleted, or never was") from None
    verbs, lacking = await verbs_of(view.server, found.info.state, [found.info])
    reasons = found.explanation.reasons if found.explanation else []
    return {
        "id": id,
        "job": found.info,
        "stats": found.stats,
        "key": visible(found.info.key or ""),
        "counters": COUNTERS,
        "verbs": [(each.name, each.text, "danger" if each.is_danger else "") for each in verbs],
        "lacking": lacking,
        "explanation": found.explanation,
        "reasons": [(each.word, visible(each.text)) for each in reasons if each.word not in DEAD],
        "deaths": [(each.word, visible(each.text)) for each in reasons if each.word in DEAD],
        "hides_bodies": view.server.hide_bodies,
        "body": None if view.server.hide_bodies else body_of(found, view.query.get("as", "")),
    }


def body_of(found: JobSeen, kind: str) -> Shown:
    """The body as it was asked for."""
    body = found.info.body
    return shown(body, len(body) if found.info.size is None else found.info.size, kind)


async def download(request: Request) -> Response:
    """The whole body as a file that no browser opens."""
    view = View(request, request.app.state.console, visitor_of(request))
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


SCREEN = Screen("/jobs/{id}", "job.html", show)

ROUTES = (Route("/jobs/{id}/body", download),)
