"""Scripts on a server that others use: all that the kit plays pass there, and nobody else's job is touched."""

import re
from pathlib import Path

import pytest

from beanpole.conformance.kit import Needs, names_for, needs_of, scripts
from beanpole.conformance.names import DEFAULT, Names
from beanpole.conformance.run import Run
from beanpole.conformance.script import Script
from beanpole.testing.world import World
from tests.scripts.target import EngineTarget

TUBES = ("default", "t", "u", "a", "b", "dead")
"""Tubes of others, with names that scripts use, too."""

ALONE: dict[str, Needs] = {script.path.stem: needs_of(script) for script in scripts()}
PLAYED = [
    script for script in scripts() if not ALONE[script.path.stem].own_server and "not engine" not in script.settings
]


class VisitTarget(EngineTarget):
    """An engine that others use; the connections of a script begin in a tube of its own, as with the kit."""

    def __init__(self, world: World, names: Names) -> None:
        super().__init__(world)
        self.names = names
        self.connect = self.move_in

    def move_in(self, name: str) -> None:
        tube = self.names.tube(DEFAULT)
        self.world.connect(name)
        self.world.send(name, b"use %s\r\nwatch %s\r\nignore default\r\n" % (tube, tube))
        assert self.world.output(name) == b"USING %s\r\nWATCHING 2\r\nWATCHING 1\r\n" % tube


def crowded_world() -> World:
    """A world with jobs of others, in every state, and with keys and ids that scripts name."""
    world = World()
    world.connect("Z")
    for tube in TUBES:
        for line in (b"5 delay=0 key=k", b"5 delay=1000", b"5 pri=0", b"5 pri=0"):
            world.send("Z", b"put-job %s tube=%s\r\nother\r\n" % (line, tube.encode()))
        world.send("Z", b"watch %s\r\nreserve-many 2 0\r\n" % tube.encode())
    world.output("Z")
    world.send("Z", b"bury 3 0\r\n")
    assert world.output("Z").endswith(b"BURIED\r\n")
    return world


def census(world: World) -> str:
    """What can be seen of the jobs and tubes of others; only their ages change."""
    for tube in TUBES:
        world.send("Z", b"stats-tube %s\r\nget-rules %s\r\n" % (tube.encode(), tube.encode()))
        for state in (b"ready", b"delayed", b"reserved", b"buried"):
            world.send("Z", b"list-jobs %s %s 1000 bodies=100\r\n" % (tube.encode(), state))
    return re.sub(r"age=\S+", "age=", world.output("Z").decode())


@pytest.mark.parametrize("script", PLAYED, ids=lambda script: script.path.stem)
def test_script_passes_among_others(script: Script) -> None:
    world, names = crowded_world(), names_for(script, b"conformance-0000-")
    before = census(world)
    problem = Run(script, VisitTarget(world, names), names).outcome()
    assert problem is None, f"{problem}\nif it needs a fresh server, say so: # own server: why"
    assert census(world) == before


@pytest.mark.repository
def test_clauses_are_headings_of_the_protocol() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "protocol.md").read_text()
    headings = set(re.findall("^#+ (.*)$", page, re.MULTILINE))
    wrong = [script.path.name for script in scripts() if script.settings.get("clause") not in headings]
    assert not wrong, "say '# clause: ' and the heading of docs/protocol.md"
