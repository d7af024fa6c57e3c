"""Services with HTTP for tests of one module or of several."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.http import Web, web


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Web]:
    """A service with HTTP."""
    with web(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A service of all tests that leave it as it was."""
    with web(tmp_path_factory.mktemp("shared")) as started:
        yield started
