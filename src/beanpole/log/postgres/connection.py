"""Connections to PostgreSQL: how they are opened, what is checked of the server, and what its errors mean.

A session is the cluster's only if a commit in it waits for the standbys that were approved, whatever the server's
configuration says later: each append asks for that again.
"""

import contextlib
import functools
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from weakref import WeakSet

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from beanpole.log import limits
from beanpole.log.postgres.schema import SCHEMA
from beanpole.log.postgres.store import (
    BusyError,
    ChangedError,
    DamagedError,
    GoneError,
    LostError,
    NoClusterError,
    RefusedError,
    Server,
    Settings,
)
from beanpole.log.postgres.tasks import within
from beanpole.shard_ids import read_numbers

CONNECT_TIMEOUT_S = 2
"""Seconds that the opening of a connection may take, for each address."""

TCP_USER_TIMEOUT_MS = 3000
"""Milliseconds after which a connection is lost whose bytes are not acknowledged."""

TIMEOUTS_0 = ("idle_session_timeout", "transaction_timeout")
"""What newer servers have besides."""

SESSION = (
    ("synchronous_commit", "on"),
    ("client_min_messages", "warning"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("search_path", ""),
    ("default_transaction_read_only", "off"),
    ("default_transaction_isolation", "read committed"),
)
"""What each session sets, and reads back."""

SESSIONS: WeakSet[psycopg.AsyncConnection] = WeakSet()
"""The connections of this process: what takes too long on them can't be cancelled, but they can be cut."""

LOST_CLASSES = ("08", "57", "25", "40", "23")
BUSY_CLASSES = ("53", "55")
GONE = "42P01"

DAMAGED_CLASSES = ("XX001", "XX002", "58")
"""Data or an index is corrupted; a file can't be read or is not there."""

ADVICE = (
    ("fsync = off", "set fsync = on; where it was off for a while run `sync` on the server's machine before"),
    (
        "password authentication failed|no password supplied",
        "see the user in the URL, and its line in ~/.pgpass or PGPASSWORD",
    ),
    ('role ".*" does not exist', "see the user in the URL, or make the role"),
    ('database ".*" does not exist', "see the database in the URL, or make it"),
    (
        r"pg_hba\.conf|authentication failed",
        "see pg_hba.conf of the server: it must let this user in from this machine",
    ),
    ("", "see that PostgreSQL has a primary, and that this machine reaches it"),
)
"""What to do where no connection opens, by the reason: libpq gives no SQLSTATE with it. The first that fits holds."""


def advice_for(reason: str) -> str:
    return next(advice for pattern, advice in ADVICE if re.search(pattern, reason))


def error_for(state: str | None, text: str) -> Exception:
    """Return what an error of the server means, by its SQLSTATE (PostgreSQL's documentation, appendix A)."""
    text = " ".join(text.split())
    if state == GONE:
        return GoneError(text)
    if state is None or state.startswith(LOST_CLASSES):
        return LostError(text)
    if state.startswith(BUSY_CLASSES):
        return BusyError(text)
    if state.startswith(DAMAGED_CLASSES):
        return DamagedError(text)
    return RefusedError(f"PostgreSQL refuses: {text}")


@contextmanager
def errors_translated() -> Iterator[None]:
    """Raise what an error of psycopg means, in its place."""
    try:
        yield
    except psycopg.Error as error:
        raise error_for(error.sqlstate, str(error) or type(error).__name__) from error


async def connect(conninfo: str, name: str, *, admin: bool = False) -> psycopg.AsyncConnection:
    """Open a connection to the server that takes writes.

    Raises:
        LostError: there is none now.
        RefusedError: there never will be.
    """
    with errors_translated():
        text = make_conninfo(
            conninfo,
            connect_timeout=conninfo_to_dict(conninfo).get("connect_timeout", CONNECT_TIMEOUT_S),
            keepalives_idle=1,
            keepalives_interval=1,
            keepalives_count=3,
            tcp_user_timeout=TCP_USER_TIMEOUT_MS,
            target_session_attrs="read-write",
            client_encoding="utf8",  # or a database in SQL_ASCII gives bytes for text
            application_name=f"beanpole {name}",
        )
        connection = await psycopg.AsyncConnection.connect(text, autocommit=True, prepare_threshold=None)
        SESSIONS.add(connection)
    try:
        if not admin:
            with errors_translated():
                await within(limits.OPEN_S, prepare_session(connection), functools.partial(sever, connection))
    except BaseException:
        await connection.close()
        raise
    return connection


def sever(connection: psycopg.AsyncConnection) -> None:
    """End a connection at once, whatever is under way on it."""
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as each,
    ):
        each.shutdown(socket.SHUT_RDWR)


def sever_all() -> None:
    """End all connections of this process at once."""
    for each in list(SESSIONS):
        if not each.closed:
            sever(each)


