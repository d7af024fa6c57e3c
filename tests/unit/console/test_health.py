"""What the checks say of a server."""

import pytest

from beanpole.console.health import CHECKS
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
