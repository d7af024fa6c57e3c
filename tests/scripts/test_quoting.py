"""Tube names in statistics and lists: a YAML reader gives the name back, and a plain name stands there as it is."""

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beanpole.testing.world import World

NAME_BYTES = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
PLAIN = ["default", "mail", "a.b", "v1.5", "orders-created", "a/b;c", "$(x)", "+a", "_", "1-2", "nullable", "yesterday"]
TELLING = st.sampled_from("0123456789.+-_eExXoOnNyYaAfFtTrRuUlLsSiI")

names = st.one_of(st.text(NAME_BYTES, min_size=1, max_size=12), st.text(TELLING, min_size=1, max_size=6)).filter(
    lambda name: name[0] != "-"
)


def body(world: World, command: str) -> str:
    """The body of the reply to a command."""
    world.send("a", command.encode() + b"\r\n")
    head, _, text = world.output("a").decode().partition("\r\n")
    assert head == f"OK {len(text) - 2}"
    return text


@settings(max_examples=300)
@given(name=names)
@example(name="1.5")
@example(name="null")
@example(name="Yes")
@example(name="on")
@example(name="0x1f")
@example(name="017")
@example(name="1_000")
@example(name=".inf")
@example(name="+.5")
@example(name="1e3")
@example(name="1.e+3")
@example(name="2001-01-01")
def test_name_survives_yaml(name: str) -> None:
    world = World()
    world.connect("a")
    world.send("a", f"use {name}\r\nput 0 0 1 0\r\n\r\n".encode())
    world.output("a")
    assert yaml.safe_load(body(world, f"stats-tube {name}"))["name"] == name
    assert yaml.safe_load(body(world, "stats-job 1"))["tube"] == name
    assert yaml.safe_load(body(world, "list-tubes")) == list(dict.fromkeys(["default", name]))


@pytest.mark.parametrize("name", PLAIN)
def test_plain_name_is_not_quoted(name: str) -> None:
    world = World()
    world.connect("a")
    world.send("a", f"use {name}\r\n".encode())
    world.output("a")
    assert f"\nname: {name}\n" in body(world, f"stats-tube {name}")
    assert f"\n- {name}\n" in body(world, "list-tubes")
