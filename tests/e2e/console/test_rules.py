"""The page of rules: what is set, where it is in force, and what applies to a tube."""

import json
from collections.abc import Iterator

import pytest

from beanpole.client import Client
from tests.e2e.console.process import Console, console, url_of
from tests.e2e.console.rows import rows
from tests.servers import HOST, Server, beanpole_server


@pytest.fixture(scope="module")
def one() -> Iterator[Server]:
    """A server with rules; no test changes it."""
    with beanpole_server() as running:
        with Client(f"{HOST}:{running.port}", None) as client:
            client.set_rules("*", "jobs-max: 1000")
            client.set_rules("mail-*", "attempts: 3\ndead: grave")
            client.set_rules("free", "")
            for number in range(7):
                client.put(b"x", tube=f"mail-{number}")
        yield running


def test_rules_and_where_they_are_in_force(served: Console) -> None:
    assert [row[:3] for row in rows(served.get("/rules").text)[1:]] == [
        ["*", "jobs-max: 1000", "default"],
        ["free", "none: its tubes are exempt", "no tube that is there"],
        ["mail-*", "attempts: 3 dead: grave", "mail-0 , mail-1 , mail-2 , mail-3 , mail-4 and 2 more"],
    ]
    found = [json.loads(line) for line in served.get("/rules.jsonl").text.splitlines()]
    assert [(each["pattern"], each["rules"]) for each in found] == [
        ("*", {"jobs-max": "1000"}),
        ("free", {}),
        ("mail-*", {"attempts": "3", "dead": "grave"}),
    ]
    assert len(found[2]["tubes"]) == 7


@pytest.mark.parametrize(
    ("tube", "said"),
    [
        ("mail-9", "The rules of <code>mail-*</code>."),
        ("other", "The rules of <code>*</code>."),
        ("free", "The rules of <code>free</code>, which are none."),
        ("%3Cb%3E", "No tube can be called “&lt;b&gt;”"),
    ],
)
def test_what_applies_to_a_tube(served: Console, tube: str, said: str) -> None:
    assert said in served.get(f"/rules?tube={tube}").text


def test_rules_to_be_changed_stand_in_the_form(served: Console) -> None:
    text = served.get("/rules?pattern=mail-*").text
    assert ">attempts: 3\ndead: grave\n</textarea>" in text
    assert 'name="pattern" value="mail-*"' in text
    assert "></textarea>" in served.get("/rules?pattern=%3Cb%3E").text


def test_no_rules_and_no_pattern_that_fits() -> None:
    with beanpole_server() as server, console("--url", url_of(server, "one")) as served:
        assert "No rules are set" in served.get("/rules").text
        assert "no pattern fits" in served.get("/rules?tube=mail").text


def test_beanstalkd_has_no_rules(one: Server, theirs: Server) -> None:
    with (
        console("--url", url_of(theirs, "plain")) as alone,
        console("--url", url_of(theirs, "plain"), "--url", url_of(one, "one")) as both,
    ):
        page = alone.get("/rules?tube=mail").text
        assert "needs list-rules, which this server does not have" in page
        assert "Set rules" not in page
        assert alone.get("/rules.jsonl").body == b""
        assert [row[1] for row in rows(both.get("/rules").text)[1:]] == ["one"] * 3
