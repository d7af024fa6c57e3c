"""Rules change nothing for tubes that have none, and no byte for those that have some whose limits are not reached."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from beanpole.protocol.rules import RULES
from tests.differential.side import OBSERVER
from tests.differential.test_differential import SEEDS, Comparison, converse
from tests.servers import beanpole_server, beanstalkd_version, missing_peer

TIGHT = {
    "attempts": "1",
    "dead": "dead",
    "backoff": "10",
    "expire": "0.001",
    "unique": "body",
    "jobs-max": "1",
    "bytes-max": "1",
    "rate": "1/h",
    "concurrency": "1",
    "breaker": "1% of 1 in 60s",
    "groups": "fair split",
    "group-concurrency": "1",
    "group-rate": "1/h",
    "group-order": "strict",
    "group-jobs-max": "1",
    "group-weight": "g=2",
}
"""Rules that every conversation would notice, for tubes that none has."""

LOOSE = {
    "attempts": "4294967295",
    "dead": "dead",
    "expire": "4000000000",
    "jobs-max": "4294967295",
    "bytes-max": "4611686018427387904",
    "concurrency": "4294967295",
    "groups": "fair",
    "group-concurrency": "4294967295",
    "group-jobs-max": "4294967295",
    "group-weight": "g=2",
}
"""Rules that no conversation comes to, for all tubes. The others can't be so: a bucket is empty at first."""


def rules(values: dict[str, str]) -> bytes:
    """Rules as text."""
    return "\n".join(f"{name}: {value}" for name, value in values.items()).encode()


@pytest.fixture(params=[(b"nobody-*", TIGHT), (b"*", LOOSE)], ids=["elsewhere", "loose"])
def comparison(request: pytest.FixtureRequest) -> Iterator[Comparison]:
    """All sides; Beanpole has rules."""
    if beanstalkd_version() != "1.12":
        missing_peer("beanstalkd 1.12")
    pattern, values = request.param
    text = rules(values)
    with ExitStack() as stack:
        compared = Comparison(stack, beanpole_server)
        for side in compared.sides[:2]:
            side.send(OBSERVER, b"set-rules %b %d\r\n%b\r\n" % (pattern, len(text), text))
        compared.servers[0].wait_for({OBSERVER: 1}, set())
        for side in compared.sides[:2]:
            assert side.received[OBSERVER] == b"RULES_SET\r\n"
            side.received[OBSERVER] = b""
        yield compared


def test_beanpole_with_rules_answers_as_beanstalkd(comparison: Comparison) -> None:
    converse(comparison, SEEDS[::4])


def test_every_rule_is_among_them() -> None:
    assert set(TIGHT) == set(RULES)
