"""What an operator does with a cluster: make it, and look at it."""

import asyncio
import secrets
from dataclasses import dataclass
from typing import Any

import psycopg

from beanpole import limits as protocol_limits
from beanpole.log import limits
from beanpole.log.postgres import schema
from beanpole.log.postgres.connection import (
    check_durability,
    connect,
    errors_translated,
    read_settings,
)
from beanpole.log.postgres.hosts import OperatorStore, opened
from beanpole.log.postgres.pgstore import PostgresStore
from beanpole.log.postgres.rows import Place, Row, RowKind, first_row, new_writer
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

    standbys: list[tuple[str, str, str]]

    @property
    def is_led(self) -> bool:
        """Whether a node leads that is alive."""
        return is_led(self.leader, self.nodes, self.tip)


def is_led(leader: Leader | None, nodes: list[NodeState], tip: Row) -> bool:
    """Whether a node leads that is alive. What it says of its role is up to a second old; the log is not."""
    alive = [each.writer for each in nodes if each.is_alive]
    return leader is not None and leader.writer in alive and tip.kind not in {RowKind.HANDOVER, RowKind.CLOSED}


async def init(
    conninfo: str,
    *,
    durability: str = "quorum",
    silence_ms: int = limits.SILENCE_MS_DEFAULT,
    segment_bytes: int = CLUSTER_SEGMENT_BYTES,
    body_bytes_max: int = protocol_limits.BODY_BYTES_MAX_DEFAULT,
) -> Made:
    """Make the tables of a cluster and its first row; do nothing where they are.

    Raises:
        RefusedError: the server can't promise what was asked for; the text says what is missing.
        LostError: it can't be reached.
    """
    connection = await connect(conninfo, "init", admin=True)
    async with connection:
        with errors_translated():
            async with connection.transaction():
                await connection.execute(schema.MAKE.encode())
                await connection.execute(f"lock table {schema.SCHEMA}.setting".encode())
                cursor = await connection.execute(
                    f"select value from {schema.SCHEMA}.setting where name='cluster'".encode()
                )
                found = await cursor.fetchone()
                if found is not None:
                    settings, values = await read_settings(connection, for_operator=True)
                    return Made(
                        settings.cluster,
                        values["durability"],
                        settings.silence_ms,
                        settings.body_bytes_max,
                        values["names"],
                        existed=True,
                    )
                names = await check_durability(connection, durability)
                cluster = secrets.token_hex(8)
                await connection.execute(schema.make_segment(1).encode())
                row = first_row(new_writer())
                await connection.execute(
                    schema.insert(1).encode(),
                    columns_of(row),
                )
                for name, value in (
                    ("cluster", cluster),
                    ("format", limits.CLUSTER_FORMAT),
                    ("silence_ms", silence_ms),
                    ("segment_bytes", segment_bytes),
                    ("body_bytes_max", body_bytes_max),
                    ("durability", durability),
                    ("names", names),
                ):
                    await connection.execute(
                        f"insert into {schema.SCHEMA}.setting values (%s, %s)".encode(), [name, str(value)]
                    )
    return Made(cluster, durability, silence_ms, body_bytes_max, names, existed=False)


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


async def status(conninfo: str) -> Status:
    """Return who leads, and what the log holds."""
    async with opened(conninfo) as store:
        nodes, hidden = [], ""
        try:
            nodes = [each for each in await store.nodes() if each.role != QUESTION]
        except (RefusedError, GoneError) as error:
            hidden = str(error)
        segments = await store.present()
        leader = await last_epoch(store, segments)
        shares = await query(store, schema.SHARES_MACHINE, [f"beanpole {leader.node}" if leader is not None else ""])
        readers = await query(store, schema.READERS, [schema.table(segments[0])]) if segments else []
        return Status(
            settings=store.settings,
            server=store.server,
            names=(await query(store, "select current_setting('synchronous_standby_names')"))[0][0],
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
            standbys=[tuple(each) for each in await query(store, STANDBYS)],
        )


async def wait_for_no_standby(connection: psycopg.AsyncConnection) -> None:
    """Let commits of a connection wait for nothing: what it writes need not last."""
    await connection.execute(b"set synchronous_commit = off")


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
        segments = await store.present()
        leader = await last_epoch(store, segments)
        return leader if is_led(leader, await store.nodes(), await last_row(store, segments)) else None


