"""What a screen is, the view in which one is shown, and what the servers of a view say.

A screen is a template and what it shows. The blocks of the template that are named `live` are sent again, as often as
there is something new, to a browser that asks for the screen's own address as ``text/event-stream``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from starlette.requests import Request

from beanpole.console.answers import refusal_in
from beanpole.console.health import is_ready
from beanpole.console.security.access import Visitor, visitor_of
from beanpole.console.servers import Console, Seen, Server, holders, see, wholes
from beanpole.console.single_flight import AwayError
from beanpole.console.streams import Pieces
from beanpole.errors import ConnectionLostError, ForbiddenError


@dataclass(frozen=True, slots=True)
class View:
    """A look at one screen."""

    request: Request
    console: Console
    visitor: Visitor

    @classmethod
    def of(cls, request: Request) -> Self:
        return cls(request, request.app.state.console, visitor_of(request))

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

    @property
    def several(self) -> bool:
        """Whether lists have to say of which server each row is."""
        return len(wholes(self.servers)) > 1


async def nothing(_: View) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Screen:
    """A page."""

    path: str  # as Starlette writes it: ``/tubes/{tube}``
    template: str  # the file in `templates`
    show: Callable[[View], Awaitable[dict[str, Any]]]
    """Returns what the template shows. Raises HTTPException, and AwayError if the server is needed and away."""
    live: tuple[str, ...] = ()  # the blocks that are sent again
    every_s: float = field(default=1, kw_only=True)  # seconds between two times that they are, at least
    title: str = ""  # in the navigation; empty: not there
    key: str = field(default="", kw_only=True)  # the letter behind `g` that leads here
    lines: Callable[[View], Pieces] | None = field(default=None, kw_only=True)
    """The whole list that it shows a page of, as JSON lines: at the same address with `.jsonl`. None: it is no list."""


T = TypeVar("T")

NUMBER_DIGITS_MAX = 19  # digits of a number in an address: it stays below 2**64


@dataclass(frozen=True, slots=True)
class Heard(Generic[T]):
    """What a server has answered."""

    server: Server
    value: T


@dataclass(frozen=True, slots=True)
class Away:
    """A server that has not."""

    server: Server
    reason: str


async def look(view: View) -> list[Seen]:
    return list(await asyncio.gather(*(see(server) for server in view.servers)))


def state_of(seen: Seen) -> tuple[str, str, str]:
    """How a server is: a word, its class, and a sentence."""
    if seen.is_away or seen.sample is None:
        return "away", "bad", seen.reason
    takes, why = is_ready(seen.sample.stats)
    if not takes:
        return "closed", "warn", why
    return ("ok", "ok", why) if seen.sample.leads else ("follows", "", why)


async def ask_all(view: View, ask: Callable[[Server], Awaitable[T]]) -> tuple[list[Heard[T]], list[Away]]:
    """Asks all servers of a view at once, and each cluster once. Raises AwayError: none of them has answered."""

    async def of(server: Server) -> Heard[T] | Away:
        try:
            return Heard(server, await ask(server))
        except (AwayError, ForbiddenError, ConnectionLostError, OSError) as error:
            errors.append(error)
            return Away(server, refusal_in(error) or str(error) or type(error).__name__)

    errors: list[Exception] = []
    found = await asyncio.gather(*map(of, await holders(view.servers)))
    heard = [each for each in found if isinstance(each, Heard)]
    away = [each for each in found if isinstance(each, Away)]
    if not heard:
        raise AwayError(away[0].reason) from errors[0]
    return heard, away


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows of a list, from the one whose number stands in the address."""

    rows: Sequence[T]
    start: int
    after: int | None  # where the next page begins; None: this is the last


def page_of(view: View, rows: Sequence[T], size: int) -> Page[T]:
    start = number(view, "after") or 0
    return Page(rows[start : start + size], start, start + size if len(rows) > start + size else None)


def number(view: View, name: str) -> int | None:
    """A whole number of the address; None if it is none."""
    text = view.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX else None
