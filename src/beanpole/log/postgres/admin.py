"""What an operator does with a cluster: make it, and look at it."""

import asyncio
import contextlib
import secrets
from dataclasses import dataclass
from typing import Any

import psycopg

from beanpole import limits as protocol_limits
from beanpole.log import limits
from beanpole.log.postgres import inboxschema, schema
from beanpole.log.postgres.connection import (
    check_durability,
    connect,
    errors_translated,
    read_settings,
)
from beanpole.log.postgres.hosts import OperatorStore, opened
from beanpole.log.postgres.pgstore import PostgresStore
from beanpole.log.postgres.rows import Row, RowKind, first_row, new_writer
from beanpole.log.postgres.store import (
    FORCED,
    QUESTION,
    STOPPED,
    BusyError,
    Complaint,
    GoneError,
    NodeState,
    NoLeaderError,
    RefusedError,
    Server,
    Settings,
)
from beanpole.log.reader import read_header
from beanpole.protocol.extensions import format_of
from beanpole.shard_ids import text_of

CLUSTER_SEGMENT_BYTES = 67_108_864
"""Bytes of a segment of a cluster's log, which is a table."""


@dataclass(frozen=True, slots=True)
class Made:
    """What ``init`` made."""

    cluster: str
    durability: str
    silence_ms: int
    body_bytes_max: int
    names: str
    shard: tuple[int, ...]
    existed: bool


@dataclass(frozen=True, slots=True)
class Leader:
    """The node that leads, by the last EPOCH row."""

    node: str
    address: str
    machine: str
    epoch: int
    since_s: float
    """Since when, as seconds of the wall clock."""

    writer: bytes
    """The process, which a node that was started again is not."""

    format: int
    """The format of the log that it writes and serves; 0: it does not say."""


@dataclass(frozen=True, slots=True)
class InboxState:
    """What is in the inbox."""

    rows: int
    oldest_s: float
    """How long ago the oldest was put; 0: there is none."""

    bytes: int
    """With what was deleted, and is not reused yet."""

    why: str
    """Why this role could not take anything; empty: it could."""


@dataclass(slots=True)
class Status:
    """What ``status`` shows."""

    settings: Settings
    server: Server
    names: str
    """The standbys that a commit waits for."""

    unsafe: str
    """Why a commit is not as durable as the cluster asks for, so that nothing is confirmed; empty: it is."""

    loss: str
    leader: Leader | None
    shares_machine: bool
    """Whether the leader runs on the machine of PostgreSQL's primary."""

    segments: list[int]
    """Those whose table is there."""

    missing: list[int]
    """Those whose table is gone."""

    complaints: list[Complaint]
    """What nodes can't verify."""

    readers: list[tuple[str, int, float]]
    """Who holds the oldest segment: name, process and seconds."""

    tip: Row
    nodes: list[NodeState]
    hidden: str
    """Why it can't be read which nodes there are; empty: it can."""

    users: dict[str, str]
    """By the names of nodes, a digest of the users and tokens that each knows; of those that have any."""
    unreached: dict[str, str]
    """By the names of nodes, why each could not reach the leader when it last could not; others may be gone."""

    standbys: list[tuple[str, str, str]]
    inbox: InboxState | None
    """What waits in the inbox; None: there is no inbox, or its rows can't be seen."""

    @property
    def is_led(self) -> bool:
        return is_led(self.leader, self.nodes, self.tip)


def is_led(leader: Leader | None, nodes: list[NodeState], tip: Row) -> bool:
    """Whether a node leads that is alive. What it says of its role is up to a second old; the log is not."""
    alive = [each.writer for each in nodes if each.is_alive]
    return leader is not None and leader.writer in alive and tip.kind not in {RowKind.HANDOVER, RowKind.CLOSED}


