"""Which of several servers are asked for jobs."""

from beanpole.client import Stats
from beanpole.console.servers import are_asked
from tests.unit.console.made import stats


def leader(name: str) -> Stats:
    """A node that leads, or one that passes on what its leader says."""
    return stats(id=name, cluster_role="leader")


def follower(leader: str) -> Stats:
    """A node that follows, as the console hears it that it has started."""
    return stats(id="own", cluster_role="follower", cluster_leader=leader)


def test_servers_that_are_alone_or_away_are_asked() -> None:
    assert are_asked([stats(id="a"), None, stats(id="b"), None]) == [True] * 4


def test_servers_that_have_no_id_are_asked() -> None:
    assert are_asked([stats(id=""), stats(id="")]) == [True, True]


def test_of_a_cluster_one_node_is_asked() -> None:
    assert are_asked([leader("x"), leader("x"), leader("y"), leader("x")]) == [True, False, True, False]
    assert are_asked([follower("a:1"), follower("a:1"), follower("b:1")]) == [True, False, True]
