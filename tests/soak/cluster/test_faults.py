"""What happens to a cluster when its nodes and its PostgreSQL servers die, stand still or misbehave: for real."""

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole.errors import ExitCode
from tests.databases import is_there
from tests.servers import missing_peer
from tests.soak.cluster.clients import Client
from tests.soak.cluster.cluster import WAIT_S, Cluster, new_cluster
from tests.soak.cluster.nodes import leader_of, stats
from tests.soak.cluster.postgres import Pair, Postgres

pytestmark = [pytest.mark.long, pytest.mark.database, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary with its standby. As root they run as somebody else, who may not enter pytest's own folders."""
    if not is_there():
        missing_peer("postgres")
    with tempfile.TemporaryDirectory(prefix="beanpole-") as folder:
        Path(folder).chmod(0o755)
        found = Pair(Path(folder))
        try:
            yield found
        finally:
            found.stop()


@pytest.fixture
def cluster(pair: Pair, tmp_path: Path) -> Iterator[Cluster[Pair]]:
    """Three nodes and clients that work; what clients were told must be true in the end."""
    with new_cluster(pair, tmp_path) as found:
        yield found
        verdict = found.finish()
        assert verdict.is_clean, verdict


def test_leader_dies(cluster: Cluster[Pair]) -> None:
    leader = leader_of(cluster.nodes)
    leader.kill()
    assert leader_of(cluster.nodes, leader) is not leader
    cluster.answered()
    leader.start()
    cluster.answered()


def test_primary_dies(cluster: Cluster[Pair]) -> None:
    cluster.servers.fail_over()
    cluster.servers.join()
    cluster.answered()


def test_leader_and_primary_die(cluster: Cluster[Pair]) -> None:
    leader = leader_of(cluster.nodes)
    leader.kill()
    cluster.servers.fail_over()
    cluster.servers.join()
    cluster.answered()
    leader.start()


def test_everything_dies(cluster: Cluster[Pair]) -> None:
    servers = (cluster.servers.standby, cluster.servers.primary)
    for node in cluster.nodes:
        node.kill()
    for server in servers:
        server.kill()
    for server in servers:
        server.start()
    for node in cluster.nodes:
        node.start()
    cluster.answered()


def test_leader_that_stood_still_answers_nobody(cluster: Cluster[Pair]) -> None:
    """Its clients' commands were sent when another led: what it knows is old."""
    leader = leader_of(cluster.nodes)
    with leader.connect(WAIT_S) as connection:
        assert b"cluster-epoch" in Client.ask(connection, b"stats\r\n")
        leader.signal(signal.SIGSTOP)
        connection.sendall(b"stats\r\n")
        leader_of(cluster.nodes, leader)
        cluster.answered(5)
        leader.signal(signal.SIGCONT)
        connection.settimeout(WAIT_S)
        with contextlib.suppress(ConnectionResetError):  # it may close before it has read the command
            assert connection.recv(1000) == b""
    cluster.answered()


def wait_for_commit(pair: Pair) -> int:
    """Wait until a commit waits for its standby; return its process."""
    give_up_at = time.monotonic() + WAIT_S
    while not (waiting := pair.waiting()):
        assert time.monotonic() < give_up_at, "no commit waits"
        time.sleep(0.01)
    return waiting[0]


@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_cancelled_commit_acknowledges_nothing(cluster: Cluster[Pair], how: str) -> None:
    """It is there, and visible, but its standby has not got it."""
    pair = cluster.servers
    with pair.standby.frozen():
        wait_for_commit(pair)
        count = cluster.standing_still()
        pid = wait_for_commit(pair)
        pair.primary.run(f"select {how}({pid})")
        while pid in pair.waiting() and how == "pg_terminate_backend":
            time.sleep(0.01)
        wait_for_commit(pair)
        assert len(cluster.history.answered_s) == count
    cluster.answered()


def test_names_emptied_during_a_wait_acknowledge_nothing(cluster: Cluster[Pair]) -> None:
    """The commit ends without a warning then."""
    pair = cluster.servers
    with pair.standby.frozen():
        wait_for_commit(pair)
        count = cluster.standing_still()
        pair.primary.set_names("")
        give_up_at = time.monotonic() + WAIT_S
        while pair.waiting():
            assert time.monotonic() < give_up_at, "the commit still waits"
            time.sleep(0.01)
        time.sleep(1.0)  # time enough for an answer that must not come
        assert len(cluster.history.answered_s) == count
    pair.primary.set_names(pair.standby.application)
    cluster.answered()


def test_primary_stands_still_and_another_is_promoted(cluster: Cluster[Pair]) -> None:
    """Nothing closes the connections to it: the nodes look for a newer timeline by themselves."""
    pair = cluster.servers
    old = pair.primary
    old.signal(signal.SIGSTOP)
    pair.promote()
    old.kill()
    pair.join()
    cluster.answered()


def test_primary_goes_on_and_another_is_promoted(cluster: Cluster[Pair]) -> None:
    """What manages it stands still: it still takes writes, and confirms none. It is the first that nodes would ask."""
    pair = cluster.servers
    if str(pair.primary.folder) not in pair.url.partition("host=")[2].partition(",")[0]:
        pair.fail_over()
        pair.join()
    old = pair.primary
    pair.promote()
    with tempfile.TemporaryDirectory(prefix="beanpole-") as folder:
        Path(folder).chmod(0o755)
        third = Postgres(Path(folder) / "three", "three")
        try:
            third.follow(pair.primary)
            pair.primary.set_names(third.application)
            cluster.answered()
            reports = "select count(*) from beanpole.node where seen > now() - interval '3 s'"
            give_up_at = time.monotonic() + WAIT_S
            while pair.primary.run(reports, database="log") != [(len(cluster.nodes),)]:
                assert time.monotonic() < give_up_at, "the nodes still report to the old primary"
                time.sleep(0.05)
        finally:
            old.kill()
            pair.join()
            third.stop()
    cluster.answered()


def test_confirmed_rows_that_are_gone_stop_all_nodes(pair: Pair, tmp_path: Path) -> None:
    """An operator did what must not be done: he set the cluster to be content with one server."""
    with new_cluster(pair, tmp_path) as cluster:
        pair.primary.run("update beanpole.setting set value = 'local' where name = 'durability'", database="log")
        pair.standby.kill()
        pair.primary.set_names("")
        cluster.answered()
        pair.primary.kill()
        pair.standby.start()
        pair.promote()
        leader_seen = [node.wait() for node in cluster.nodes]
        assert leader_seen == [ExitCode.LOG_CHANGED] * len(cluster.nodes)
        assert not stats(cluster.nodes[0])
    pair.join()
