"""The connection of an operator: to the host, of several, that the cluster works with."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from beanpole.log import limits
from beanpole.log.postgres.connection import (
    check_durability,
    connect,
    errors_translated,
    only_row,
    read_server,
    read_settings,
    sever,
)
from beanpole.log.postgres.pgstore import PostgresStore
from beanpole.log.postgres.schema import SCHEMA
from beanpole.log.postgres.store import LostError
from beanpole.log.postgres.tasks import within
from beanpole.log.postgres.url import hosts_of

OTHER_HOSTS_S = 0.5
"""Seconds that an operator's verb waits for the other hosts when one has answered: it may be an old primary."""


@dataclass(slots=True)
class OperatorStore(PostgresStore):
    """A connection of an operator, who may also look at a cluster that has lost something."""

    loss: str = ""
    """What was lost, while nobody has accepted it."""

    async def present(self) -> list[int]:
        """Return the segments whose table is there."""
        query = "select number from {0}.segment where to_regclass('{0}.log_' || number) is not null order by 1"
        return [number for (number,) in await self.fetch(query.format(SCHEMA))]

    async def missing(self) -> list[int]:
        """Return the segments whose table is gone."""
        present = await self.present()
        return [each for each in await self.segments() if each not in present]


@asynccontextmanager
async def opened(conninfo: str, *, writes: bool = False) -> AsyncIterator[OperatorStore]:
    """Open a connection of an operator, to the server of the newest timeline.

    Every host is asked: a primary whose manager stands still takes writes when another was promoted long ago, and what
    nodes report is not there. `writes`: what is written must be confirmed; that is asked before, as it would wait for a
    standby without a word.

    Raises:
        LostError: no server can be reached.
        RefusedError: there is no cluster in the database.
        BusyError: nothing is confirmed now.
    """
    opening = [asyncio.create_task(open_host(each)) for each in hosts_of(conninfo, os.environ)]
    try:
        store = max(await those_open(opening), key=lambda each: each.server.timeline)
        if writes:
            with errors_translated():
                await check_durability(store.connection, store.server.durability)
        yield store
    finally:
        for each in opening:
            each.cancel()
        for found in await asyncio.gather(*opening, return_exceptions=True):
            if isinstance(found, OperatorStore):
                await found.close()


async def those_open(opening: list[asyncio.Task[OperatorStore]]) -> list[OperatorStore]:
    """Wait until a connection stands, and a moment for the others; return those that do.

    Raises:
        LostError: there is none.
        RefusedError: there is none, as a server refuses.
    """
    stores: list[OperatorStore] = []
    errors: list[BaseException] = []
    waiting = set(opening)
    while waiting:
        seconds = OTHER_HOSTS_S if stores else None
        done, waiting = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            break
        for each in done:
            error = each.exception()
            if error is None:
                stores.append(each.result())
            else:
                errors.append(error)
    if stores:
        return stores
    for error in errors:
        if not isinstance(error, LostError):
            raise error
    raise LostError("; ".join(map(str, errors)))


async def open_host(conninfo: str) -> OperatorStore:
    """Open a connection to a server that takes writes."""
    connection = await connect(conninfo, "cluster")
    try:
        return await within(limits.OPEN_S, look_at(connection), functools.partial(sever, connection))
    except BaseException:
        await connection.close()
        raise


async def look_at(connection: psycopg.AsyncConnection) -> OperatorStore:
    with errors_translated():
        settings, values = await read_settings(connection, for_operator=True)
        server = await read_server(connection, values["durability"])
        # Those of now, not of `init`: what promotes a standby changes them.
        (names,) = await only_row(connection, "select current_setting('synchronous_standby_names')")
    return OperatorStore(connection, server, settings, names, loss=values.get("loss", ""))
