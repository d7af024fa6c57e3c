"""Logs of the real server, for the tests of the tools."""

from pathlib import Path

import pytest

from tests.unit.log import real_log
from tests.unit.log.real_log import copy


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that ends as it should; not to be changed."""
    path = tmp_path_factory.mktemp("log") / "data"
    real_log.write(path)
    return path


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a server that was killed; not to be changed."""
    path = tmp_path_factory.mktemp("log") / "data"
    real_log.write(path, kill=True)
    return path


@pytest.fixture
def log(written: Path, tmp_path: Path) -> Path:
    """A log of the test's own, in segments of 64 KiB."""
    return copy(written, tmp_path / "data")
