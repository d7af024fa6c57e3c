"""Clients of both kinds."""

from collections.abc import Iterator

import pytest

from tests.unit.client.peer import Maker, maker


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes clients of each kind."""
    with maker(request.param) as made:
        yield made
