"""What an operator does with a cluster, with real nodes and a real PostgreSQL."""

import asyncio
import functools
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beanpole.log.format import segment_header
from beanpole.log.limits import CLUSTER_FORMAT
from beanpole.log.postgres import admin
from beanpole.log.postgres.rows import Place, RowKind, first_row, pack_note, row_behind
from beanpole.schedules.zones import data_version
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import Client, Process, serving, start_in_vain, wait_until

HANDOVER = 4
CLOSED = 5


def roles(cluster: Cluster) -> dict[str, str]:
    """What the nodes say that they are: up to a second ago."""
    return {each["node"]: each["role"] for each in cluster.nodes()}


def lags(cluster: Cluster) -> list[int]:
    """How many rows the nodes are behind; -1 for one that has said nothing yet."""
    return [-1 if each["lag_rows"] is None else each["lag_rows"] for each in cluster.nodes()]


def ask(process: Process, *conversation: tuple[bytes, bytes]) -> None:
    """Sends commands and reads their replies, over a connection of its own."""
    with process.connect() as client:
        for command, reply in conversation:
            client.ask(command, reply)


# --- init -------------------------------------------------------------------------------------------------------------


def test_init_makes_a_cluster_once(cluster: Cluster) -> None:
    first = cluster("init", "--cluster-durability", "local", "--json").objects[0]
    assert first["existed"] is False
    again = cluster("init", "--cluster-durability", "local", "--json").objects[0]
    assert again == first | {"existed": True}


def test_init_does_not_change_a_cluster_silently(cluster: Cluster) -> None:
    cluster("init", "--cluster-durability", "local", "--silence-ms", 700)
    assert "silence limit 700 ms" in cluster("init").out.decode()
    refused = cluster("init", "--silence-ms", 900, code=1).err
    assert "a cluster already" in refused
    assert "silence limit 700 ms" in refused


def test_init_says_what_quorum_needs(cluster: Cluster) -> None:
    done = cluster("init", code=1)
    assert "synchronous_standby_names" in done.err
    assert "give init --cluster-durability local, too." in done.err
    assert len(done.err.splitlines()) == 1


def test_verbs_say_that_there_is_no_cluster(cluster: Cluster) -> None:
    for verb in ("status", "leader", "step-down", "upgrade"):
        assert "beanpole cluster init" in cluster(verb, code=1).err


def test_verbs_say_that_the_server_is_not_there(tmp_path: Path, cluster: Cluster) -> None:
    away = Cluster(cluster.database, f"postgresql://beanpole@/none?host={tmp_path}")
    assert "can't be reached" in away("leader", code=4).err
    assert "write postgresql://" in Cluster(cluster.database, "postgresql://a b/c d?=")("leader", code=5).err


# --- status, leader ---------------------------------------------------------------------------------------------------


def test_status_and_leader_without_a_node(cluster: Cluster) -> None:
    cluster.init()
    assert "no node leads" in cluster("leader", code=2).err
    assert "no node leads" in cluster("step-down", code=2).err
    status = cluster("status", "--json", code=2).objects[0]
    assert (status["leader"], status["epoch"], status["nodes"]) == (None, 0, [])
    assert any("no node" in each for each in status["warnings"])


