"""The same conversations with a node of a cluster: its replies wait for PostgreSQL, and are the same.

Fewer of them, as a round trip takes a millisecond here. One thing is weaker: that nothing comes beyond the replies
that are wanted is seen one step later, for what a node has to say may still wait.
"""

from contextlib import ExitStack

from tests.clusters import clustered_server
from tests.databases import DatabaseServers
from tests.differential.conversation import BODY_BYTES_MAX
from tests.differential.test_differential import SEEDS, Comparison, converse
from tests.servers import beanstalkd_version, missing_peer


def test_a_node_of_a_cluster_answers_as_beanstalkd(database_servers: DatabaseServers) -> None:
    """Random conversations have the same replies."""
    if beanstalkd_version() != "1.12":
        missing_peer("beanstalkd 1.12")
    with ExitStack() as stack:
        comparison = Comparison(stack, lambda *_: clustered_server(database_servers, body_bytes_max=BODY_BYTES_MAX))
        converse(comparison, SEEDS[:: len(SEEDS) // 4 or 1])
