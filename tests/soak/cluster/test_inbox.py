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
                if street.leaders_died and not street.fail_overs:
                    street.fail_over()
                return street.leaders_died.keys() != {*POINTS} or street.applications_died().keys() != {*MOMENTS}

            outcome = street.work(goes_on)
        finally:
            pair.stop()
    assert outcome.is_clean, outcome
    assert outcome.orders