async def init(  # noqa: PLR0913 - what a cluster is made of
    conninfo: str,
    *,
    durability: str = "quorum",
    silence_ms: int = limits.SILENCE_MS_DEFAULT,
    segment_bytes: int = CLUSTER_SEGMENT_BYTES,
    body_bytes_max: int = protocol_limits.BODY_BYTES_MAX_DEFAULT,
    inbox: bool = False,
    inbox_bytes: int = limits.INBOX_BYTES_DEFAULT,
    shard: tuple[int, ...] = (),
) -> Made:
    """Make the tables of a cluster and its first row, and its inbox if that is asked for; leave what is there.

    A cluster that is there may get further numbers as a shard.

    Raises:
        RefusedError: the server can't promise what was asked for; the text says what is missing.
        LostError: it can't be reached.
    """
    connection = await connect(conninfo, "init", admin=True)
    async with connection:
        with errors_translated():
            async with connection.transaction():
                await connection.execute(schema.MAKE.encode())
                await connection.execute(schema.LOCK_SETTINGS.encode())
                cursor = await connection.execute(
                    f"select from {schema.SCHEMA}.setting where name = 'cluster'".encode()
                )
                existed = await cursor.fetchone() is not None
                if not existed:
                    settings = {
                        "names": await check_durability(connection, durability),
                        "cluster": secrets.token_hex(8),
                        "format": limits.CLUSTER_FORMAT,
                        "silence_ms": silence_ms,
                        "segment_bytes": segment_bytes,
                        "body_bytes_max": body_bytes_max,
                        "durability": durability,
                        **({"shard": text_of(shard)} if shard else {}),
                    }
                    await connection.execute(schema.make_segment(1).encode())
                    await connection.execute(schema.insert(1).encode(), columns_of(first_row(new_writer())))
                    for name, value in settings.items():
                        await connection.execute(
                            f"insert into {schema.SCHEMA}.setting values (%s, %s)".encode(), [name, str(value)]
                        )
                elif shard:
                    await number_further(connection, shard)
            found, values = await read_settings(connection, for_operator=True)
            if inbox:
                await make_inbox(connection, found, inbox_bytes)
    return Made(
        found.cluster,
        values["durability"],
        found.silence_ms,
        found.body_bytes_max,
        values["names"],
        found.shard,
        existed=existed,
    )


async def number_further(connection: psycopg.AsyncConnection, shard: tuple[int, ...]) -> None:
    """Give a cluster that is there numbers behind those that it has.

    Raises:
        RefusedError: they are not the same and further ones, or the log is written in a format that has none.
    """
    settings, _ = await read_settings(connection, for_operator=True)
    if settings.format < schema.FORMAT_SHARD:
        raise RefusedError(
            f"the log is written in format {settings.format}, and the numbers of a shard need {schema.FORMAT_SHARD}: "
            "update all nodes, then run `beanpole cluster upgrade`"
        )
    known = settings.shard or (0,)
    if shard[: len(known)] != known:
        raise RefusedError(
            f"the jobs of this cluster have ids of shard {text_of(known)}: further numbers go behind, as in --shard "
            f"{text_of(known)},N; a shard of another number is another cluster, in a database of its own"
        )
    await connection.execute(schema.SET.encode(), ["shard", text_of(shard)])


async def make_inbox(connection: psycopg.AsyncConnection, settings: Settings, inbox_bytes: int) -> None:
    """Make the inbox, or its function and rights again.

    Raises:
        RefusedError: leaders write a format of the log that can't have what rows of an inbox ask for.
    """
    if settings.format < format_of(b"stats-groups"):
        raise RefusedError(
            f"the log is written in format {settings.format}, and an inbox needs {format_of(b'stats-groups')}: update "
            "all nodes, then run `beanpole cluster upgrade`"
        )
    async with connection.transaction():
        await connection.execute(inboxschema.MAKE.encode())
        await connection.execute(schema.SET.encode(), ["inbox_bytes", str(inbox_bytes)])


def columns_of(row: Row) -> list[Any]:
    """Return a row as the columns of its table."""
    return [row.place.row, row.epoch, int(row.kind), row.writer, *row.confirmed, row.previous, row.hash, row.data]


async def status(conninfo: str) -> Status:
    async with opened(conninfo) as store:
        nodes, hidden = [], ""
        try:
            nodes = [each for each in await store.nodes() if each.role != QUESTION]
        except (RefusedError, GoneError) as error:
            hidden = str(error)
        segments = await store.present()
        leader = await last_epoch(store, segments)
        shares = await store.fetch(schema.SHARES_MACHINE, [f"beanpole {leader.node}" if leader is not None else ""])
        readers = await store.fetch(schema.READERS, [schema.table(segments[0])]) if segments else []
        return Status(
            settings=store.settings,
            server=store.server,
            names=(await store.fetch("select current_setting('synchronous_standby_names')"))[0][0],
            unsafe=await unsafe(store),
            loss=store.loss,
            leader=leader,
            shares_machine=shares[0][0],
            segments=segments,
            missing=await store.missing(),
            complaints=await store.complaints(),
            readers=[(name, pid, seconds or 0.0) for name, pid, seconds in readers],
            tip=await last_row(store, segments),
            nodes=nodes,
            hidden=hidden,
            users=await store.said(schema.USERS),
            unreached=await store.said(schema.UNREACHED),
            standbys=[tuple(each) for each in await store.fetch(STANDBYS)],
            inbox=await inbox_state(store),
        )