async def only_row(connection: psycopg.AsyncConnection, query: LiteralString) -> Any:  # noqa: ANN401 - columns of any type
    """Return the row of a query that has one."""
    cursor = await connection.execute(query)
    return await cursor.fetchone()


async def prepare_session(connection: psycopg.AsyncConnection) -> None:
    """Set what a session must have, and read it back."""
    (pid,) = await only_row(connection, "select pg_catalog.pg_backend_pid()")
    if pid != connection.info.backend_pid:
        raise RefusedError("there is a pooler between this node and PostgreSQL; connect to the server itself")
    for name, value in SESSION:
        await connection.execute("select pg_catalog.set_config(%s, %s, false)", [name, value])
    query = "select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings where name = any(%s)"
    await connection.execute(query, [list(TIMEOUTS_0)])
    names = [name for name, _ in SESSION]
    cursor = await connection.execute(
        "select name, pg_catalog.current_setting(name) from unnest(%s::text[]) name", [names]
    )
    found: dict[str, str] = dict(await cursor.fetchall())
    for name, value in SESSION:
        if found[name] != value:
            raise RefusedError(f"the server has {name} = {found[name]!r}, not {value!r}; is there a pooler in between?")


async def check_durability(connection: psycopg.AsyncConnection, durability: str) -> str:
    """Return synchronous_standby_names, if a commit that waits for them is what was asked for.

    The names change with the roles of the servers, so each session asks again which they are, and each append whether
    they are still those.

    Raises:
        BusyError: it is not, now.
        RefusedError: it can't be.
    """
    query = "select pg_catalog.current_setting('synchronous_standby_names'), pg_catalog.current_setting('fsync')"
    names, fsync = await only_row(connection, query)
    if fsync != "on":
        raise BusyError("the server has fsync = off: it would lose what it confirmed; set fsync = on")
    if durability != "quorum":
        return str(names)
    if not names.strip() or "*" in names:
        raise BusyError(
            f"synchronous_standby_names is {names!r}, which names no standby for which a commit waits. For a try on "
            "one machine give init --cluster-durability local, too. Where no machine may take jobs "
            "with it, set it (Patroni: synchronous_mode: on, synchronous_mode_strict: on), or choose "
            "--cluster-durability storage if the disk below PostgreSQL is replicated"
        )
    streaming, hidden = await only_row(
        connection,
        "select count(*) filter (where state = 'streaming' and sync_state in ('sync', 'quorum')),"
        " count(*) filter (where state is null) from pg_catalog.pg_stat_replication",
    )
    if hidden:
        raise RefusedError("the role may not see pg_stat_replication; grant it pg_monitor")
    if not streaming:
        raise BusyError(f"no standby of {names!r} is streaming: a commit would wait for ever; start one")
    return str(names)


async def read_server(connection: psycopg.AsyncConnection, durability: str) -> Server:
    system, timeline = await only_row(
        connection,
        "select system_identifier::text, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
        " from pg_control_system()",
    )
    return Server(system, timeline, durability)


async def read_settings(
    connection: psycopg.AsyncConnection, *, for_operator: bool = False
) -> tuple[Settings, dict[str, str]]:
    """Return what is set for the cluster.

    Raises:
        NoClusterError: there is no cluster in this database.
        ChangedError: it has lost something and waits for a person.
        RefusedError: this program can't work with it.
    """
    nothing = NoClusterError("there is no cluster in this database; make one with `beanpole cluster init`")
    try:
        cursor = await connection.execute(f"select name, value from {SCHEMA}.setting".encode())
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise nothing from error
    values: dict[str, str] = dict(await cursor.fetchall())
    if "cluster" not in values:
        raise nothing
    if not for_operator and "loss" in values:
        raise ChangedError(
            f"acknowledged jobs were lost, and nobody has looked: {values['loss']}; "
            "`beanpole cluster accept-loss` lets the cluster go on with what is there"
        )
    if not for_operator and "closed" in values:
        raise RefusedError(
            f"the log was exported to {values['closed']}, and is closed: its jobs are served from there; make "
            "a new cluster in another database with `beanpole cluster init`, and `beanpole cluster import` them"
        )
    if int(values["format"]) > limits.CLUSTER_FORMAT:
        raise RefusedError(
            f"the log is written in format {values['format']}, and this program reads up to {limits.CLUSTER_FORMAT}: "
            "install a newer one on this node"
        )
    settings = Settings(
        cluster=values["cluster"],
        format=int(values["format"]),
        silence_ms=int(values["silence_ms"]),
        segment_bytes=int(values["segment_bytes"]),
        body_bytes_max=int(values["body_bytes_max"]),
        era=int(values.get("era", 0)),
        shard=read_numbers(values["shard"]) if "shard" in values else (),
        key=values.get("key", ""),
    )
    return settings, values