def test_status_shows_who_leads_and_how_far_the_others_are(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a, cluster.node("b"):
        cluster.wait_alive("a", "b")
        status = cluster.status()
        assert (status["leader"], status["epoch"]) == ("a", 1)
        assert status["address"] == f"127.0.0.1:{a.port}"
        wait_until(lambda: roles(cluster) == {"a": "leader", "b": "follower"}, "both say what they are")
        wait_until(lambda: min(lags(cluster), default=-1) >= 0, "both say how far they are")
        assert any("machine of PostgreSQL" in each for each in status["warnings"])
        assert {each["zone_data"] for each in status["nodes"]} == {data_version()}
        assert all(each["clock_ahead_s"] is not None for each in status["nodes"])
        text = cluster("status").out.decode()
        assert "a leads at 127.0.0.1" in text
        assert "durability local" in text
        assert cluster("leader").out.decode() == f"127.0.0.1:{a.port}\n"
        cluster("leader", "--node", "a")
        assert "a leads, not b" in cluster("leader", "--node", "b", code=2).err


def test_leader_is_found_without_reading_the_log(cluster: Cluster) -> None:
    """A leader with nothing to do writes 290 000 rows a day, and health checks ask every second or two."""
    cluster.init()
    with cluster.node("a"):
        cluster.wait_leader("a")
    count = 20_000
    cluster.database.run(
        "insert into beanpole.log_1 select (select max(row) from beanpole.log_1) + n, 1, 1, '\\x00', 1, 0, '\\x00',"  # noqa: S608
        f" '\\x00', '' from generate_series(1, {count}) n"
    )

    def read() -> int:
        query = "select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relname = 'log_1'"
        with cluster.database.connected() as connection:
            return int(connection.exec_driver_sql(query).scalar() or 0)

    before = read()
    status = cluster("status", "--json", code=2).objects[0]
    assert status["tip"][1] > count
    assert status["epoch"] == 1
    wait_until(lambda: read() > before, "the server has counted")
    assert read() - before < count // 2


def test_status_says_why_nothing_is_confirmed(cluster: Cluster) -> None:
    cluster.init()
    cluster.database.run("update beanpole.setting set value = 'quorum' where name = 'durability'")
    warnings = cluster("status", "--json", code=2).objects[0]["warnings"]
    assert any("nothing is confirmed: synchronous_standby_names" in each for each in warnings)


def test_status_without_the_table_of_nodes_shows_what_the_log_says(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"):
        cluster.database.run("drop table beanpole.node")
        found = cluster("status", "--json", code=2).objects[0]
        assert found["epoch"] == 1
        assert [each for each in found["warnings"] if "the table of nodes can't be read" in each]
        assert not [each for each in found["warnings"] if "start them" in each]
        assert "the last to lead was a" in cluster("status", code=2).out.decode()
        cluster.init()
        wait_until(lambda: roles(cluster) == {"a": "leader"}, "the node is shown again")


def test_stats_come_from_the_leader_through_a_follower(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"), cluster.node("b") as b, b.connect() as client:
        client.send(b"stats\r\n")
        stats = dict(line.split(": ", 1) for line in client.body().decode().splitlines()[1:])
        assert stats["durability"] == "local"
        assert stats["cluster-role"] == "leader"
        assert stats["cluster-epoch"] == "1"
        assert int(stats["cluster-lag"]) >= 0


# --- step-down --------------------------------------------------------------------------------------------------------


def test_step_down_needs_somebody_who_can_lead(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"):
        cluster.wait_alive("a")
        assert "nobody could lead" in cluster("step-down", code=1).err
        assert "not alive" in cluster("step-down", "--to", "c", code=1).err
        assert cluster("step-down", "--force", "--json").objects[0] == {"from": "a", "to": "a", "epoch": 2}


def test_step_down_lets_the_named_node_lead(cluster: Cluster) -> None:
    cluster.init(30_000)
    # The first leader is known only after the silence limit, so a short one is set for it.
    cluster.set_silence(500)
    with cluster.node("a") as a:
        cluster.set_silence(30_000)
        with cluster.node("b") as b, cluster.node("c") as c:
            cluster.wait_alive("a", "b", "c")
            ask(a, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"))
            assert cluster("step-down", "--to", "c", "--json").objects[0] == {"from": "a", "to": "c", "epoch": 2}
            for process in (a, b, c):
                wait_until(functools.partial(reserves, process), "the job is handed out by every node")


def test_step_down_refuses_a_node_that_reads_the_log_still(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"):
        cluster.wait_alive("a")
        cluster.database.run(
            "insert into beanpole.node"
            " select 'b', address, 'reading', 0, 1, 0, version, format, machine, true, '', seen + '1 hour'"
            " from beanpole.node where name = 'a'"
        )
        assert "has read the log" in cluster("step-down", code=1).err
        assert "reads the log still" in cluster("step-down", "--to", "b", code=1).err


def test_step_down_to_a_node_that_is_gone_is_a_log_line(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a:
        cluster.database.run("insert into beanpole.step_down values (1, 'z')")
        wait_until(lambda: a.events("not handing over"), "it says why")
        assert "'z' is not alive" in str(a.events("not handing over")[0]["reason"])


def test_step_down_that_gives_up_asks_for_nothing_any_more(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"), cluster.node("b"):
        cluster.wait_alive("a", "b")
        before, after = asyncio.run(admin.step_down(cluster.url, "b", 0.0))
        assert (before.node, after) == ("a", None)
        assert cluster.count("step_down", "true") == 0


def reserves(process: Process) -> bool:
    with process.connect(wait_accepted=False) as client:
        client.send(b"reserve-with-timeout 1\r\n")
        return answer(client) == b"RESERVED 1 1\r\n"


def answer(client: Client) -> bytes:
    """The next line; empty if the node closes, as it does while it knows no leader."""
    try:
        return client.line()
    except ConnectionError:
        return b""


# --- import, export ---------------------------------------------------------------------------------------------------

SCHEDULE = b"at: 2100-01-01T00:00:00Z\ntube: mail\n\nhappy"
JOBS = (
    (b"set-schedule year %d\r\n%b\r\n" % (len(SCHEDULE), SCHEDULE), b"SCHEDULED 4102444800\r\n"),
    (b"pause-schedule year on\r\n", b"PAUSED\r\n"),
    (b"use mail\r\n", b"USING mail\r\n"),
    (b"put 5 0 60 5\r\nready\r\n", b"INSERTED 1\r\n"),
    (b"put 5 1000 60 7\r\ndelayed\r\n", b"INSERTED 2\r\n"),
    (b"put 5 0 60 6\r\nburied\r\n", b"INSERTED 3\r\n"),
    (b"reserve-job 3\r\n", b"RESERVED 3 6\r\nburied\r\n"),
    (b"bury 3 9\r\n", b"BURIED\r\n"),
    (b"pause-tube mail 1000\r\n", b"PAUSED\r\n"),
    (b"put 5 0 60 1\r\nx\r\n", b"INSERTED 4\r\n"),
    (b"delete 4\r\n", b"DELETED\r\n"),
)
THERE = (
    (b"use mail\r\n", b"USING mail\r\n"),
    (b"peek-ready\r\n", b"FOUND 1 5\r\nready\r\n"),
    (b"peek-delayed\r\n", b"FOUND 2 7\r\ndelayed\r\n"),
    (b"peek-buried\r\n", b"FOUND 3 6\r\nburied\r\n"),
    (
        b"get-schedule year\r\n",
        b"SCHEDULE year %d state=paused next=4102444800 last=0 fires=0 skips=0 misses=0 size=%d\r\n%b\r\n"
        % (len(SCHEDULE), len(SCHEDULE), SCHEDULE),
    ),
)


def is_paused(process: Process) -> bool:
    with process.connect() as client:
        return client.statistic("pause-time-left", b"stats-tube mail\r\n") > 900


def test_import_and_export_keep_every_job(cluster: Cluster, tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    with serving("-b", str(before)) as process:
        ask(process, *JOBS)
    cluster.init()
    cluster.database.run("update beanpole.setting set value = '4' where name = 'format'")
    assert "has schedules" in cluster("import", before, code=1).err
    cluster.database.run(f"update beanpole.setting set value = '{CLUSTER_FORMAT}' where name = 'format'")  # noqa: S608
    assert cluster("import", before, "--json").objects[0]["jobs"] == 3
    assert "not empty" in cluster("import", before, code=1).err
    with cluster.node("a") as node:
        ask(node, *THERE, (b"put 5 0 60 1\r\ny\r\n", b"INSERTED 5\r\n"), (b"delete 5\r\n", b"DELETED\r\n"))
        assert is_paused(node)
        assert "stop the nodes" in cluster("export", after, code=1).err
    assert cluster("export", after, "--json").objects[0]["jobs"] == 3
    assert cluster.count("log_1", f"kind = {CLOSED}") == 1
    assert any("exported" in each for each in cluster("status", "--json", code=2).objects[0]["warnings"])
    refused = start_in_vain("--cluster", cluster.url, "--node", "a")
    assert refused.code == 1
    assert f"exported to {after}" in refused.error
    again = tmp_path / "again"
    assert cluster("export", again, "--json").objects[0]["jobs"] == 3
    assert "not empty" in cluster("export", again, code=1).err
    for each in (after, again):
        with serving("-b", str(each)) as process:
            ask(process, *THERE, (b"put 5 0 60 1\r\nz\r\n", b"INSERTED 6\r\n"))
            assert is_paused(process)


def test_import_takes_many_segments(cluster: Cluster, tmp_path: Path) -> None:
    count = 3000
    with serving("-b", str(tmp_path / "jobs")) as process, process.connect() as client:
        client.send(b"put 0 0 60 1000\r\n%b\r\n" % (b"x" * 1000) * count)
        for i in range(count):
            client.expect(b"INSERTED %d\r\n" % (i + 1))
    cluster.init()
    cluster.database.run("update beanpole.setting set value = '1048576' where name = 'segment_bytes'")
    assert cluster("import", tmp_path / "jobs", "--json").objects[0]["jobs"] == count
    assert cluster.count("segment", "true") >= 3
    with cluster.node("a") as node:
        assert node.statistic("current-jobs-ready") == count


def test_verify_reads_the_whole_log(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as node:
        ask(node, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"), (b"put 0 0 60 1\r\ny\r\n", b"INSERTED 2\r\n"))
    assert cluster("verify", "--json").objects[0]["jobs"] == 2
    assert "none was compared" in cluster("verify").out.decode()
    cluster.database.run("update beanpole.log_1 set data = data || '\\x00' where row = 2")
    assert "row 2 of segment 1 is not what was written there" in cluster("verify", code=1).err


def test_verify_asks_every_node_what_it_holds(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a, cluster.node("b"), a.connect() as client:
        ask(a, *JOBS)
        client.ask(b"put 5 1 60 5\r\nsoon!\r\n", b"INSERTED 5\r\n")  # due while we look, or not yet
        client.ask(b"put 5 0 60 5\r\ntaken\r\n", b"INSERTED 6\r\n")
        client.ask(b"reserve-job 6\r\n", b"RESERVED 6 5\r\ntaken\r\n")
        cluster.wait_alive("a", "b")
        for _ in range(3):
            done = cluster("verify", "--json").objects[0]
            assert (done["jobs"], done["equal"], done["silent"]) == (5, {"a": True, "b": True}, [])
        client.ask(b"delete 6\r\n", b"DELETED\r\n")
        assert cluster.count("digest", "true") == 0
        assert roles(cluster).keys() == {"a", "b"}


def test_import_refuses_a_directory_without_a_log(cluster: Cluster, tmp_path: Path) -> None:
    cluster.init()
    assert "holds no log" in cluster("import", tmp_path, code=1).err


# --- accept-loss, upgrade ---------------------------------------------------------------------------------------------


def test_a_loss_stops_the_nodes_until_a_person_accepts_it(cluster: Cluster) -> None:
    cluster.init()
    assert "nothing is known to be lost" in cluster("accept-loss", "--yes", code=1).err
    with cluster.node("a") as node:
        # Locked, or a row that is appended at that moment is spared, and nothing is gone for the node that leads.
        lock = "lock table beanpole.log_1 in share row exclusive mode"
        cluster.database.run(lock, "delete from beanpole.log_1 where row > 1")
        assert node.wait_exit() == 7
        failed = node.events("cluster failed")[0]
        assert "accept-loss" in str(failed["advice"])
    refused = start_in_vain("--cluster", cluster.url, "--node", "b")
    assert refused.code == 7
    assert "accept-loss" in refused.error
    assert any("lost" in each for each in cluster("status", "--json", code=2).objects[0]["warnings"])
    assert "--yes" in cluster("accept-loss", "--json", code=5).err
    assert "row" in cluster("accept-loss", code=130).out.decode(), "it asks, and nobody answers"
    cluster("accept-loss", "--yes")
    with cluster.node("b") as node:
        ask(node, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1000001\r\n"))


def test_nodes_stop_when_their_cluster_is_dropped(cluster: Cluster) -> None:
    """What they know is not looked for in one that is made in its place, which goes on."""
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b:
        cluster.database.run("drop schema beanpole cascade")
        cluster.init()
        for node in (a, b):
            assert node.wait_exit() == 7
            assert "were dropped" in str(node.events("cluster failed")[0]["reason"])
    with cluster.node("c") as node:
        ask(node, (b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n"))


def test_verbs_that_write_say_that_nothing_is_confirmed(cluster: Cluster, tmp_path: Path) -> None:
    """They would wait for a standby without a word."""
    cluster.init()
    cluster.database.run("update beanpole.setting set value = 'quorum' where name = 'durability'")
    for verb in (["accept-loss", "--yes"], ["step-down"], ["upgrade"], ["export", tmp_path / "jobs"]):
        assert "synchronous_standby_names is ''" in cluster(*verb, code=1).err


@pytest.fixture
def set_fsync(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Sets what a commit waits for on the disk, by a reload; in the end it is on."""

    def set_to(value: str) -> None:
        cluster.database.run_alone(f"alter system set fsync = {value}")
        cluster.database.run_alone("select pg_reload_conf()")
        with cluster.database.connected("AUTOCOMMIT") as connection:
            wait_until(lambda: connection.exec_driver_sql("show fsync").scalar() == value, "it is set")

    yield set_to
    set_to("on")


def test_nothing_is_confirmed_while_the_server_syncs_nothing(
    cluster: Cluster, set_fsync: Callable[[str], None]
) -> None:
    """A reload is enough for that. The nodes wait: none ends, and nobody is told that a job is safe."""
    cluster.init()
    with cluster.node("a", "--cluster-wait", "600") as a:
        cluster.set_silence(600_000)  # so that b does not lead
        with cluster.node("b") as b, a.connect() as client:
            client.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
            set_fsync("off")
            client.send(b"put 0 0 60 1\r\ny\r\n")
            wait_until(lambda: "fsync = off" in str(a.events("nothing is confirmed")), "it says why")
            warnings = cluster("status", "--json").objects[0]["warnings"]
            assert any("fsync = off" in each for each in warnings)
            assert "fsync = off" in cluster("upgrade", code=1).err
            assert not select.select([client.socket], [], [], 0)[0], "it is answered"
            cluster.disconnect("b")
            wait_until(lambda: "fsync = off" in str(b.events("PostgreSQL is not reached")), "b waits as well")
            set_fsync("on")
            client.expect(b"INSERTED 2\r\n")
            wait_until(lambda: b.events("PostgreSQL is reached again"), "b goes on")


@pytest.fixture
def no_standby(cluster: Cluster) -> Iterator[None]:
    """A cluster on a server whose commits wait for a standby that is not there."""
    cluster.init()
    database = cluster.database

    def wait_for(names: str) -> None:
        database.run_alone(f"alter system set synchronous_standby_names = '{names}'")
        database.run_alone("select pg_reload_conf()")
        with database.connected("AUTOCOMMIT") as connection:
            query = "select current_setting('synchronous_standby_names')"
            wait_until(lambda: connection.exec_driver_sql(query).scalar() == names, "it is set")

    wait_for("nobody")
    yield
    wait_for("")


@pytest.mark.usefixtures("no_standby")
def test_verify_and_step_down_wait_for_no_standby(cluster: Cluster) -> None:
    cluster("verify")
    with cluster.database.connected() as connection:
        connection.exec_driver_sql("set local synchronous_commit = off")
        for name, role in (("a", "leader"), ("b", "follower")):
            connection.exec_driver_sql(
                "insert into beanpole.node values (%s, '', %s, 1, 1, 0, '', 3, '', true, %s, '3000-01-01')",
                (name, role, name.encode()),
            )
        row = row_behind(
            first_row(b""),
            epoch=1,
            kind=RowKind.EPOCH,
            writer=b"a",
            confirmed=Place(1, 0),
            data=pack_note({"node": "a", "address": ""}, segment_header(1, 1, (0, 0), 0, 1, 1)),
        )
        connection.exec_driver_sql(
            "insert into beanpole.log_1 values (%s, %s, %s, %s, %s, %s, %s, %s, %s)", tuple(admin.columns_of(row))
        )
        connection.commit()
    before, after = asyncio.run(admin.step_down(cluster.url, "b", 0.5))
    assert (before.node, after) == ("a", None)
