"""How tubes are shown: a YAML reader gives every name back as the string that it is."""

import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beanpole.engine.tube import Tube

ALPHABET = string.ascii_letters + string.digits + "-+/;.$_()"
NAMES = (
    st.text(ALPHABET, min_size=1, max_size=200)
    | st.text("0123456789.+-_eExXbo", min_size=1, max_size=12)
    | st.sampled_from(["y", "N", "yes", "No", "on", "OFF", "true", "False", "null", "Null", "~"[:0] + "none"])
).filter(lambda name: not name.startswith("-"))

ALWAYS_QUOTED = [
    "null",
    "true",
    "No",
    "1",
    "1.5",
    "+1",
    "1e3",
    "0x1f",
    "0b1",
    "0o7",
    "1_0",
    ".5",
    ".inf",
    "2001-01-01",
    "...",
]
NEVER_QUOTED = ["default", "a.b", "mail/out", "v1.2.3", "e3", "nulls", "x(1)", "a;b", "$a", "_"]


def shown(name: str) -> str:
    """A name as statistics and lists show it."""
    return Tube(name.encode(), 0).shown.decode()


@given(NAMES)
def test_shown_name_reads_as_the_name(name: str) -> None:
    assert yaml.safe_load(f"name: {shown(name)}\n") == {"name": name}
    assert yaml.safe_load(f"---\n- default\n- {shown(name)}\n") == ["default", name]
    assert shown(name) in (name, f'"{name}"')


@pytest.mark.parametrize("name", ALWAYS_QUOTED)
def test_name_that_reads_as_something_else_is_quoted(name: str) -> None:
    assert shown(name) == f'"{name}"'


@pytest.mark.parametrize("name", NEVER_QUOTED)
def test_plain_name_is_not_quoted(name: str) -> None:
    assert shown(name) == name
