"""Looks at a server: how long one takes, and that who looks within a second shares it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from beanpole.console import limits
from beanpole.console.latest import Latest
from beanpole.console.servers import Server

T = TypeVar("T")

OnAnswer = Callable[[], None]
"""Called each time the server has answered."""


def look_ends_at() -> float:
    """The moment of the loop's clock at which a look that begins now ends."""
    return asyncio.get_running_loop().time() + limits.LOOK_MS / 1000


class Shared(Generic[T]):
    """The last look of one kind at each server."""

    def __init__(self, look: Callable[[Server, OnAnswer], Coroutine[Any, Any, T]]) -> None:
        self._look = look
        self._of: WeakKeyDictionary[Server, Latest[T]] = WeakKeyDictionary()

    async def at(self, server: Server) -> T:
        """The look at a server, as it was a second ago at most. Raises AwayError, and what the look does."""
        if server not in self._of:
            loop = asyncio.get_running_loop()
            shared: Latest[T] = Latest(lambda: self._look(server, shared.heard), lambda: int(loop.time() * 1e9))
            self._of[server] = shared
        return await self._of[server].get()
