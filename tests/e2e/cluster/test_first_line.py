"""The first line of a client that a node passes on: who leads in that epoch takes it, whoever does not closes."""

from beanpole.server.forward import HELLO, hello
from tests.e2e.cluster.conftest import Cluster
from tests.e2e.process import wait_until


def line_of(cluster: Cluster, epoch_more: int = 0) -> bytes:
    """The first line for the leader, or for one of a later epoch."""
    with cluster.database.connected() as connection:
        values: dict[str, str] = dict(connection.exec_driver_sql("select name, value from beanpole.setting").fetchall())
    return hello(str(values["cluster"]), int(cluster.status()["epoch"]) + epoch_more)


def test_first_lines(cluster: Cluster) -> None:
    cluster.init()
    with cluster.node("a") as node:
        right, wrong = line_of(cluster), line_of(cluster, 1)
        for first in (b"", right):
            for command, reply in (
                (b"bury 1 2\r\n", b"NOT_FOUND\r\n"),
                (b"beanpole-forward\r\n", b"UNKNOWN_COMMAND\r\n"),
            ):
                with node.connect(wait_accepted=False) as client:
                    for at in range(len(first + command)):
                        client.send((first + command)[at : at + 1])
                    client.expect(reply)
                    client.ask(b"peek 1\r\n", b"NOT_FOUND\r\n")
        for stale in (wrong, right[:-3] + b"\r\n", HELLO + b"elsewhere 1\r\npeek 1\r\n"):
            with node.connect(wait_accepted=False) as client:
                client.send(stale)
                assert client.rest() == b"", stale
        for part in (b"", b"b", right[:-1]):
            with node.connect(wait_accepted=False) as client:
                client.send(part)
                client.half_close()
                assert client.rest() == b"", part
        wait_until(lambda: node.statistic("current-connections") == 1, "nobody is kept")
