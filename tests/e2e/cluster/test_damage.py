"""A log in a real PostgreSQL that can't be read: rows that are damaged or deleted, tables that are dropped."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import Process, serving, start_in_vain, wait_until

BODY = b"x" * 3000
JOBS = 60
"""So many fill three segments."""

HARMS = {
    "damaged": "update beanpole.log_2 set data = set_byte(data, 40, get_byte(data, 40) # 1) where row = 3",
    "kind": "update beanpole.log_2 set kind = -9 where row = 3",
    "deleted": "delete from beanpole.log_2 where row = 3",
    "dropped": "drop table beanpole.log_2",
}


def fill(cluster: Cluster, node: Process) -> None:
    """Puts jobs into several segments."""
    with node.connect() as client:
        for i in range(JOBS):
            client.ask(b"put 0 0 60 3000\r\n%b\r\n" % BODY, b"INSERTED %d\r\n" % (i + 1))
    wait_until(lambda: cluster.count("segment", "number = 3") == 1, "there are three segments")


@pytest.fixture
def small(cluster: Cluster) -> Cluster:
    """A cluster of small segments."""
    cluster.init()
    cluster.database.run("update beanpole.setting set value = '65536' where name = 'segment_bytes'")
    return cluster


@pytest.mark.parametrize("harm", ["kind", "deleted", "dropped"])
def test_a_node_that_starts_goes_on_when_the_leader_has_repaired_the_log(small: Cluster, harm: str) -> None:
    with small.node("a") as a:
        fill(small, a)
        small.database.run(HARMS[harm])
        with small.node("b") as b:
            small.wait_alive("a", "b")
            assert small.leader() == "a"
            assert a.events("repairing the log")[0]["segment"] == 2
            assert "segment 2" in str(b.events("log is not readable")[-1]["reason"])
            assert small.status()["unreadable"] == []
            small("verify")
            a.popen.kill()
            small.wait_leader("b")
            assert b.statistic("current-jobs-ready") == JOBS


def test_an_operator_lets_the_leader_repair_a_segment(small: Cluster) -> None:
    with small.node("a") as a:
        fill(small, a)
        assert "segment 1 is sound; nothing is changed" in small("repair", 1, code=1).err
        assert "there is no segment 99" in small("repair", 99, code=1).err
        small.database.run(HARMS["damaged"])
        assert "row 3 of segment 2" in small("verify", code=1).err
        done = small("repair", 2, "--json").objects[0]
        assert done["node"] == "a"
        assert "row 3 of segment 2" in str(done["reason"])
        small("verify")
        assert a.statistic("current-jobs-ready") == JOBS
    assert "no node leads" in small("repair", 3, code=2).err


def test_verbs_say_that_a_table_is_gone(small: Cluster) -> None:
    with small.node("a") as a:
        fill(small, a)
        small.database.run(HARMS["dropped"])
        warnings = small.status()["warnings"]
        assert any("the table of segment 2 is gone" in each for each in warnings)
        refused = small("verify", code=1).err
        assert "the table of its segment is gone" in refused
        assert "relation" not in refused
        small("repair", 2)
        assert small.status()["missing_segments"] == []
        small("verify")


def test_what_can_be_read_is_exported_when_no_node_has_the_jobs(small: Cluster, tmp_path: Path) -> None:
    with small.node("a") as a:
        fill(small, a)
    small.database.run(HARMS["damaged"])
    outcome = start_in_vain("--cluster", small.url, "--node", "a")
    assert outcome.code == 7
    assert "row 3 of segment 2" in outcome.error
    assert "export --salvage" in outcome.error
    assert "were lost" not in outcome.error
    assert "nothing is known to be lost" in small("accept-loss", "--yes", code=1).err
    assert any("row 3 of segment 2" in each for each in small("status", "--json", code=2).objects[0]["warnings"])
    path = tmp_path / "jobs"
    assert "export --salvage" in small("export", path, code=1).err
    small.database.run("drop table beanpole.log_1")
    done = small("export", path, "--salvage", "--json").objects[0]
    assert done["lost_rows"] == 1
    assert done["lost_segments"] == [1]
    assert 0 < done["jobs"] < JOBS
    with serving("-b", str(path)) as process:
        assert process.statistic("current-jobs-ready") == done["jobs"]
        with process.connect() as client:
            client.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % (1_000_000 + JOBS + 1))


def test_a_lost_end_is_accepted_and_written_again(small: Cluster) -> None:
    """The table that was written is gone, and all nodes with it: what was confirmed is lost."""
    with small.node("a") as a:
        fill(small, a)
        newest = max(number for number in range(1, 10) if small.count("segment", f"number = {number}"))
        newest -= small.count(f"log_{newest}", "true") == 0
        small.database.run(f"drop table beanpole.log_{newest}")
        assert a.wait_exit() == 7
    small("accept-loss", "--yes")
    with small.node("b") as b:
        assert 0 < b.statistic("current-jobs-ready") < JOBS


def test_no_end_is_dropped_in_which_a_row_was_written_since(cluster: Cluster) -> None:
    """A leader that stood still may append its next row just then."""
    cluster.init()
    cluster.database.run(
        "create table beanpole.log_2 (like beanpole.log_1 including all)",
        "insert into beanpole.segment values (2), (3)",
        "insert into beanpole.setting values ('loss', 'rows are gone')",
    )
    waits = "select count(*) from pg_locks where not granted and relation = 'beanpole.log_2'::regclass"
    with ThreadPoolExecutor() as pool, cluster.database.connected() as connection:
        with connection.begin():
            connection.exec_driver_sql("insert into beanpole.log_2 select * from beanpole.log_1")
            accepting = pool.submit(cluster, "accept-loss", "--yes", code=1)
            wait_until(lambda: connection.exec_driver_sql(waits).scalar() == 1, "it waits for the row")
        assert "has written" in accepting.result().err
    assert cluster.count("log_2", "true") == 1
    cluster("accept-loss", "--yes")
    assert cluster.count("log_2", "true") == 1


@pytest.mark.parametrize("verb", ["status", "leader", "verify", "upgrade", "step-down", "accept-loss", "repair"])
def test_every_verb_gives_up_in_time(cluster: Cluster, verb: str) -> None:
    cluster.init()
    with cluster.database.connected() as connection, connection.begin():
        connection.exec_driver_sql("lock table beanpole.segment, beanpole.node in access exclusive mode")
        arguments: dict[str, list[object]] = {"accept-loss": ["--yes"], "repair": [1]}
        if verb == "accept-loss":
            connection.exec_driver_sql("lock table beanpole.setting in share mode")
        done = cluster(verb, *arguments.get(verb, []), "--timeout", 1, code=3)
        assert "came no further for 1 s" in done.err
        assert "Traceback" not in done.err
