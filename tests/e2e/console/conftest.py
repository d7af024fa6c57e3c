"""Fixtures for tests of the console."""

from collections.abc import Iterator

import pytest

from tests.e2e.console.process import Console, console, url_of
from tests.servers import Server


@pytest.fixture(scope="module")
def served(one: Server) -> Iterator[Console]:
    """A console for the server that a module calls `one`."""
    with console("--url", url_of(one, "one")) as found:
        yield found
