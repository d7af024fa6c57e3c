"""Fixtures for tests of the console."""

from collections.abc import Iterator

import pytest

from beanpole.console import limits
from tests.e2e.console.process import Console, console, url_of
from tests.servers import Server


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list that is made in the test's process ends early because the machine is busy."""
    monkeypatch.setattr(limits, "SEARCH_MS", 60_000)
    monkeypatch.setattr(limits, "LOOK_MS", 60_000)


@pytest.fixture(scope="module")
def served(one: Server) -> Iterator[Console]:
    """A console for the server that a module calls `one`."""
    with console("--url", url_of(one, "one")) as found:
        yield found
