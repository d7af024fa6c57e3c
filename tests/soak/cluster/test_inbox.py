"""The soak of the inbox for a moment: each of its deaths once."""

import tempfile
from pathlib import Path

import pytest

from tests.databases import is_there
from tests.servers import missing_peer
from tests.soak.cluster.deadly import POINTS
from tests.soak.cluster.inbox import Street
from tests.soak.cluster.postgres import Pair
from tests.soak.cluster.shop import MOMENTS

pytestmark = [pytest.mark.long, pytest.mark.database, pytest.mark.xdist_group("cluster")]


def test_each_order_has_its_jobs_whoever_dies() -> None:
    if not is_there():
        missing_peer("postgres")
    with tempfile.TemporaryDirectory(prefix="beanpole-") as name:
        pair = Pair(Path(name))
        try:
            street = Street(pair, Path(name), 1)

            def goes_on() -> bool:
                leaders, applications = street.leaders_died.keys(), street.applications_died().keys()
                return not street.fail_overs or leaders != {*POINTS} or applications != {*MOMENTS}

            outcome = street.work(goes_on, 0.0)
        finally:
            pair.stop()
    assert outcome.is_clean, outcome
    assert outcome.orders
