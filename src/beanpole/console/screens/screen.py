"""What a screen is, and the view in which one is shown.

A screen is a template and what it shows. The blocks of the template that are named `live` are sent again, as often as
there is something new, to a browser that asks for the screen's own address as ``text/event-stream``.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from beanpole.console.reading.export import Pieces
from beanpole.console.security.visitors import Visitor
from beanpole.console.servers import Console, Server


@dataclass(frozen=True, slots=True)
class View:
    """A look at one screen."""

    request: Request
    console: Console
    visitor: Visitor

    @property
    def query(self) -> Mapping[str, str]:
        """What stands behind the question mark of the address: the filter of the list."""
        return self.request.query_params

    @property
    def servers(self) -> list[Server]:
        """The servers that it is about. Raises HTTPException: there is none of the name."""
        return self.console.asked(self.request)

    @property
    def server(self) -> Server:
        """The one server that a screen about jobs is of: the named one, or the first."""
        return self.servers[0]


async def nothing(_: View) -> dict[str, Any]:
    """What a screen shows that has nothing of its own."""
    return {}


@dataclass(frozen=True, slots=True)
class Screen:
    """A page."""

    path: str
    """As Starlette writes it: ``/tubes/{tube}``."""

    template: str
    """The file in `templates`."""

    show: Callable[[View], Awaitable[dict[str, Any]]]
    """Returns what the template shows. Raises HTTPException, and AwayError if the server is needed and away."""

    live: tuple[str, ...] = ()
    """The blocks that are sent again."""

    every_s: float = field(default=1, kw_only=True)
    """Seconds between two times that they are, at least."""

    title: str = ""
    """In the navigation; empty: not there."""

    key: str = field(default="", kw_only=True)
    """The letter behind `g` that leads here."""

    lines: Callable[[View], Pieces] | None = field(default=None, kw_only=True)
    """The whole list that it shows a page of, as JSON lines: at the same address with `.jsonl`. None: it is no list."""
