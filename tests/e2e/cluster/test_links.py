"""Links to the nodes of a cluster: who takes one, and what clients see that a follower passes on."""

import signal

from beanpole.protocol.link import first_line
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import Process, wait_until
from tests.e2e.test_route import routing


def identity(cluster: Cluster) -> tuple[str, int]:
    """The id of the cluster, and the epoch in which its leader leads."""
    with cluster.database.connected() as connection:
        values: dict[str, str] = dict(connection.exec_driver_sql("select name, value from beanpole.setting").fetchall())
    return str(values["cluster"]), int(cluster.status()["epoch"])


def answer(node: Process, line: bytes) -> bytes:
    """What a node answers to the first line of a link; nothing: it closes."""
    with node.connect(wait_accepted=False) as front:
        front.send(line)
        return front.line()


def test_nodes_take_links_or_say_who_does(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b:
        cluster.wait_alive("a", "b")
        id, epoch = identity(cluster)
        for line in (first_line(), first_line(id), first_line(id, epoch)):
            assert answer(a, line) == b"LINK 0 65535\r\n"
        for line in (
            first_line(id, epoch + 1),
            first_line("elsewhere", epoch),
            b"beanpole-forward %b 1\r\n\r\n" % id.encode(),
        ):
            assert answer(a, line) == b""
            assert answer(b, line) == b""
        assert answer(b, first_line()) == b"LEADER 127.0.0.1:%d\r\n" % a.port
        assert answer(b, first_line(id, epoch)) == b""


def test_clients_of_a_follower_are_named_as_themselves_and_their_end_is_theirs(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b:
        cluster.wait_alive("a", "b")
        with b.connect() as client, a.connect() as other:
            host, port = client.socket.getsockname()
            other.send(b"list-sessions\r\n")
            assert f"{host}:{port}" in other.body().decode()
            client.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
            client.ask(b"keep-session 60 %b\r\n" % (b"a" * 32), b"KEPT 0\r\n")
            client.ask(b"reserve\r\n", b"RESERVED 1 1\r\nx\r\n")
            client.reset()
            wait_until(lambda: other.statistic("current-jobs-ready") == 1, "the client has ended it")
            assert other.statistic("sessions-lost") == 0
            assert other.statistic("links") == 1


def test_what_a_client_has_sent_runs_when_it_shuts_down_its_end(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a"), cluster.node("b") as b:
        cluster.wait_alive("a", "b")
        with b.connect() as client:
            client.send(b"put 0 0 60 1\r\nx\r\nreserve\r\nreserve\r\nlist-tube-used\r\n")
            client.half_close()
            assert client.rest() == b"INSERTED 1\r\nRESERVED 1 1\r\nx\r\nTIMED_OUT\r\nUSING default\r\n"


def test_leader_that_hangs_is_left_for_the_next(cluster: Cluster) -> None:
    """Its link is silent; clients of which nothing was read wait, and are served by who leads then."""
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b, cluster.node("c"):
        cluster.wait_alive("a", "b", "c")
        with b.connect() as passed_on, b.connect(wait_accepted=False) as waiting:
            a.signal(signal.SIGSTOP)
            assert passed_on.rest() == b""
            waiting.ask(b"list-tube-used\r\n", b"USING default\r\n")
        cluster.wait_leader("b", "c")
        a.signal(signal.SIGCONT)


def test_router_goes_to_the_leader_whichever_node_it_asks_and_to_the_next(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as a, cluster.node("b") as b, cluster.node("c"):
        cluster.wait_alive("a", "b", "c")
        with routing(b) as router, router.connect(wait_accepted=False) as waiting:
            with router.connect() as client:
                assert client.statistic("pid") == a.pid
                a.signal(signal.SIGKILL)
                assert client.rest() == b""
            waiting.ask(b"put 0 0 60 1\r\nx\r\n", b"INSERTED 1\r\n")
            cluster.wait_leader("b", "c")
