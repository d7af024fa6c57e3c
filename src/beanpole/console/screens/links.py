"""Addresses within the console, as templates write them.

An address keeps ``?server=`` where the console has several, and has no empty parts. A tube's name is a single part of a
path, whatever is in it.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from beanpole.console.screens.screen import View

SECTIONS = {"put": "actions"}  # the screens that are reached from another one, by the first parts of their paths
DOTS = {".", ".."}  # names of tubes that browsers take for folders, encoded or not
NAMELESS = "-"  # the path of a tube whose name is in ``?tube=``: no tube's name begins with a hyphen
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
    if name in DOTS:
        return url(view, f"/tubes/{NAMELESS}{end}", server=of_server(view, server), tube=name)
    return url(view, f"/tubes/{quote(name, safe='')}{end}", server=of_server(view, server))


def job_url(view: "View", server: str, number: int, end: str = "") -> str:
    return url(view, f"/jobs/{number}{end}", server=of_server(view, server))


def section(view: "View") -> str:
    """The path of the screen in the navigation that a view belongs to."""
    first = here(view).split("/")[1]
    return f"/{SECTIONS.get(first, first)}"
