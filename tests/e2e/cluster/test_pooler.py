"""A pooler between a node and PostgreSQL: its sessions are not ours, so the node refuses it."""

import json
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.conftest import Cluster, daemon
from tests.e2e.process import start_in_vain, wait_until
from tests.servers import STOP_TIMEOUT_S

pytestmark = pytest.mark.long

PORT = 6432
"""The pooler listens on a socket in a folder, whose name has it."""


@pytest.fixture(params=["transaction", "session"])
def pooler(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a cluster's database behind PgBouncer."""
    program = daemon("pgbouncer")
    cluster.init()
    assert cluster.database.server is not None
    folder = cluster.database.server.folder  # the server's user may enter it, and root may not run a pooler
    settings = tmp_path / "pgbouncer.ini"
    users = folder / "users"
    users.write_text('"beanpole" ""\n')
    settings.write_text(
        f"[databases]\n* = host={folder}\n[pgbouncer]\npool_mode = {request.param}\nauth_type = trust\n"
        f"auth_file = {users}\nunix_socket_dir = {folder}\nlisten_port = {PORT}\nlisten_addr =\n"
    )
    user: dict[str, int] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        settings = settings.rename(folder / "pgbouncer.ini")
    with (tmp_path / "messages").open("wb") as output:
        process = subprocess.Popen([program, settings], stdout=output, stderr=output, **user)  # type: ignore[call-overload]
    try:
        wait_until((folder / f".s.PGSQL.{PORT}").exists, "the pooler listens")
        yield cluster.url + f"&port={PORT}&user=beanpole"
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def test_pooler_is_refused(pooler: str) -> None:
    refused = start_in_vain("--cluster", pooler, "--node", "a")
    assert refused.code == 1
    failed = [line for line in map(json.loads, refused.error.splitlines()) if line["event"] == "cluster failed"]
    reason = "there is a pooler between this node and PostgreSQL; connect to the server itself"
    assert [line["reason"] for line in failed] == [reason]
