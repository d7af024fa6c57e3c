"""What is said of servers: whether each is well, and which of several are asked for jobs."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beanpole.client import Stats
from beanpole.console.health import CHECKS
from beanpole.console.servers import Seen, Server, are_asked, first_seen, whole_of
from beanpole.console.settings import Settings, Source
from beanpole.console.single_flight import AwayError
from tests.unit.console.made import sample, stats
from tests.unit.console.screens.made import MadeServer


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


def test_a_node_that_follows_says_who_shows_jobs_to_users() -> None:
    async def get() -> Stats:
        return follower("a:1")

    sampler, handed_over = cast("Any", SimpleNamespace(stats=SimpleNamespace(get=get))), cast("Any", object())
    server = Server(Source("node", None), Settings((), handed_over, users=handed_over), sampler)
    with pytest.raises(AwayError, match="follows a:1"):
        asyncio.run(server.client())


def seen(name: str, *, is_shard: bool) -> Seen:
    made = MadeServer(name, sample(id=name))
    made.source = Source(name, None, is_shard=is_shard)
    return Seen(cast("Server", made), sample(id=name), made.sampler.change)


def test_of_a_map_the_whole_is_asked_unless_one_of_its_shards_is_meant() -> None:
    seens = [seen("map", is_shard=False), seen("a", is_shard=True), seen("b", is_shard=True)]
    assert first_seen(seens) == whole_of(seens) == seens[:1]
    assert first_seen(seens[1:2]) == seens[1:2]
