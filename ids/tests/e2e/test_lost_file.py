"""The file of SQLite is deleted under a running service, or is a copy."""

import shutil
from pathlib import Path

import pytest

from tests.e2e.process import running, write_rules
from tests.e2e.test_databases import start
from tests.processes import STOP_TIMEOUT_S


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


@pytest.mark.parametrize("more", ["", "processes = 2"])
def test_copy_is_refused_until_it_is_adopted(tmp_path: Path, more: str) -> None:
    """A service on a copied folder gave the numbers that the first one gave."""
    config = write_rules(tmp_path, more=more)
    with running(tmp_path, config) as service:
        assert service.ask()["code"] == 0
        assert service.end() == 0
    shutil.copy(tmp_path / "ids.db", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "ids.db")
    done = start(config)
    assert done.returncode == 7
    assert "ids.db: it is a copy, or was moved from another machine or file system; numbers" in done.stderr
    with running(tmp_path, config, options=["--adopt"]) as service:
        assert service.ask()["code"] == 0
        assert service.end() == 0
    with running(tmp_path, config) as service:
        assert service.ask()["code"] == 0
