"""Both clients against both servers; each test works in a tube of its own."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.servers import HOST, Server, beanpole_server, beanstalkd_server
from tests.unit.client.peer import Maker, maker

numbers = count()


@pytest.fixture(scope="module", params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that the tests of a file share."""
    with beanpole_server() if request.param == "beanpole" else beanstalkd_server() as running:
        yield running


@pytest.fixture
def tube() -> str:
    """A tube that no other test knows."""
    return f"t{next(numbers)}"


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes clients of each kind."""
    with maker(request.param) as made:
        yield made


@pytest.fixture
def client(make: Maker, server: Server, tube: str) -> Any:
    """A client that uses and watches a tube of its own."""
    return make((HOST, server.port), use=tube, watch=tube)
