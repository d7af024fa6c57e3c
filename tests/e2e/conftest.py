"""A server that the tests of one file share: each test leaves it without jobs, tubes and connections of its own."""

from collections.abc import Iterator

import pytest

from tests.e2e.process import Process, healthy


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """A server that must be well when the last test is over."""
    with healthy() as server:
        yield server