async def inbox_state(store: PostgresStore) -> InboxState | None:
    """Return what is in the inbox."""
    obstacle = await store.inbox_obstacle()
    if obstacle is None:
        return None
    if obstacle:
        return InboxState(0, 0.0, 0, obstacle)
    ((rows, oldest_s, size),) = await store.fetch(inboxschema.STATE)
    return InboxState(rows, oldest_s, size, "")


async def check_no_inbox(store: PostgresStore) -> None:
    """See that nothing waits in the inbox, which would be served by nobody, or twice.

    Raises:
        RefusedError: something does.
    """
    with contextlib.suppress(GoneError):  # there is no inbox
        if (await store.fetch(inboxschema.HAS_ROWS))[0][0]:
            raise RefusedError(
                "jobs wait in the inbox (beanpole.inbox): let a node of this cluster lead until it is empty, and stop "
                "what puts there"
            )


async def unsafe(store: OperatorStore) -> str:
    """Return why nothing is confirmed as the cluster asks for; empty: it is."""
    try:
        with errors_translated():
            await check_durability(store.connection, store.server.durability)
    except (RefusedError, BusyError) as error:
        return str(error)
    return ""


async def who_leads(conninfo: str) -> Leader | None:
    """Return the node that leads, if it is alive."""
    async with opened(conninfo) as store:
        return await living_leader(store, await store.nodes())


async def living_leader(store: OperatorStore, nodes: list[NodeState]) -> Leader | None:
    """Return the node that leads, if it is alive, given what the nodes said of themselves."""
    segments = await store.present()
    leader = await last_epoch(store, segments)
    return leader if is_led(leader, nodes, await last_row(store, segments)) else None


async def last_row(store: PostgresStore, segments: list[int]) -> Row:
    for segment in reversed(segments):
        rows = await store.select(segment, "row >= 0 order by row desc limit 1", [])
        if rows:
            return rows[0]
    raise RefusedError("the log has no row: make the cluster again with `beanpole cluster init`")


async def last_epoch(store: PostgresStore, segments: list[int]) -> Leader | None:
    """Return who leads; None: nobody ever did."""
    for segment in reversed(segments):
        rows = await store.select(segment, "kind in (%s, %s) order by row desc limit 1", [RowKind.EPOCH, RowKind.HEAD])
        if rows and rows[0].is_sound:
            note, records = rows[0].unpack()
            # The segment in which it began may be dropped, if only just now: then this is the oldest known moment.
            for earlier in segments if rows[0].kind == RowKind.HEAD else ():
                began: list[Row] = []
                with contextlib.suppress(GoneError):
                    began = await store.select(earlier, "kind = %s and epoch = %s", [RowKind.EPOCH, rows[0].epoch])
                if began and began[0].is_sound:
                    _, records = began[0].unpack()
                    break
            header = read_header(records)
            since_s = (header.log_ns + header.lead_ns) / 1e9
            return Leader(
                node=note["node"],
                address=note["address"],
                machine=note.get("machine", ""),
                epoch=rows[0].epoch,
                since_s=since_s,
                writer=rows[0].writer,
                format=int(note.get("format", 0)),
            )
    return None


STANDBYS = (
    "select application_name, coalesce(state, '?'), coalesce(sync_state, '?') from pg_stat_replication order by 1"
)
"""The name, state and role of each standby that the role may see."""


