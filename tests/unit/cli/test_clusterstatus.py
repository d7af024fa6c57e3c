"""What `beanpole cluster status` warns of."""

from dataclasses import replace

import pytest

from beanpole.cli.clusterstatus import clocks_of, unreached_of
from beanpole.log.postgres.rows import NOWHERE
from beanpole.log.postgres.store import FOLLOWER, NodeState


def node(name: str, ahead_s: float | None, zones: str = "2025b") -> NodeState:
    """A node whose clock is ahead."""
    wall_s = None if ahead_s is None else 1e9 + ahead_s
    return NodeState(
        name,
        "",
        FOLLOWER,
        1,
        NOWHERE,
        "",
        5,
        "",
        reaches_leader=True,
        writer=b"",
        wall_s=wall_s,
        zones=zones,
        seen_s=1e9,
    )


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([], ""),
        ([node("a", None, ""), node("b", 900.0)], ""),
        ([node("a", -0.5), node("b", 0.5)], ""),
        ([node("a", -0.5), node("b", 4.5), node("c", 0)], "b is 5.0 s ahead of that of a"),
        ([node("a", 0), node("b", 0, "2024a"), node("c", 0)], "2024a on b; 2025b on a, c"),
        ([node("a", 0), node("b", 0, "")], "none on b; 2025b on a"),
    ],
)
def test_clocks_and_zone_data_that_differ(nodes: list[NodeState], found: str) -> None:
    warnings = clocks_of(nodes)
    assert len(warnings) == bool(found)
    assert found in "".join(warnings)


def test_why_a_node_does_not_reach_the_leader() -> None:
    nodes = [replace(node(name, 0), reaches_leader=name == "a") for name in "abc"]
    said = unreached_of(nodes, {"a": "an old reason", "b": "the server's certificate is for other names"})
    assert [each.rpartition(": ")[::2] for each in said] == [
        ("b can't reach the leader, so its clients are not served", "the server's certificate is for other names"),
        ("c can't reach the leader, so its clients are not served", "its log says why"),
    ]
