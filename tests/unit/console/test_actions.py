"""Actions as fields say them, and fields as actions make them."""

import pytest

from beanpole.console.actions.action import (
    Action,
    Fields,
    Filter,
    Given,
    Group,
    Ids,
    Named,
    Pattern,
    RefusedError,
    Tube,
    confirmation,
    fields_of,
    read_action,
)

BASE = {"server": ["here"]}

READ: list[tuple[dict[str, list[str]], Action]] = [
    ({"verb": ["delete"], "id": ["3", "1", "3"]}, Action("delete", "here", Ids((3, 1)))),
    (
        {"verb": ["kick"], "tube": ["a"], "state": ["buried"], "text": ["é <b>"]},
        Action("kick", "here", Filter("a", "buried", "é <b>")),
    ),
    ({"verb": ["redrive"], "tube": ["a"], "error": ["E: x"]}, Action("redrive", "here", Group("a", "E: x"))),
    (
        {"verb": ["change"], "id": ["1"], "priority": ["0"], "delay": ["1.250"], "ttr": [""], "body": ["kept"]},
        Action("change", "here", Ids((1,)), Given(priority=0, delay=1.25)),
    ),
    (
        {"verb": ["change"], "id": ["1"], "body": ["a\r\nb"], "with_body": ["1"]},
        Action("change", "here", Ids((1,)), Given(body=b"a\nb")),
    ),
    (
        {"verb": ["clear"], "tube": ["a"], "state": ["ready", "buried"]},
        Action("clear", "here", Tube("a"), Given(states=("ready", "buried"))),
    ),
    ({"verb": ["put"], "tube": ["a"], "body": [""]}, Action("put", "here", Tube("a"), Given(body=b""))),
    ({"verb": ["pause"], "tube": ["a"], "seconds": ["0"]}, Action("pause", "here", Tube("a"), Given(seconds=0))),
    (
        {"verb": ["set-rules"], "pattern": ["a*"], "rules": ["attempts: 1\r\n"]},
        Action("set-rules", "here", Pattern("a*"), Given(rules="attempts: 1\n")),
    ),
    (
        {"verb": ["set-schedule"], "schedule": ["a"], "lines": ["every: 5\r\ntube: b"], "body": ["x\r\ny"]},
        Action("set-schedule", "here", Named("a"), Given(lines="every: 5\ntube: b", body=b"x\ny")),
    ),
    (
        {"verb": ["set-schedule"], "schedule": ["a"], "lines": ["every: 5"]},
        Action("set-schedule", "here", Named("a"), Given(lines="every: 5")),
    ),
]


@pytest.mark.parametrize(("fields", "action"), READ)
def test_reads_and_writes_the_same(fields: dict[str, list[str]], action: Action) -> None:
    assert read_action(BASE | fields) == action
    again: dict[str, list[str]] = {}
    for name, value in fields_of(action):
        again.setdefault(name, []).append(value)
    assert read_action(again) == action


def test_a_form_with_both_says_which_jobs_it_means() -> None:
    fields = BASE | {"verb": ["delete"], "tube": ["a"], "state": ["ready"], "id": ["1"]}
    assert read_action(fields | {"scope": ["all"]}).target == Filter("a", "ready")
    assert read_action(fields | {"scope": ["chosen"]}).target == Ids((1,))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "there is no action ''"),
        ({"verb": ["delete", "kick"]}, "verb is there 2 times"),
        ({"verb": ["delete"], "id": ["-1"]}, "id must be a whole number from 1"),
        ({"verb": ["delete"], "id": ["²"]}, "id must be a whole number"),
        ({"verb": ["delete"], "id": ["0"]}, "id must be a whole number from 1"),
        ({"verb": ["delete"], "tube": ["a b"], "state": ["ready"]}, "tube: "),
        ({"verb": ["delete"], "tube": ["a"], "state": ["done"]}, "state must be ready or"),
        ({"verb": ["delete"], "scope": ["chosen"], "tube": ["a"], "state": ["ready"]}, "no job was chosen"),
        ({"verb": ["move"], "id": ["1"], "to": ["-a"]}, "to: "),
        ({"verb": ["snooze"], "id": ["1"], "delay": ["1.2345"]}, "delay must be seconds"),
        ({"verb": ["snooze"], "id": ["1"], "delay": ["4294967296"]}, "delay must be seconds"),
        ({"verb": ["snooze"], "id": ["1"], "delay": ["nan"]}, "delay must be seconds"),
        ({"verb": ["put"], "tube": ["a"], "ttr": ["1e3"]}, "ttr must be a whole number"),
        ({"verb": ["put"], "tube": ["a"], "taken": ["steal"]}, "taken must be keep or replace"),
        ({"verb": ["set-rules"], "pattern": ["*a"]}, "pattern: "),
    ],
)
def test_says_what_is_wrong(fields: Fields, why: str) -> None:
    with pytest.raises(RefusedError) as refused:
        read_action(fields)
    assert str(refused.value).startswith(why)


def test_a_number_is_typed_as_the_page_writes_it() -> None:
    assert confirmation({"highest": ["7"], "typed": ["1\u202f001"]}) == (7, 1_001)
    assert confirmation({"typed": ["1,001"]}) == (None, 1_001)
    assert confirmation({}) == (None, None)
    with pytest.raises(RefusedError):
        confirmation({"typed": ["all"]})
