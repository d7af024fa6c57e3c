"""pystalk through a node of a cluster that passes it on to the leader: the same tests, with another server."""

from collections.abc import Iterator

import pytest

from tests.clusters import clustered_server
from tests.conformance.test_pystalk import *  # noqa: F403 - every test of it
from tests.databases import DatabaseServers
from tests.servers import Server


@pytest.fixture(  # type: ignore[no-redef]
    name="server", scope="module", params=[(), ("--one-reply-per-send",)], ids=["default", "one-reply-per-send"]
)
def server(request: pytest.FixtureRequest, database_servers: DatabaseServers) -> Iterator[Server]:
    """A node that does not lead, with and without the option that is meant for this client."""
    with clustered_server(database_servers, *request.param, follower=True) as running:
        yield running
