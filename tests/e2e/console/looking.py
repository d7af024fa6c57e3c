"""A server as the console's pages have it, without a console process."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from beanpole.client import Address
from beanpole.console.clock import Clock
from beanpole.console.sampler import make_sampler
from beanpole.console.servers import Server
from beanpole.console.settings import Settings, Source
from tests import servers
from tests.servers import HOST

T = TypeVar("T")


class Silent:
    """A log that keeps nothing."""

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        """Drops a line."""


def look(server: servers.Server, ask: Callable[[Server], Awaitable[T]], *, hide_bodies: bool = False) -> T:
    """What a question about a running server brings."""

    async def asked() -> T:
        source = Source("name", Address(HOST, server.port))
        settings = Settings((source,), hide_bodies=hide_bodies)
        looked_at = Server(
            source, settings, make_sampler(source, settings, Silent(), Clock(time.monotonic_ns, time.time))
        )
        try:
            return await ask(looked_at)
        finally:
            await looked_at.stop()

    return asyncio.run(asked())
