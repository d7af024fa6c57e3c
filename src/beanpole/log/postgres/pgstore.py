"""The rows in PostgreSQL.

Appends go by libpq's own calls, prepared and binary, in a pipeline: the statement behind an append reads again what a
commit waited for, because names that were emptied let a waiting commit succeed without a warning. So does fsync = off.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg
from psycopg import pq

from beanpole.access.tokens import new_token
from beanpole.log import limits
from beanpole.log.postgres import inboxschema, schema
from beanpole.log.postgres.connection import (
    check_durability,
    connect,
    error_for,
    errors_translated,
    read_server,
    read_settings,
    sever,
)
from beanpole.log.postgres.rows import Place, Row, RowKind
from beanpole.log.postgres.store import (
    Answer,
    ChangedError,
    Complaint,
    GoneError,
    InboxRow,
    LostError,
    NoClusterError,
    NodeState,
    RefusedError,
    Server,
    Settings,
    Taken,
)
from beanpole.log.postgres.tasks import within
from beanpole.log.postgres.url import turned

ROWS_AT_ONCE = 1024
"""Rows of one answer, if they are small: a leader with little to do writes many that hold next to nothing."""

LOCK_TIMEOUT_MS = 100
"""Milliseconds that making or dropping a table waits for a lock: behind it every append would wait."""

APPROVED = f"select {schema.is_approved('$1')}".encode()

NOT_TAKEN = ("22012", "55P03")
"""The SQLSTATEs of an append that takes rows of the inbox and fails for these, or as its place is taken.

