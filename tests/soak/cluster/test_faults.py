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
from tests.soak.cluster.faults import PAIR_KINDS, try_out
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


@pytest.mark.parametrize(
    "name",
    [
        "leader killed",
        "primary killed",
        "primary and leader killed",
        "everything killed",
        "primary stands still, another is promoted",
        "waiting commits cancelled",
        "waiting commits ended",
        "names emptied during a wait",
    ],
)
def test_what_clients_are_told_stays_true(cluster: Cluster[Pair], name: str) -> None:
    try_out(cluster, next(each for each in PAIR_KINDS if each.name == name))


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
