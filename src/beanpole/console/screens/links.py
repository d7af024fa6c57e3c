"""Addresses within the console, as templates write them.

An address keeps ``?server=`` where the console has several, and has no empty parts. A tube's name is a single part of a
path, whatever is in it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException

from beanpole.errors import ArgumentError
from beanpole.protocol import wire

if TYPE_CHECKING:
    from beanpole.console.screens.screen import View

SECTIONS = {"put": "actions"}  # the screens that are reached from another one, by the first parts of their paths
DOTS = {".", ".."}  # names that browsers take for folders, encoded or not
NAMELESS = "-"  # the path of what is named in ``?tube=`` or ``?schedule=``: no name begins with a hyphen
ENDING = ".jsonl"  # what the address of a list as JSON lines ends with

Parameter = str | int | float | Iterable[str] | None


def here(view: "View") -> str:
    """The path of a page as its browser has asked for it, a slash in a name encoded; whatever the request's `Host`."""
    scope = view.request.scope
    asked = scope.get("raw_path") or scope["path"]
    return "/" + quote(asked, safe="/%" if "raw_path" in scope else "/").lstrip("/")


def url(view: "View", path: str = "", /, **changes: Parameter) -> str:
    """The address of a screen with a filter; without a path that of this one, changed.

    A change that is empty or None takes a part away; a list becomes one part for each of its texts.
    """
    asked = view.request.query_params
    parts: dict[str, Parameter] = {}
    if not path:
        path = here(view)
        parts = {key: asked.getlist(key) for key in asked}
    elif "server" in asked and len(view.console.servers) > 1:
        parts = {"server": asked["server"]}
    parts |= {key.rstrip("_"): value for key, value in changes.items()}
    left = {key: value for key, value in parts.items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(left, doseq=True)}" if left else path


def export_url(view: "View") -> str:
    """The address of the list that a page is of as JSON lines, with the same filter."""
    left = [(key, value) for key, value in view.request.query_params.multi_items() if value]
    return f"{here(view)}{ENDING}?{urlencode(left)}" if left else here(view) + ENDING


def of_server(view: "View", server: str) -> str | None:
    """What ``?server=`` must be for a link to something of a server; None: there is only one."""
    return server if len(view.console.servers) > 1 else None


def tube_url(view: "View", server: str, name: str, end: str = "") -> str:
    return named_url(view, server, "tube", name, end)


def schedule_url(view: "View", server: str, name: str) -> str:
    return named_url(view, server, "schedule", name)


def named_url(view: "View", server: str, kind: str, name: str, end: str = "") -> str:
    if name in DOTS:
        return url(view, f"/{kind}s/{NAMELESS}{end}", server=of_server(view, server), **{kind: name})
    return url(view, f"/{kind}s/{quote(name, safe='')}{end}", server=of_server(view, server))


def name_in(view: "View", kind: str) -> str:
    """The name of a tube or schedule in a path. Raises HTTPException: none can have it."""
    name = str(view.request.path_params[kind])
    return checked(view.query.get(kind, "") if name == NAMELESS else name)


def checked(name: str) -> str:
    """A name that tubes and schedules can have. Raises HTTPException: none can."""
    try:
        wire.tube_name(name)
    except ArgumentError as error:
        raise HTTPException(404, str(error)) from None
    return name


def job_url(view: "View", server: str, number: int, end: str = "") -> str:
    return url(view, f"/jobs/{number}{end}", server=of_server(view, server))


def section(view: "View") -> str:
    """The path of the screen in the navigation that a view belongs to."""
    first = here(view).split("/")[1]
    return f"/{SECTIONS.get(first, first)}"
