"""Fixtures for all tests: a world without sockets, and real server processes.

The servers are the test's own: ids begin at 1, and there is no tube but `default`.
"""

from collections.abc import Iterator

import pytest

from tests.servers import Server, beanpole_server, beanstalkd_server


@pytest.fixture
def beanpole() -> Iterator[Server]:
    """A Beanpole server of the test's own."""
    with beanpole_server() as server:
        yield server


@pytest.fixture
def beanstalkd() -> Iterator[Server]:
    """A beanstalkd server of the test's own."""
    with beanstalkd_server() as server:
        yield server
