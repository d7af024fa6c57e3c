"""Fixtures for tests of the console."""

from collections.abc import Iterator

import pytest

from tests.e2e.console.patient import PATIENCE
from tests.e2e.console.process import Console, console, url_of
from tests.servers import Server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made in the test's process does not end early because the machine is busy."""
    for path, value in PATIENCE.items():
        monkeypatch.setattr(path, value)


@pytest.fixture(scope="module")
def served(one: Server) -> Iterator[Console]:
    """A console for the server that a module calls `one`."""
    with console("--url", url_of(one, "one")) as found:
        yield found
