"""The file of SQLite is deleted under a running service."""

from pathlib import Path

from tests.e2e.ids.process import running, write_rules
from tests.e2e.ids.test_databases import start
from tests.servers import STOP_TIMEOUT_S


def test_service_ends_and_does_not_begin_again(tmp_path: Path) -> None:
    """It went on for ever, without a database, and gave the same numbers again after the next start."""
    config = write_rules(tmp_path)
    with running(tmp_path, config) as service:
        assert service.ask()["code"] == 0
        (tmp_path / "ids.db").unlink()
        assert service.popen.wait(STOP_TIMEOUT_S) == 7, "it notices without a request"
        assert "was deleted, moved or replaced" in service.messages()
    done = start(config)
    assert done.returncode == 1
    assert "was there and is gone" in done.stderr
