"""What the configuration says of several processes: each is a node of its own."""

from pathlib import Path

import pytest

from beanpole_ids.config import load
from beanpole_ids.errors import RuleError

RULE = '\n[[rule]]\nname = "r"\ntemplate = "{counter:03}"\n'


@pytest.mark.parametrize(
    ("node", "process", "expected"), [("", 0, (3, 0)), ("", 2, (3, 2)), ("step = 2\noffset = 1\n", 2, (6, 5))]
)
def test_each_process_has_numbers_of_its_own(
    tmp_path: Path, node: str, process: int, expected: tuple[int, int]
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'processes = 3\n{node}[http]\nlisten = "127.0.0.1:99"{RULE}')
    config = load(path, process=process)
    shape = config.rules["r"].counting.shape
    assert (config.step, config.offset) == (shape.step, shape.offset) == expected
    assert config.http is not None
    assert (config.http.host, config.http.port) == ("127.0.0.1", 99 + process)


@pytest.mark.repository
def test_example_may_have_several_processes(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples/rules.toml"
    path = tmp_path / "rules.toml"
    path.write_text("processes = 2\n" + example.read_text())
    first, second = (load(path, process=process).rules["invoice"].counting.first(0) for process in range(2))
    assert {first, second} == {1, 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("processes = 0", "processes must be 1 to 64, not 0"),
        ("processes = 65", "processes must be 1 to 64, not 65"),
        ('processes = 2\noffset = "lease"', "processes share the numbers of one offset"),
        ("processes = 2\nstep = 3\noffset = 3", "offset must be 0 to 2 with step 3, not 3"),
        ('processes = 2\n[http]\nlisten = "127.0.0.1:65535"', "process 1 would have port 65536"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text + RULE)
    with pytest.raises(RuleError, match=reason):
        load(path, process=1)


def test_numbers_of_nodes_must_fit_into_a_snowflake(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('processes = 3\noffset = 0\n[[rule]]\nname = "r"\nkind = "snowflake"\nnode_bits = 1\n')
    with pytest.raises(RuleError, match="3 nodes need more than 1 node_bits"):
        load(path)