It divides by zero where some are gone, and waits no longer than so for who holds a lock on them.
"""

TAKE_SETTINGS = f"""
select set_config('lock_timeout', '{limits.INBOX_LOCK_MS}', true), set_config('enable_seqscan', 'off', true)
""".encode()
"""Goes before such an append, in its transaction: a plan of when few rows waited must not read all when many do."""

INT8 = struct.Struct(">q")
INT2 = struct.Struct(">h")
BINARY = [1] * 12
TEXT_LAST = [*BINARY[:-1], 0]


@dataclass(slots=True)
class PostgresStore:
    """One connection."""

    connection: psycopg.AsyncConnection
    server: Server
    settings: Settings
    names: str
    """The value of synchronous_standby_names that was approved when the session began."""

    prepared: set[bytes] = field(default_factory=set)
    warning: str = ""

    # --- appending ----------------------------------------------------------------------------------------------------

    async def append(self, row: Row, tip: Row, taken: Sequence[Taken] = ()) -> bool:
        with errors_translated():
            segments = (row.place.segment, tip.place.segment)
            statement = b"%b_%d_%d" % (b"take" if taken else b"append", *segments)
            if statement not in self.prepared:
                text = schema.append(*segments)
                await self.prepare(statement, (inboxschema.taking(text) if taken else text).encode())
                for name, query in ((b"approved", APPROVED), (b"settings", TAKE_SETTINGS)):
                    if name not in self.prepared:
                        await self.prepare(name, query)
            names = self.names.encode()
            values = [
                INT8.pack(row.place.row),
                INT8.pack(row.epoch),
                INT2.pack(row.kind),
                row.writer,
                INT8.pack(row.confirmed.segment),
                INT8.pack(row.confirmed.row),
                row.previous,
                row.hash,
                row.data,
                INT8.pack(tip.place.row),
                tip.hash,
                names,
            ]
            formats = TEXT_LAST
            if taken:
                values += [array_of(each.number for each in taken), array_of(each.nonce for each in taken)]
                formats = [*TEXT_LAST, 0, 0]
            connection = self.connection.pgconn
            self.warning = ""
            connection.enter_pipeline_mode()
            if taken:
                connection.send_query_prepared(b"settings", [])
            connection.send_query_prepared(statement, values, formats, 1)
            connection.pipeline_sync()
            connection.send_query_prepared(b"approved", [names], [0], 1)
            connection.pipeline_sync()
            *_, appended, approved = await self.results(2, tolerated=NOT_TAKEN if taken else ())
            connection.exit_pipeline_mode()
        is_there = appended.ntuples == 1
        as_approved = approved.get_value(0, 0) == b"\x01"
        if self.warning or not as_approved:
            changed = f"fsync = off, or synchronous_standby_names is not {self.names!r} any more"
            raise LostError(self.warning or changed)
        return is_there

    async def prepare(self, name: bytes, text: bytes) -> None:
        connection = self.connection.pgconn
        connection.enter_pipeline_mode()
        connection.send_prepare(name, text)
        connection.pipeline_sync()
        await self.results(1)
        connection.exit_pipeline_mode()
        self.prepared.add(name)

    async def results(self, count: int, tolerated: Sequence[str] = ()) -> list[pq.abc.PGresult]:
        """Send what is buffered and wait for so many results, each with its sync; raise the first error.

        One whose SQLSTATE is among those `tolerated` is a result without rows.
        """
        connection = self.connection.pgconn
        loop = asyncio.get_running_loop()
        found: list[pq.abc.PGresult] = []
        synced = 0
        while synced < count:
            writing = connection.flush() == 1
            if connection.is_busy() or writing:
                await wait_for_socket(loop, connection.socket, writing=writing)
                connection.consume_input()
                continue
            result = connection.get_result()
            if result is None:
                if connection.status != pq.ConnStatus.OK:
                    raise LostError("the server closed the connection")
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                synced += 1
            else:
                found.append(result)
        for each in found:
            if each.status == pq.ExecStatus.FATAL_ERROR:
                state = (each.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
                if state not in tolerated:
                    connection.exit_pipeline_mode()
                    raise error_for(state or None, each.get_error_message())
        return found

    def note_warning(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Remember that the server warned: a commit was made here that its standbys do not have."""
        if diagnostic.sqlstate and diagnostic.sqlstate.startswith("01"):
            self.warning = diagnostic.message_primary or "a warning"

    # --- reading ------------------------------------------------------------------------------------------------------

    async def rows_at(self, places: list[Place]) -> list[Row | None]:
        found: list[Row | None] = []
        for place in places:
            try:
                rows = await self.select(place.segment, "row = %s", [place.row])
            except GoneError:
                rows = []
            found.append(rows[0] if rows else None)
        return found

    async def read(self, tip: Row, bytes_max: int) -> Answer:
        limit = min(ROWS_AT_ONCE, max(1, bytes_max))
        place = tip.place
        rows = await self.rows_from(place.segment, place.row, limit + 1, bytes_max, place.row)
        if not rows or rows[0].place != place or rows[0].hash != tip.hash:
            return Answer(has_tip=False, rows=[], is_all=False)
        del rows[0]
        last = rows[-1] if rows else tip
        if last.kind == RowKind.END and len(rows) < limit:
            with contextlib.suppress(GoneError):  # a segment is made before its first row is appended
                rows += await self.rows_from(place.segment + 1, 0, limit - len(rows), bytes_max)
        is_all = len(rows) < limit and sum(len(row.data) for row in rows) < bytes_max
        return Answer(has_tip=True, rows=rows, is_all=is_all)

    async def rows_from(self, segment: int, row: int, limit: int, bytes_max: int, without: int = -1) -> list[Row]:
        """Return rows from one on, each behind less than so many bytes."""
        before = f"sum(octet_length(data)) filter (where row <> {without}) over (order by row) - octet_length(data)"
        source = (
            f"(select *, {before} ahead from {schema.table(segment)} where row >= {row} order by row limit {limit}) _"
        )
        return await self.select(segment, "ahead is null or ahead < %s order by row", [bytes_max], without, source)

    async def select(
        self, segment: int, where: str, values: list[int], without: int = -1, source: str = ""
    ) -> list[Row]:
        """Return rows of a segment, or of some of it; of the row `without` not what it holds."""
        source = source or schema.table(segment)
        query = (
            "select row, epoch, kind, writer, confirmed_segment, confirmed_row, previous, hash,"
            f" case when row = {without} then ''::bytea else data end from {source} where {where}"
        )
        with errors_translated():
            cursor = self.connection.cursor(binary=True)
            await cursor.execute(query.encode(), values)
            found = await cursor.fetchall()
        return [
            Row(Place(segment, row), epoch, kind, writer, Place(*confirmed), previous, data, digest)
            for row, epoch, kind, writer, *confirmed, previous, digest, data in found
        ]

    async def newest(self) -> Place:
        for number in reversed(await self.segments()):
            with contextlib.suppress(GoneError):
                ((row,),) = await self.fetch(f"select max(row) from {schema.table(number)}")
                if row is not None:
                    return Place(number, row)
        raise GoneError("the log has no row")

    async def first(self, segment: int) -> Row | None:
        rows = await self.select(segment, "row = 0", [])
        return rows[0] if rows else None

    async def fetch(self, query: str, values: list[Any] | None = None) -> list[Any]:
        """Return the rows of a query."""
        with errors_translated():
            cursor = await self.connection.execute(query.encode(), values)
            return await cursor.fetchall()

    async def execute(self, statement: str, values: list[Any] | None = None) -> None:
        """Run a statement that returns nothing."""
        with errors_translated():
            await self.connection.execute(statement.encode(), values)

    # --- segments -----------------------------------------------------------------------------------------------------

    async def segments(self) -> list[int]:
        return [number for (number,) in await self.fetch(f"select number from {schema.SCHEMA}.segment order by 1")]

    async def make_segment(self, number: int) -> None:
        ((newest,),) = await self.fetch(f"select coalesce(max(number), 0) from {schema.SCHEMA}.segment")
        if newest < number - 1:
            raise GoneError(f"there is no segment {number - 1}")
        if newest < number:
            await self.change(schema.make_segment(number))

    async def forget_segment(self, number: int) -> None:
        await self.change(schema.forget_segment(number))

    async def drop_segment(self, number: int) -> None:
        await self.change(schema.drop_segment(number))

    async def change(self, statements: str) -> None:
        """Run statements in one transaction that waits for no lock, unless another cluster was made in place of this.

        They are one message, and so a transaction: in one of several messages, a node that stands still between two of
        them would hold the locks until it goes on.
        """
        check = schema.check_cluster(self.settings.cluster)
        await self.execute(f"set local lock_timeout = {LOCK_TIMEOUT_MS}; {check} {statements}")

    # --- the inbox ----------------------------------------------------------------------------------------------------

    async def inbox_obstacle(self) -> str | None:
        ((obstacle,),) = await self.fetch(inboxschema.OBSTACLE)
        return None if obstacle is None else str(obstacle)

    async def read_inbox(self, after: int, count: int, bytes_max: int) -> list[InboxRow]:
        with errors_translated():
            cursor = self.connection.cursor(binary=True)
            await cursor.execute(inboxschema.READ.encode(), [after, count, after, count, bytes_max])
            found = await cursor.fetchall()
        return [InboxRow(Taken(number, nonce), *rest) for number, nonce, *rest in found]

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def asked(self, epoch: int) -> str:
        ((successor, halted),) = await self.fetch(schema.ASKED, [epoch])
        if halted:
            raise ChangedError(halted)
        return str(successor)

    async def report(self, node: NodeState) -> list[NodeState]:
        values = [node.name, node.address, node.role, node.epoch, *node.applied, node.version, node.format]
        values += [node.machine, node.reaches_leader, node.writer]
        if self.settings.format >= schema.FORMAT_CLOCKS:
            values += [node.wall_s, node.zones]
        nodes = await self.nodes()  # as they were before: another process of our name shows
        await self.change_display(schema.report(self.settings.format), values)
        return nodes

    async def change_display(self, statement: str, values: list[Any]) -> None:
        """Change what need not last, without waiting for a standby."""
        with errors_translated():
            async with self.connection.transaction():
                await self.connection.execute(b"set local synchronous_commit = off")
                await self.connection.execute(statement.encode(), values)

    async def complain(self, complaint: Complaint) -> None:
        told = asdict(complaint)
        del told["node"]
        await self.change_display(schema.COMPLAIN, [schema.UNREADABLE + complaint.node, json.dumps(told)])

    async def complaints(self) -> list[Complaint]:
        found = [(node, json.loads(value)) for node, value in (await self.said(schema.UNREADABLE)).items()]
        return [
            Complaint(node, Place(*told["place"]), told["reason"], told["verdict"], told["is_repaired"])
            for node, told in found
        ]

    async def said(self, begin: str) -> dict[str, str]:
        """Return what nodes say of themselves by settings whose names begin so, by the names of the nodes."""
        return {name.removeprefix(begin): value for name, value in await self.fetch(schema.SAID, [begin])}

    async def withdraw(self, nodes: list[str]) -> None:
        await self.change_display(schema.WITHDRAW, [[schema.UNREADABLE + each for each in nodes]])

    async def halt(self, reason: str, era: int) -> None:
        await self.execute(schema.LOSS, [reason, era, self.settings.cluster])

    async def is_current(self) -> bool:
        try:
            with errors_translated():
                settings, _ = await read_settings(self.connection)
        except NoClusterError:
            return False
        return settings == self.settings

    async def nodes(self) -> list[NodeState]:
        """Return what all nodes have said of themselves."""
        return [
            NodeState(name, address, role, epoch, Place(segment, row), *rest)
            for name, address, role, epoch, segment, row, *rest in await self.fetch(schema.nodes(self.settings.format))
        ]

    async def close(self) -> None:
        await self.connection.close()

    def sever(self) -> None:
        sever(self.connection)


