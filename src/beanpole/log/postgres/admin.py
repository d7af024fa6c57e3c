"""What an operator does with a cluster: make it, and look at it."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from beanpole.log import limits
from beanpole.log.format import VERSION
from beanpole.log.postgres import schema
from beanpole.log.postgres.connection import connect, errors_translated, read_server, read_settings
from beanpole.log.postgres.pgstore import PostgresStore
from beanpole.log.postgres.rows import Row, RowKind, first_row, new_writer, unpack_note
from beanpole.log.postgres.store import NodeState, RefusedError, Server, Settings

DURABILITIES = ("quorum", "storage", "local")


@dataclass(frozen=True, slots=True)
class Made:
    """What ``init`` made."""

    cluster: str
    durability: str
    names: str
    existed: bool


@dataclass(frozen=True, slots=True)
class Leader:
    """The node that leads, by the last EPOCH row."""

    node: str
    address: str
    machine: str
    epoch: int


@dataclass(slots=True)
class Status:
    """What ``status`` shows."""

    settings: Settings
    server: Server
    names: str
    """The standbys that a commit waits for, as approved."""

    leader: Leader | None
    segments: list[int]
    tip: Row
    nodes: list[NodeState]
    standbys: list[tuple[str, str, str]]


async def init(
    conninfo: str,
    *,
    durability: str = "quorum",
    silence_ms: int = limits.SILENCE_MS_DEFAULT,
    segment_bytes: int = limits.CLUSTER_SEGMENT_BYTES,
    body_bytes_max: int = limits.CLUSTER_BODY_BYTES_MAX,
) -> Made:
    """Make the tables of a cluster and its first row; do nothing where they are.

    Raises:
        RefusedError: the server can't promise what was asked for; the text says what is missing.
        LostError: it can't be reached.
    """
    connection = await connect(conninfo, "init", admin=True)
    async with connection:
        with errors_translated():
            names = await check_durability(connection, durability)
            async with connection.transaction():
                await connection.execute(schema.MAKE.encode())
                await connection.execute(f"lock table {schema.SCHEMA}.setting".encode())
                cursor = await connection.execute(
                    f"select value from {schema.SCHEMA}.setting where name='cluster'".encode()
                )
                found = await cursor.fetchone()
                if found is not None:
                    settings, values = await read_settings(connection)
                    return Made(settings.cluster, values["durability"], values["names"], existed=True)
                cluster = secrets.token_hex(8)
                await connection.execute(schema.make_segment(1).encode())
                row = first_row(new_writer())
                await connection.execute(
                    schema.insert(1).encode(),
                    columns_of(row),
                )
                for name, value in (
                    ("cluster", cluster),
                    ("format", VERSION),
                    ("silence_ms", silence_ms),
                    ("segment_bytes", segment_bytes),
                    ("body_bytes_max", body_bytes_max),
                    ("durability", durability),
                    ("names", names),
                ):
                    await connection.execute(
                        f"insert into {schema.SCHEMA}.setting values (%s, %s)".encode(), [name, str(value)]
                    )
    return Made(cluster, durability, names, existed=False)


def columns_of(row: Row) -> list[Any]:
    """Return a row as the columns of its table."""
    return [
        row.place.row,
        row.epoch,
        int(row.kind),
        row.writer,
        *row.confirmed,
        row.previous,
        row.hash,
        row.data,
    ]


async def check_durability(connection: psycopg.AsyncConnection, durability: str) -> str:
    """Return synchronous_standby_names, if a commit that waits for them is what was asked for.

    Raises:
        RefusedError: it is not.
    """
    cursor = await connection.execute("select current_setting('synchronous_standby_names'), current_setting('fsync')")
    row = await cursor.fetchone()
    assert row is not None
    names = str(row[0])
    if row[1] != "on":
        raise RefusedError("the server has fsync = off: it would lose what it confirmed; set fsync = on")
    if durability != "quorum":
        return names
    if not names.strip() or "*" in names:
        raise RefusedError(
            f"synchronous_standby_names is {names!r}, which names no standby: with --cluster-durability quorum a "
            "commit must wait for a standby by name. Set it (Patroni: synchronous_mode: on, synchronous_mode_strict: "
            "on), or choose --cluster-durability storage where the disk below PostgreSQL is replicated, or local for a "
            "try on one machine"
        )
    cursor = await connection.execute(
        "select count(*), count(*) filter (where state = 'streaming' and sync_state in ('sync', 'quorum')),"
        " count(*) filter (where state is null) from pg_stat_replication"
    )
    row = await cursor.fetchone()
    assert row is not None
    if row[2]:
        raise RefusedError("the role may not see pg_stat_replication; grant it pg_monitor")
    if not row[1]:
        raise RefusedError(f"no standby of {names!r} is streaming: a commit would wait for ever; start one")
    return names


@asynccontextmanager
async def opened(conninfo: str) -> AsyncIterator[PostgresStore]:
    """Open a connection of an operator.

    Raises:
        LostError: the server can't be reached.
        RefusedError: there is no cluster in the database.
    """
    connection = await connect(conninfo, "cluster")
    async with connection:
        with errors_translated():
            settings, values = await read_settings(connection)
            server = await read_server(connection, values["durability"])
        yield PostgresStore(connection, server, settings, values["names"])


async def status(conninfo: str) -> Status:
    """Return who leads, and what the log holds."""
    async with opened(conninfo) as store:
        nodes = await store.nodes()
        segments = await store.segments()
        leader = await last_epoch(store, segments)
        tip = await last_row(store, segments)
        settings = store.settings
        return Status(settings, store.server, store.names, leader, segments, tip, nodes, await standbys(store))


async def last_row(store: PostgresStore, segments: list[int]) -> Row:
    """Return the last row of the log."""
    for segment in reversed(segments):
        rows = await store.select(segment, "row >= 0 order by row desc limit 1", [])
        if rows:
            return rows[0]
    raise RefusedError("the log has no row: make the cluster again with `beanpole cluster init`")


async def last_epoch(store: PostgresStore, segments: list[int]) -> Leader | None:
    """Return who leads; None: nobody ever did."""
    for segment in reversed(segments):
        rows = await store.select(segment, "kind = %s order by row desc limit 1", [int(RowKind.EPOCH)])
        if rows:
            note, _ = unpack_note(rows[0].data)
            return Leader(note["node"], note["address"], note.get("machine", ""), rows[0].epoch)
    return None


async def standbys(store: PostgresStore) -> list[tuple[str, str, str]]:
    """Return the name, state and role of each standby that the role may see."""
    with errors_translated():
        cursor = await store.connection.execute(
            b"select application_name, coalesce(state, '?'), coalesce(sync_state, '?')"
            b" from pg_stat_replication order by 1"
        )
        return [(name, state, sync) for name, state, sync in await cursor.fetchall()]


async def step_down(conninfo: str, successor: str, timeout_s: float) -> tuple[Leader, Leader | None]:
    """Ask the leader to hand over, to a node or to any; return who led, and who leads then (None: it has not happened).

    Raises:
        RefusedError: nobody leads, or no other node is alive.
    """
    async with opened(conninfo) as store:
        segments = await store.segments()
        leader = await last_epoch(store, segments)
        if leader is None:
            raise RefusedError("no node leads")
        alive = [each.name for each in await store.nodes() if each.age_s < limits.REPORT_OLD_S]
        others = [name for name in alive if name != leader.node]
        if successor and successor not in others:
            raise RefusedError(
                f"node {successor!r} is not alive, or leads already; alive: {', '.join(alive) or 'none'}"
            )
        if not others:
            raise RefusedError(f"no node but {leader.node!r} is alive: nobody could lead; start one first")
        with errors_translated():
            await store.connection.execute(schema.ASK_STEP_DOWN.encode(), [leader.epoch, successor or others[0]])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    found = await last_epoch(store, await store.segments())
                    if found is not None and found.epoch > leader.epoch:
                        return leader, found
                    await asyncio.sleep(limits.POLL_S)
        return leader, None