async def query(store: PostgresStore, text: str, values: list[Any] | None = None) -> list[Any]:
    """Return the rows of a query."""
    with errors_translated():
        cursor = await store.connection.execute(text.encode(), values)
        return await cursor.fetchall()


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
        rows = await store.select(segment, "kind in (%s, %s) order by row desc limit 1", [RowKind.EPOCH, RowKind.HEAD])
        if rows and rows[0].is_sound:
            note, records = rows[0].unpack()
            for earlier in segments if rows[0].kind == RowKind.HEAD else ():
                began = await store.select(earlier, "kind = %s and epoch = %s", [RowKind.EPOCH, rows[0].epoch])
                if (
                    began and began[0].is_sound
                ):  # else its segment was dropped, and the oldest moment that is known is that of this one
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
        segments = await store.present()
        leader = await last_epoch(store, segments)
        nodes = await store.nodes()
        if leader is None or not is_led(leader, nodes, await last_row(store, segments)):
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
        with errors_translated():
            wanted = successor or (FORCED if force else newest(nodes, others))
            await wait_for_no_standby(store.connection)
            await store.connection.execute(schema.ASK_STEP_DOWN.encode(), [leader.epoch, wanted])
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
            with errors_translated():
                await store.connection.execute(schema.FORGET_STEP_DOWN.encode(), [leader.epoch])


def newest(nodes: list[NodeState], names: list[str]) -> str:
    """Return which of some nodes has applied most."""
    return max((each for each in nodes if each.name in names), key=lambda each: each.applied).name


@dataclass(frozen=True, slots=True)
class Answer:
    """What a node held at a row."""

    node: str
    place: Place
    hash: bytes
    """Of that row."""

    due_ns: int
    """Delayed jobs that are due at this moment of the log's clock count as ready."""

    jobs: int
    digest: bytes


async def answer(conninfo: str, question: str, given: Answer) -> None:
    """Say what this node holds."""
    connection = await connect(conninfo, "answer")
    async with connection:
        with errors_translated():
            await wait_for_no_standby(connection)
            values = [question, given.node, *given.place, given.hash, given.due_ns, given.jobs, given.digest]
            await connection.execute(schema.ANSWER.encode(), values)


async def ask_nodes(store: OperatorStore, timeout_s: float) -> list[Answer]:
    """Ask every node that is alive what it holds; return the answers that came in time."""
    wanted = {each.name for each in await store.nodes() if each.is_alive}
    question = f"{QUESTION} {secrets.token_hex(8)}"
    place = Place(0, 0)
    asking = NodeState(question, "", QUESTION, 0, place, "", 0, "", reaches_leader=True, writer=new_writer())
    answers: list[Answer] = []
    try:
        with errors_translated():
            await wait_for_no_standby(store.connection)
        async with asyncio.timeout(timeout_s):
            await store.report(asking)
            while wanted - {each.node for each in answers}:
                await asyncio.sleep(limits.REPORT_S / 10)
                await store.report(asking)  # it counts as gone when it is old
                answers = [
                    Answer(node, Place(segment, row), *rest)
                    for node, segment, row, *rest in await query(store, schema.ANSWERS, [question])
                ]
    except TimeoutError:
        pass
    finally:
        with errors_translated():
            await store.connection.execute(schema.FORGET_NODE.encode(), [question])
            await store.connection.execute(schema.FORGET_QUESTION.encode(), [question])
    return answers


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
                await store.connection.execute(schema.LOCK_SETTINGS.encode())
                found = await query(store, schema.ACCEPT_LOSS)
                if not found:
                    raise RefusedError("nothing is known to be lost; there is nothing to accept")
                await store.connection.execute(schema.NEXT_ERA.encode())
                for number in set(lost_end) - set(missing):
                    await store.connection.execute(schema.lock_segment(number).encode())
                    if await query(store, f"select from {schema.table(number)} limit 1"):
                        raise RefusedError("a node has written just now: see that all have stopped, and try again")
                for number in lost_end:
                    await store.connection.execute(schema.drop_segment(number).encode())
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
            with errors_translated():
                await store.connection.execute(schema.SET_FORMAT.encode(), [str(after)])
        segments = await store.segments()
        leader = await last_epoch(store, segments)
        if leader is None or not is_led(leader, nodes, await last_row(store, segments)):
            return before, after, ""
        return before, after, leader.node if (leader.format or before) < after else ""
