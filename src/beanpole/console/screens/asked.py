"""What the servers of a view say: how they are, and their answers to one question."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from beanpole.console.errors import AwayError
from beanpole.console.health import is_ready
from beanpole.console.live.seen import Seen, see
from beanpole.console.screens.screen import View
from beanpole.console.servers import Server, holders
from beanpole.errors import ConnectionLostError

T = TypeVar("T")

NUMBER_DIGITS_MAX = 19
"""Digits of a number in an address: it stays below 2**64."""


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
    """The servers that a view is about, as they are."""
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
        except (AwayError, ConnectionLostError, OSError) as error:
            return Away(server, str(error) or type(error).__name__)

    found = await asyncio.gather(*map(of, await holders(view.servers)))
    heard = [each for each in found if isinstance(each, Heard)]
    away = [each for each in found if isinstance(each, Away)]
    if not heard:
        raise AwayError(away[0].reason)
    return heard, away


def number(view: View, name: str) -> int | None:
    """A whole number of the address; None if it is none."""
    text = view.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX else None
