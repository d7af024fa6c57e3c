"""The disk of PostgreSQL's primary is full, and has space again."""

import socket
import tempfile
import time
from pathlib import Path

import pytest

from tests.databases import as_whom, is_there
from tests.durability.small_disk import small_disk
from tests.servers import missing_peer
from tests.soak.cluster.clients import Client
from tests.soak.cluster.cluster import WAIT_S, new_cluster
from tests.soak.cluster.nodes import NodeProcess, leader_of
from tests.soak.cluster.postgres import Pair

pytestmark = [pytest.mark.long, pytest.mark.database, pytest.mark.xdist_group("cluster")]

DISK_BYTES = 192 << 20
"""Enough for an empty database and its write-ahead log."""

DELETES = 300
"""More than there is room for in the pages that the database has begun: while a row fits there, a reply is right."""


def impatient(folder: Path, url: str, name: str) -> NodeProcess:
    """Return a node that keeps clients for two seconds which it can't serve."""
    return NodeProcess(folder, url, name, "--cluster-wait", "2")


def delete(connection: socket.socket, puts: list[bytes]) -> None:
    """Delete jobs, given the replies to their puts. Raises ConnectionError: a delete is not answered."""
    for put in puts:
        assert Client.ask(connection, b"delete %b\r\n" % put.split()[1]) == b"DELETED\r\n"


def test_replies_wait_while_the_disk_of_the_primary_is_full() -> None:
    if not is_there():
        missing_peer("postgres")
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "disk").mkdir()
        with small_disk(folder / "disk", DISK_BYTES, as_whom()) as disk:
            pair, filler = Pair(folder, disk.path), disk.mount_point / "filler"
            try:
                with new_cluster(pair, folder, impatient) as cluster:
                    leader = leader_of(cluster.nodes)
                    with leader.connect(WAIT_S) as connection:
                        puts = [Client.ask(connection, b"put 0 0 600 1\r\nx\r\n") for _ in range(DELETES)]
                        assert not disk.run(f"cat /dev/zero > {filler}"), "the disk has no end"
                        give_up_at = time.monotonic() + WAIT_S
                        while b"No space left on device" not in leader.messages.read_bytes():
                            assert time.monotonic() < give_up_at, "the disk is not full"
                            time.sleep(0.02)
                        with pytest.raises(ConnectionError):
                            delete(connection, puts)
                    cluster.standing_still()
                    assert disk.run(f"rm {filler}")
                    cluster.answered()
                    verdict = cluster.finish()
                    assert verdict.is_clean, verdict
            finally:
                pair.stop()
