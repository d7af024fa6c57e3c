"""greenstalk through a node of a cluster that passes it on to the leader: the same tests, with another server."""

from collections.abc import Iterator

import pytest

from tests.clusters import clustered_server
from tests.conformance.test_greenstalk import *  # noqa: F403 - every test of it
from tests.databases import DatabaseServers
from tests.servers import Server


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def server(database_servers: DatabaseServers) -> Iterator[Server]:
    """A node that does not lead."""
    with clustered_server(database_servers, body_bytes_max=1_000_000, follower=True) as running:
        yield running
