"""What a client says about the rules of tubes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from beanpole import (
    ArgumentError,
    Backoff,
    NotFoundError,
    Rules,
    RulesError,
    UnexpectedReplyError,
    UnsupportedError,
)
from tests.unit.client.peer import Maker, has, ok

COMMANDS = ("set-rules", "get-rules", "list-rules", "list-rules.after", "drop-rules")
SERVED = ("rule.attempts", "rule.backoff", "rule.dead", "rule.jobs-max")


def test_rules_are_lines_or_a_dictionary(make: Maker) -> None:
    script = [
        has(*COMMANDS, *SERVED),
        (b"set-rules mail 39\r\nattempts: 5\nbackoff: 1 factor 2\ndead: m\r\n", b"RULES_SET\r\n"),
        (b"set-rules mail-* 27\r\nattempts: 5\njobs-max: 1000\n\r\n", b"RULES_SET\r\n"),
        (b"set-rules * 11\r\nattempts: 1\r\n", b"BAD_RULES 1 attempts: too few\r\n"),
        (b"drop-rules mail-*\r\n", b"DROPPED\r\n"),
        (b"drop-rules *\r\n", b"NOT_FOUND\r\n"),
    ]
    with make.to_peer(script) as client:
        client.set_rules("mail", "attempts: 5\nbackoff: 1 factor 2\ndead: m")
        client.set_rules("mail-*", {"attempts": 5, "jobs-max": 1000})
        with pytest.raises(RulesError) as caught:
            client.set_rules("*", "attempts: 1")
        assert (caught.value.line, caught.value.why) == (1, "attempts: too few")
        client.drop_rules("mail-*")
        with pytest.raises(NotFoundError):
            client.drop_rules("*")


def test_a_rule_that_the_server_lacks_is_named_and_none_is_set(make: Maker) -> None:
    with make.to_peer([has(*COMMANDS, *SERVED)]) as client:
        with pytest.raises(UnsupportedError) as caught:
            client.set_rules("mail", "attempts: 5\nrate: 10/s\n")
        assert caught.value.feature == "rule.rate"


def test_rules_as_the_server_says_them(make: Maker) -> None:
    first = b'---\n- pattern: "*"\n  jobs-max: 5\n- pattern: mail\n  attempts: 5\n  dead: "m"\n'
    script = [
        has(*COMMANDS),
        (b"get-rules mail-1\r\n", ok(b"---\npattern: mail-*\nattempts: 5\nbackoff: 1 factor 3\n")),
        (b"get-rules other\r\n", b"NOT_FOUND\r\n"),
        (b"list-rules\r\n", ok(first)),
        (b"list-rules after=mail\r\n", ok(b"---\n- pattern: mail-*\n  attempts: 6\n")),
        (b"list-rules after=mail-*\r\n", ok(b"---\n")),
    ]
    with make.to_peer(script) as client:
        rules = client.get_rules("mail-1")
        assert (rules.pattern, dict(rules)) == ("mail-*", {"attempts": "5", "backoff": "1 factor 3"})
        assert rules.text == "attempts: 5\nbackoff: 1 factor 3\n"
        with pytest.raises(NotFoundError):
            client.get_rules("other")
        found = client.list_rules()
        assert [(each.pattern, dict(each)) for each in found] == [
            ("*", {"jobs-max": "5"}),
            ("mail", {"attempts": "5", "dead": "m"}),
            ("mail-*", {"attempts": "6"}),
        ]


@pytest.mark.parametrize("text", [b"---\nattempts: 5\n", b"---\npattern: x\nattempts\n", b"x\n"])
def test_what_are_no_rules(text: bytes) -> None:
    with pytest.raises(UnexpectedReplyError):
        Rules.parse(text)


def test_what_is_no_list_of_rules() -> None:
    with pytest.raises(UnexpectedReplyError):
        Rules.parse_many(b"---\npattern: x\n")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda client: client.set_rules("", "attempts: 5"), ArgumentError),
        (lambda client: client.set_rules("a*b", "attempts: 5"), ArgumentError),
        (lambda client: client.set_rules("-*", "attempts: 5"), ArgumentError),
        (lambda client: client.set_rules(5, "attempts: 5"), ArgumentError),
        (lambda client: client.set_rules("a", "attempts: 5\nbackof: 1"), RulesError),
        (lambda client: client.set_rules("a", {"attempts": 0}), RulesError),
        (lambda client: client.set_rules("a", "x" * 4097), RulesError),
        (lambda client: client.get_rules("mail-*"), ArgumentError),
        (lambda client: client.drop_rules("**"), ArgumentError),
    ],
)
def test_wrong_rules_are_named_before_anything_is_sent(
    make: Maker, call: Callable[[Any], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(make(("127.0.0.1", 1), backoff=Backoff(attempts=1)))


def test_the_error_of_rules_can_be_copied() -> None:
    error = copy.copy(RulesError(3, "why"))
    assert (error.line, error.why, str(error)) == (3, "why", "line 3: why")
    assert str(RulesError(0, "too many")) == "too many"
