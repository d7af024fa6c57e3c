"""A client that knows nothing of rules, of a node that passes it on to the leader: the tests of rules."""

from collections.abc import Iterator

import pytest

from tests.clusters import clustered_server
from tests.conformance.test_rules import *  # noqa: F403 - every test of it
from tests.databases import DatabaseServers
from tests.servers import Server


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def server(database_servers: DatabaseServers) -> Iterator[Server]:
    """A node that does not lead."""
    with clustered_server(database_servers, follower=True) as running:
        yield running
