"""Clusters for tests that are not about clusters: a server that is one node, or a node that passes clients on."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from beanpole.limits import BODY_BYTES_MAX_DEFAULT
from tests.databases import DatabaseServers
from tests.e2e.cluster.conftest import Cluster
from tests.servers import Server

SILENCE_MS = 500
"""How long the first node waits until it leads."""

PATIENCE_MS = 600_000
"""How long the second one waits: it must not lead because the first has no processor for a moment."""


@contextmanager
def clustered_server(
    databases: DatabaseServers,
    *flags: str,
    body_bytes_max: int = BODY_BYTES_MAX_DEFAULT,
    follower: bool = False,
) -> Iterator[Server]:
    """A node that leads, the only one of its cluster; or a second one, which passes its clients on to that."""
    with ExitStack() as stack:
        database = stack.enter_context(databases.database())
        cluster = Cluster(database, database.url.replace("postgresql+psycopg:", "postgresql:"))
        cluster.init(SILENCE_MS, "-z", str(body_bytes_max))
        node = stack.enter_context(cluster.node("a", *flags))
        if follower:
            cluster.set_silence(PATIENCE_MS)
            node = stack.enter_context(cluster.node("b", *flags))
        yield Server("follower" if follower else "leader", node.pid, node.port)
