"""A cluster that is a shard: its number is set for all nodes, and kept in a directory."""

from pathlib import Path

from beanpole.shard_ids import first_id
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.cluster.test_verbs import ask
from tests.e2e.process import serving


def test_a_cluster_is_a_shard(cluster: Cluster, tmp_path: Path) -> None:
    """Its ids are those of its number, with another node and in a directory too, and it takes a further number."""
    init = ("--cluster-durability", "local", "--json")
    assert cluster("init", "--shard", "3", *init).objects[0]["shard"] == [3]
    assert cluster("init", "--shard", "3", *init).objects[0] == cluster("init", *init).objects[0]
    assert "ids of shard 3: further numbers go behind, as in --shard 3,N" in cluster("init", "--shard", 4, code=1).err
    first = first_id(3)
    with cluster.node("a") as a, cluster.node("b") as b:
        cluster.wait_alive("a", "b")
        ask(a, (b"put 5 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % first))
        assert "`beanpole cluster step-down`" in cluster("init", "--shard", "3,17").out.decode()
        assert cluster.status()["shard"] == [3, 17]
        cluster("step-down", "--to", "b")
        ask(b, (b"put 5 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % (first + 1)))
        with b.connect() as client:
            client.send(b"stats\r\n")
            assert b"\nshard: 3,17\n" in client.body()
    after = tmp_path / "after"
    cluster("export", after)
    with serving("-b", str(after)) as process:
        ask(process, (b"put 5 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % (first + 2)))
    cluster.database.run("drop schema beanpole cascade")
    cluster.init()
    assert (
        "make a cluster in another database with `beanpole cluster init --shard 3,17`"
        in cluster("import", after, code=1).err
    )
    cluster.database.run("drop schema beanpole cascade")
    cluster("init", "--shard", "3,17", *init)
    assert cluster("import", after, "--json").objects[0]["jobs"] == 3
    with cluster.node("a") as a:
        ask(a, (b"put 5 0 60 1\r\nx\r\n", b"INSERTED %d\r\n" % (first + 3)))


def test_a_cluster_of_an_older_format_takes_no_number(cluster: Cluster) -> None:
    cluster.init()
    cluster.database.run("update beanpole.setting set value = '7' where name = 'format'")
    assert "the numbers of a shard need 9" in cluster("init", "--shard", "0,5", code=1).err
    cluster.database.run("update beanpole.setting set value = '9' where name = 'format'")
    assert "ids of shard 0" in cluster("init", "--shard", "5", code=1).err
    assert cluster("init", "--shard", "0,5", "--json").objects[0]["shard"] == [0, 5]
