"""The format of the log: what waits until every node can read it."""

from beanpole.log.limits import CLUSTER_FORMAT
from beanpole.schedules.zones import data_version
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.cluster.test_verbs import ask


def test_upgrade_needs_a_node_that_is_alive(cluster: Cluster) -> None:
    cluster.init()
    assert "start all of them" in cluster("upgrade", code=1).err
    with cluster.node("a"):
        cluster.wait_alive("a")
        done = cluster("upgrade", "--json").objects[0]
        assert done["before"] == done["format"]
        cluster.database.run("update beanpole.setting set value = '1' where name = 'format'")
        done = cluster("upgrade", "--json").objects[0]
        assert done == {"before": 1, "format": done["format"], "restart": []}
        cluster.database.run("update beanpole.node set format = 1")
        assert cluster("upgrade", "--json").objects[0]["format"] == done["format"], "it never goes back"


def test_extensions_wait_for_the_format_that_all_nodes_read(cluster: Cluster) -> None:
    """And for the next leader, whichever it is: what one has served, no later one refuses."""
    cluster.init()
    cluster.database.run("update beanpole.setting set value = '3' where name = 'format'")
    cluster.database.run("alter table beanpole.node drop column wall_s, drop column zones")  # they came with format 5
    set_rules = b"set-rules t 0\r\n\r\n"
    with cluster.node("a"), cluster.node("b") as b:
        cluster.wait_alive("a", "b")
        ask(b, (b"set-rules t 0\r\n", b"UNKNOWN_COMMAND\r\n"), (b"list-tube-used\r\n", b"USING default\r\n"))
        assert cluster("upgrade", "--json").objects[0] == {"before": 3, "format": CLUSTER_FORMAT, "restart": ["a"]}
        assert "a, which leads, must be restarted" in cluster("upgrade").out.decode()
        assert any("serves format 3" in each for each in cluster.status()["warnings"])
        with cluster.node("c") as c:
            cluster.wait_alive("a", "b", "c")
            ask(c, (b"set-rules t 0\r\n", b"UNKNOWN_COMMAND\r\n"))
            cluster("step-down", "--to", "c")
            ask(c, (set_rules, b"RULES_SET\r\n"))
            done = cluster("upgrade", "--json").objects[0]
            assert done == {"before": CLUSTER_FORMAT, "format": CLUSTER_FORMAT, "restart": []}
            told = {each["node"]: each["zone_data"] for each in cluster.nodes()}
            assert (told["a"], told["c"]) == (None, data_version())
            cluster("step-down", "--to", "b")
            ask(b, (b"drop-rules t\r\n", b"DROPPED\r\n"), (set_rules, b"RULES_SET\r\n"))
