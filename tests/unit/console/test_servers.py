"""What is said of servers: whether each is well, and which of several are asked for jobs."""

import pytest

from beanpole.client import Stats
from beanpole.console.health import CHECKS
from beanpole.console.servers import are_asked
from tests.unit.console.made import stats


@pytest.mark.parametrize(
    ("path", "said", "holds"),
    [
        ("/health", {}, True),
        ("/health", {"draining": "true", "log_full": "true"}, True),
        ("/ready", {}, True),
        ("/ready", {"draining": "true"}, False),
        ("/ready", {"log_full": "true"}, False),
        ("/ready", {"log_full": "false"}, True),
        ("/ready", {"cluster_role": "leader", "cluster_epoch": 3}, True),
        ("/ready", {"cluster_role": "leader", "draining": "true"}, False),
        ("/ready", {"cluster_role": "follower", "cluster_leader": "10.0.0.1:11300"}, True),
        ("/ready", {"cluster_role": "follower", "cluster_leader": ""}, False),
        ("/leader", {}, True),
        ("/leader", {"cluster_role": "leader"}, True),
        ("/leader", {"cluster_role": "follower", "cluster_leader": "10.0.0.1:11300"}, False),
        ("/leader", {"cluster_role": "reading"}, False),
    ],
)
def test_a_check_holds_or_says_why_not(path: str, said: dict[str, "int | str"], holds: bool) -> None:
    verdict, reason = CHECKS[path](stats(**said))
    assert verdict is holds
    assert reason


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
