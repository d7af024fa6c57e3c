"""The way back to the original: it goes on above all that we have given, and what can't go back is said."""

import re
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beanpole_ids.config import load
from beanpole_ids.hand import Mark
from beanpole_ids.original.table import folded, script
from beanpole_ids.rules.rule import Rule
from beanpole_ids.rules.sequence import Key

DAY_S = 1_795_478_400
"""A midnight of UTC."""

RULES = """
offset = 0
[[rule]]
name = "day"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:04}}"
cycle = "day"
minimum = {minimum}
[[rule]]
name = "plain"
template = "{{counter:012}}"
[[rule]]
name = "row"
kind = "snowflake"
"""


@cache
def rules(minimum: int = 0) -> Mapping[str, Rule]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rules.toml"
        path.write_text(RULES.format(minimum=minimum))
        return load(path).rules


def rows(text: str) -> list[tuple[int, int, int]]:
    """The rows of a script: node, counter, time."""
    found = re.findall(r"^\((\d+), (\d+), (\d+), ", text, re.MULTILINE)
    return [(int(node), int(counter), int(time_s)) for node, counter, time_s in found]


@given(reserved=st.integers(-1, 9000), step=st.integers(1, 20), minimum=st.integers(0, 50))
def test_next_number_of_each_node_is_above_ours(reserved: int, step: int, minimum: int) -> None:
    found = {Key(b"day", b"a"): Mark(DAY_S, max(reserved, minimum - 1), DAY_S + 7, "day")}
    text, refused = script(found, rules(minimum), step, DAY_S)
    assert not refused
    made = rows(text)
    assert [node for node, _, _ in made] == list(range(step))
    for node, counter, time_s in made:
        follows = counter + step  # what the original does
        assert max(reserved, minimum - 1) < follows <= max(reserved, minimum) + 2 * step
        assert (follows - minimum - node) % step == 0
        assert time_s == DAY_S + 7


@pytest.mark.parametrize(
    ("rule", "app", "reserved", "reason"),
    [
        (b"gone", b"a", 5, "not in the configuration"),
        (b"row", b"", 5, "has a kind"),
        (b"day", b"a", 9999, "no number is left up to 9999"),
        (b"plain", b"a", 2**31 - 9, "counts to 2147483647"),
        (b"day", b"a" * 65, 5, "could never save"),
        (b"day", "😀".encode(), 5, "could never save"),
        (b"day", b"x\\", 5, "could never save"),
        (b"day", b"\xff", 5, "not UTF-8"),
    ],
)
def test_what_can_not_go_back_is_said(rule: bytes, app: bytes, reserved: int, reason: str) -> None:
    key, other = Key(rule, app), Key(b"day", b"other")
    found = {key: Mark(DAY_S, reserved, DAY_S, "day"), other: Mark(DAY_S, 5, DAY_S, "day")}
    text, refused = script(found, rules(), 1, DAY_S + 60)
    assert rows(text) == [(0, 5, DAY_S)]
    assert list(refused) == [key]
    assert reason in str(refused[key])


def test_exhausted_cycle_that_is_over_can_go_back() -> None:
    found = {Key(b"day", b"a"): Mark(DAY_S, 9999, DAY_S + 5, "day")}
    assert not script(found, rules(), 1, DAY_S + 86_400)[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Key(b"day", b"Case"), Key(b"day", b"case")),
        (Key(b"day", b"a"), Key(b"day", b"a ")),
        (Key(b"day", "é".encode()), Key(b"day", b"e")),
        (Key(b"a", b"b_c"), Key(b"a_b", b"c")),
    ],
)
def test_counters_that_the_original_takes_for_one(one: Key, other: Key) -> None:
    assert folded(one) == folded(other)
    mark = Mark(DAY_S, 5, DAY_S, "day")
    text, refused = script({one: mark, other: mark, Key(b"day", b"z"): mark}, rules(), 1, DAY_S)
    assert set(refused) == {one, other}
    assert rows(text) == [(0, 5, DAY_S)]


def test_names_are_no_sql() -> None:
    found = {Key(b"day", b"'; DROP TABLE counter; --"): Mark(DAY_S, 5, DAY_S, "day")}
    text, _ = script(found, rules(), 1, DAY_S)
    assert "DROP" not in text
    assert f"CONVERT(X'{next(iter(found)).app.hex()}' USING utf8)" in text