def array_of(values: Iterable[object]) -> bytes:
    """Return an array as text, of values that need no quotes."""
    return f"{{{','.join(map(str, values))}}}".encode()


async def wait_for_socket(loop: asyncio.AbstractEventLoop, fd: int, *, writing: bool) -> None:
    """Wait until a socket is readable, or writable if there is something to write."""
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, set_ready)
    if writing:
        loop.add_writer(fd, set_ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
        if writing:
            loop.remove_writer(fd)


WITHOUT_USERS = (
    "the nodes of this cluster have users: give --access to this one as well. To take the users away, stop all nodes"
    f" and delete the row 'key' of {schema.SCHEMA}.setting"
)


def opener(
    conninfo: str, name: str, limit_s: float = limits.OPEN_S, *, has_users: bool = False
) -> Callable[[], "asyncio.Future[PostgresStore]"]:
    """Return what opens connections of a node; `has_users`: so nodes have to know each other by a key.

    A node without users does not start where there is a key: it would let everybody in as soon as it leads.

    It works with no server of a lower timeline than it has seen, nor with one of another system. Each connection tries
    the hosts in another order: a primary whose manager stands still takes writes when another was promoted long ago,
    and would be found again and again.
    """
    newest: list[Server] = []
    turns = itertools.count()

    async def look_at(connection: psycopg.AsyncConnection) -> tuple[Server, Settings, str]:
        with errors_translated():
            settings, values = await read_settings(connection)
            if settings.key and not has_users and not newest:
                raise RefusedError(WITHOUT_USERS)
            if has_users and not settings.key:
                await connection.execute(schema.MAKE_KEY.encode(), [new_token().decode()])
                settings, values = await read_settings(connection)
            server = await read_server(connection, values["durability"])
            return server, settings, await check_durability(connection, values["durability"])

    async def open_store() -> PostgresStore:
        connection = await connect(turned(conninfo, next(turns), os.environ), name)
        try:
            found = await within(limit_s, look_at(connection), functools.partial(sever, connection))
            server, settings, names = found
            if newest and server.system != newest[0].system:
                raise RefusedError(f"the server is another one: system {server.system}, not {newest[0].system}")
            if newest and server.timeline < newest[0].timeline:
                raise LostError(f"the server is on timeline {server.timeline}, but there is {newest[0].timeline}")
            newest[:] = [server]
            store = PostgresStore(connection, server, settings, names)
            connection.add_notice_handler(store.note_warning)
        except BaseException:
            await connection.close()
            raise
        return store

    return open_store  # type: ignore[return-value]
