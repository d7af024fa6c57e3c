"""What the verbs that look at a server share: a client of asyncio, so that keys are read meanwhile, and a clock."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from beanpole.cli.common import Server

if TYPE_CHECKING:
    from beanpole.client import AsyncClient

ANSWER_TIMEOUT_S = 10.0
"""Seconds of silence after which a server counts as lost."""

now_ns = time.monotonic_ns
"""The clock of samples."""


@asynccontextmanager
async def looking(server: Server, tube: str = "default") -> "AsyncIterator[AsyncClient[bytes]]":
    """A client that is connected, with one attempt to connect each time. Raises CannotConnectError."""
    from beanpole.client import AsyncClient, Backoff

    backoff = Backoff(attempts=1)
    client = AsyncClient(server.address, None, tube, timeout=ANSWER_TIMEOUT_S, backoff=backoff)
    async with client:
        await client.connect()
        yield client


def interval(default: float, help: str) -> Callable[[click.decorators.FC], click.decorators.FC]:  # noqa: A002 - click's word
    """The option --interval."""
    kind = click.FloatRange(0.1, 3600)
    return click.option(
        "--interval", "interval_s", type=kind, default=default, show_default=True, metavar="SECONDS", help=help
    )
