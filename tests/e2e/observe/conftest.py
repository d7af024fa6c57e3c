"""Both servers, and the command line beside them."""

from collections.abc import Iterator

import pytest

from tests.servers import Server, beanpole_server, beanstalkd_server


@pytest.fixture(params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the test's own."""
    with beanpole_server() if request.param == "beanpole" else beanstalkd_server() as running:
        yield running
