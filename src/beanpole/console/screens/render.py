"""Templates become pages, also those that say what is wrong; and the files that pages use.

Everything is escaped by Jinja2: what a template gets are texts, never markup, but for charts, which `charts` writes.
What is no character, as half of a surrogate pair, is sent as a question mark. Macros of `parts.html` are there in every
template as ``ui.…``, also in a block that is rendered alone.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, TemplateNotFound, select_autoescape
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from beanpole.console.actions.commands import OF_A_FILE
from beanpole.console.answers import HEADERS, line, problem, refusal_in
from beanpole.console.screens import links, words
from beanpole.console.screens.screen import Screen, View, nothing
from beanpole.console.security.guard import is_api

# --- The style, the script and the pictures: their addresses have what they hold, so browsers may keep them -----------

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png"}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is served."""

    content: bytes
    kind: str
    version: str


@cache
def files() -> dict[str, File]:
    folder = resources.files("beanpole.console.screens").joinpath("static")
    found = {}
    for each in folder.iterdir() if folder.is_dir() else ():
        kind = KINDS.get(each.name.rpartition(".")[2])
        if kind:
            content = each.read_bytes()
            found[each.name] = File(content, kind, hashlib.sha256(content).hexdigest()[:16])
    return found


def address(name: str) -> str:
    return f"/static/{name}?v={files()[name].version}"


async def static(request: Request) -> Response:
    found = files().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, f"there is no {request.url.path}")
    is_this = request.query_params.get("v") == found.version
    keeping = "public, max-age=31536000, immutable" if is_this else "no-cache"
    return Response(found.content, media_type=found.kind, headers={"Cache-Control": keeping})


ROUTES = (Route("/static/{name}", static),)


# --- Pages ------------------------------------------------------------------------------------------------------------


@cache
def environment() -> Environment:
    """The templates. They are compiled at their first use."""
    made = Environment(
        loader=PackageLoader("beanpole.console.screens"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= words.FILTERS
    made.globals |= {
        "url": links.url,
        "export_url": links.export_url,
        "here": links.here,
        "static": address,
        "section": links.section,
        "of_server": links.of_server,
        "tube_url": links.tube_url,
        "job_url": links.job_url,
        "schedule_url": links.schedule_url,
        "of_a_file": OF_A_FILE,
    }
    made.globals["ui"] = made.get_template("parts.html").module
    return made


def page(view: View, screen: Screen, shown: dict[str, Any], status: int = 200) -> Response:
    text = environment().get_template(screen.template).render(everything(view, screen, shown))
    return HTMLResponse(text.encode("utf-8", "replace"), status, HEADERS)


def blocks(view: View, screen: Screen, shown: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    template = environment().get_template(screen.template)
    context = template.new_context(everything(view, screen, shown))
    return {name: "".join(template.blocks[name](context)) for name in names}


def everything(view: View, screen: Screen, shown: dict[str, Any]) -> dict[str, Any]:
    """What a template can use: its own, and what each has."""
    screens = view.request.app.state.screens
    return {"view": view, "screen": screen, "screens": screens, "visitor": view.visitor, **shown}


# --- Errors -----------------------------------------------------------------------------------------------------------

ERROR = Screen("", "error.html", nothing, title="")
AWAY = Screen("", "away.html", nothing, title="")


async def error_answer(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        screen, status, sentence, headers = ERROR, error.status_code, error.detail, dict(error.headers or {})
    elif refusal := refusal_in(error):
        screen, status, sentence, headers = ERROR, HTTPStatus.FORBIDDEN, refusal, {}
    elif isinstance(error, TemplateNotFound):  # it is an OSError, of all things
        raise error
    else:
        screen, status, sentence, headers = AWAY, HTTPStatus.SERVICE_UNAVAILABLE, str(error) or type(error).__name__, {}
    if status < HTTPStatus.BAD_REQUEST:
        return Response(status_code=status, headers=headers)
    if is_api(request):
        return problem(status, sentence, headers)
    if "text/html" not in request.headers.get("accept", ""):
        return line(sentence, status, headers)
    shown = {"status": status, "phrase": HTTPStatus(status).phrase, "sentence": sentence}
    try:
        made = page(View.of(request), screen, shown, status)
    except HTTPException:  # the address names a server that there is not, so the page has no navigation
        return line(sentence, status, headers)
    made.headers.update(headers)
    return made