async def step_down(
    conninfo: str, successor: str, timeout_s: float, *, force: bool = False
) -> tuple[Leader, Leader | None]:
    """Ask the leader to hand over, to a node or to any; return who led, and who leads then (None: it has not happened).

    Raises:
        NoLeaderError: nobody leads.
        RefusedError: no other node could lead at once.
    """
    async with opened(conninfo, writes=True) as store:
        nodes = await store.nodes()
        leader = await living_leader(store, nodes)
        if leader is None:
            raise NoLeaderError("no node leads")
        others = [each.name for each in nodes if each.is_warm and each.name != leader.node]
        if successor and successor not in others:
            raise RefusedError(
                f"node {successor!r} is not alive, reads the log still, or leads already; it could be "
                f"{', '.join(others) or 'none'}"
            )
        if not others and not force:
            raise RefusedError(
                f"no node but {leader.node} is alive and has read the log: nobody could lead; start one or wait for "
                "it, or use --force"
            )
        wanted = successor or (FORCED if force else newest(nodes, others))
        await store.execute(schema.WAIT_FOR_NO_STANDBY)
        await store.execute(schema.ASK_STEP_DOWN, [leader.epoch, wanted])
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    found = await last_epoch(store, await store.present())
                    if found is not None and found.epoch > leader.epoch:
                        return leader, found
                    await asyncio.sleep(limits.POLL_S)
        except TimeoutError:
            return leader, None
        finally:  # or the leader might obey when nobody expects it any more
            await store.execute(schema.FORGET_STEP_DOWN, [leader.epoch])


def newest(nodes: list[NodeState], names: list[str]) -> str:
    """Return which of some nodes has applied most."""
    return max((each for each in nodes if each.name in names), key=lambda each: each.applied).name


async def note_said(conninfo: str, node: str, says: dict[str, str]) -> None:
    """Note what a node says of itself, by what the names of such settings begin with; empty: that no more."""
    connection = await connect(conninfo, "said")
    async with connection:
        with errors_translated():
            await connection.execute(schema.WAIT_FOR_NO_STANDBY.encode())
            for begin, value in says.items():
                if value:
                    await connection.execute(schema.SET.encode(), [begin + node, value])
                else:
                    await connection.execute(schema.WITHDRAW.encode(), [[begin + node]])


async def note_stop(conninfo: str, writer: bytes, loss: str, era: int, cluster: str) -> None:
    """Note that a node has stopped; and why no node may go on, if it saw that what was confirmed is gone.

    That counts in its cluster, and in the era of what it knew.
    """
    connection = await connect(conninfo, "stop")
    async with connection:
        with errors_translated():
            await connection.execute(b"set synchronous_commit = local")  # a standby may be what is missing
            await connection.execute(schema.STOP.encode(), [STOPPED, writer])
            if loss:
                await connection.execute(schema.LOSS.encode(), [loss, era, cluster])


async def loss(conninfo: str) -> str:
    """Return what was lost, for which all nodes have stopped; empty: nothing that is known."""
    async with opened(conninfo) as store:
        return store.loss


async def accept_loss(conninfo: str) -> str:
    """Let the cluster go on with what is there, and begin an era; return what was lost.

    Raises:
        RefusedError: nothing is known to be lost, or a node has just written.
    """
    async with opened(conninfo, writes=True) as store:
        ends_at = (await store.newest()).segment
        missing, listed = await store.missing(), await store.segments()
        # Made again for the row that is next.
        lost_end = listed[listed.index(ends_at) + 1 :] if max(missing, default=0) > ends_at else []
        with errors_translated():
            async with store.connection.transaction():
                await store.execute(schema.LOCK_SETTINGS)
                found = await store.fetch(schema.ACCEPT_LOSS)
                if not found:
                    raise RefusedError("nothing is known to be lost; there is nothing to accept")
                await store.execute(schema.NEXT_ERA)
                for number in set(lost_end) - set(missing):
                    await store.execute(schema.lock_segment(number))
                    if await store.fetch(f"select from {schema.table(number)} limit 1"):
                        raise RefusedError("a node has written just now: see that all have stopped, and try again")
                for number in lost_end:
                    await store.execute(schema.drop_segment(number))
        return str(found[0][0])


async def upgrade(conninfo: str) -> tuple[int, int, str]:
    """Let leaders write the newest format that every node can read; return the format before, and the new one.

    Last comes the node that leads, if it goes on with an older one as long as it does.

    Raises:
        RefusedError: no node is alive, so it is not known what they read.
    """
    async with opened(conninfo, writes=True) as store:
        nodes = await store.nodes()
        formats = [each.format for each in nodes if each.is_alive]
        if not formats:
            raise RefusedError("no node is alive: start all of them first, so that it is known what they can read")
        before = store.settings.format
        after = max(before, min(limits.CLUSTER_FORMAT, *formats))
        if after != before:
            await store.execute(schema.ADD_CLOCKS)
            await store.execute(schema.SET_FORMAT, [str(after)])
        leader = await living_leader(store, nodes)
        is_behind = leader is not None and (leader.format or before) < after
        return before, after, leader.node if leader is not None and is_behind else ""
