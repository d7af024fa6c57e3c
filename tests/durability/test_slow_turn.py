"""A slow disk is named in the log of the server whose clients wait for it."""

import time
from pathlib import Path

from tests.durability.kept import keeping, put_line
from tests.durability.shim import Switches
from tests.durability.test_policies import is_quiet
from tests.e2e.process import Client, wait_until

SYNC_S = 0.1


def put_slowly(client: Client, switches: Switches) -> None:
    """Put a job, whose sync takes a while."""
    before = switches.sync_count()
    with switches.holding_syncs():
        client.send(put_line(b"x"))
        wait_until(lambda: switches.sync_count() > before, "the sync has begun")
        end_at = time.monotonic() + SYNC_S
        wait_until(lambda: time.monotonic() >= end_at, "the sync takes long")
    assert client.line().startswith(b"INSERTED ")


def test_a_slow_sync_for_the_only_client_is_reported(tmp_path: Path, switches: Switches) -> None:
    with keeping(tmp_path / "log", env=switches.env) as process, process.connect() as client:
        wait_until(lambda: is_quiet(switches, client), "what is begun at a start is synced")
        found: list[dict[str, object]] = []

        def is_reported() -> bool:  # a line that a busy machine causes keeps others away for a second
            put_slowly(client, switches)
            found[:] = [line for line in process.events("slow turn") if line["reason"] == "sync"]
            return bool(found)

        wait_until(is_reported, "a slow sync is reported")
        line = found[0]
        host, port = client.socket.getsockname()
        assert line["connection"] == f"{host}:{port}"
        assert line["commands"] == {"put": 1}
        assert isinstance(line["ms"], float)
        assert isinstance(line["sync_ms"], float)
        assert SYNC_S * 1000 <= line["sync_ms"] <= line["ms"]
