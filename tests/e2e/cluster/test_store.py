"""What a connection says to PostgreSQL."""

import asyncio
from pathlib import Path

import pytest

from beanpole.log.postgres.pgstore import PostgresStore, opener
from beanpole.log.postgres.rows import Place
from beanpole.log.postgres.schema import drop_segment, make_segment
from beanpole.log.postgres.store import GoneError, LostError, NodeState
from tests.e2e.cluster.conftest import Cluster


async def change_segments(url: str, trace: Path) -> None:
    """Make and drop a segment's table."""
    store: PostgresStore = await opener(url, "a")()
    with trace.open("wb") as file:
        store.connection.pgconn.trace(file.fileno())
        await store.make_segment(2)
        await store.drop_segment(2)
        store.connection.pgconn.untrace()
    await store.close()


def test_segments_are_changed_in_one_message_each(cluster: Cluster, tmp_path: Path) -> None:
    """A node that stands still within a transaction would hold its locks: no other could make that table."""
    cluster.init()
    trace = tmp_path / "trace"
    asyncio.run(change_segments(cluster.url, trace))
    ready = [line.split()[-1] for line in trace.read_text().splitlines() if "ReadyForQuery" in line]
    assert len(ready) == 3, trace.read_text()
    assert set(ready) == {"I"}, trace.read_text()
    assert cluster.count("segment", "number = 2") == 0


def test_number_of_a_dropped_segment_makes_no_table_however_late_it_is_asked_for(cluster: Cluster) -> None:
    """A node may stand still between its look at the numbers and this."""
    cluster.init()
    cluster.database.run(make_segment(2), make_segment(3), drop_segment(2), make_segment(2))
    assert cluster.count("segment", "number in (1, 3)") == 2
    assert cluster.count("segment", "true") == 2
    with cluster.database.connected() as connection:
        assert connection.exec_driver_sql("select to_regclass('beanpole.log_2')").scalar() is None


def test_segments_of_another_cluster_are_left_alone(cluster: Cluster) -> None:
    """A node that has led the cluster before has not heard of it yet, and needs no old segment any more."""

    async def change_in_vain() -> None:
        store: PostgresStore = await opener(cluster.url, "a")()
        cluster.database.run("drop schema beanpole cascade")
        with pytest.raises(GoneError):
            await store.drop_segment(1)
        await asyncio.to_thread(cluster.init)
        with pytest.raises(LostError, match="another cluster"):
            await store.drop_segment(1)
        with pytest.raises(LostError, match="another cluster"):
            await store.make_segment(2)
        await store.close()

    cluster.init()
    asyncio.run(change_in_vain())
    assert cluster.count("segment", "true") == 1
    assert cluster.count("log_1", "row = 0") == 1


def test_opening_a_connection_waits_for_no_answer_for_ever(cluster: Cluster) -> None:
    """It is how a node looks for a newer server, when one takes connections and does nothing more."""
    cluster.init()

    async def open_in_vain() -> None:
        with pytest.raises(LostError, match="did not answer"):
            await opener(cluster.url, "a", 0.5)()

    with cluster.database.connected() as connection:
        connection.exec_driver_sql("lock table beanpole.setting in access exclusive mode")
        asyncio.run(open_in_vain())


SMALL, LARGE = 3000, 30
"""How many rows the log of a test has of each kind."""


def test_small_rows_are_read_many_at_a_time_and_large_ones_few(cluster: Cluster) -> None:
    cluster.init()
    cluster.database.run(
        "insert into beanpole.log_1 select n, 1, 2, '\\x00', 1, 0, '\\x00', '\\x00',"  # noqa: S608
        f" convert_to(repeat('x', case when n <= {SMALL} then 10 else 100000 end), 'utf8')"
        f" from generate_series(1, {SMALL + LARGE}) n"
    )

    async def read_all() -> list[int]:
        store: PostgresStore = await opener(cluster.url, "a")()
        tip, counts, is_all = await store.first(1), list[int](), False
        while tip is not None:
            _, rows, is_all = await store.read(tip, 1_000_000)
            counts.append(len(rows))
            assert not is_all or sum(counts) == SMALL + LARGE
            tip = rows[-1] if rows else None
        await store.close()
        assert is_all
        return counts

    counts = asyncio.run(read_all())
    assert sum(counts) == SMALL + LARGE
    assert counts[0] > 1000
    assert 10 <= counts[-2] <= 11


def test_of_two_processes_with_a_name_the_one_that_is_alive_or_leads_is_shown(cluster: Cluster) -> None:
    cluster.init()
    first, second = (bytes([each]) * 16 for each in (1, 2))

    async def report(writer: bytes, role: str, epoch: int) -> tuple[bytes, str]:
        """Let one of them report; return who is shown then, and as what."""
        store: PostgresStore = await opener(cluster.url, "a")()
        await store.report(
            NodeState("a", "here:1", role, epoch, Place(1, 0), "", 1, "", reaches_leader=True, writer=writer)
        )
        (shown,) = await store.nodes()
        await store.close()
        return bytes(shown.writer), shown.role

    async def take_turns() -> None:
        assert await report(first, "leader", 1) == (first, "leader")
        cluster.database.run("update beanpole.node set seen = seen + interval '1 hour'")  # however long this takes
        assert await report(second, "follower", 1) == (first, "leader"), "it is alive"
        cluster.database.run("update beanpole.node set seen = seen - interval '1 hour 4 seconds'")
        assert await report(second, "follower", 1) == (second, "follower"), "it was silent"
        assert await report(first, "follower", 1) == (second, "follower")
        assert await report(first, "leader", 2) == (first, "leader"), "it leads"
        assert await report(second, "leader", 1) == (first, "leader"), "not since then"
        cluster.database.run("update beanpole.node set role = 'stopped'")
        assert await report(second, "follower", 2) == (second, "follower"), "it has stopped"

    asyncio.run(take_turns())
