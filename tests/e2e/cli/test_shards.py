"""`beanpole shards`: a map is checked, says where a tube is, and is held against what its servers have."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from beanpole import Client
from beanpole.errors import ExitCode
from tests.e2e.cli.conftest import run
from tests.servers import HOST, Server, beanpole_server

MAP = """
[shard]
a = {{ number = 0, nodes = "{host}:{one}" }}
b = {{ number = [1, 9], nodes = "{host}:{two}", weight = 3 }}
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    with beanpole_server() as one, beanpole_server() as two:
        yield one, two


@pytest.fixture
def file(tmp_path: Path, servers: tuple[Server, Server]) -> Path:
    shards = MAP.format(host=HOST, one=servers[0].port, two=servers[1].port)
    (tmp_path / "1.toml").write_text(f"epoch = 1\n{shards}\n[tubes]\nmail = 'b'\nonly = 'a'\n")
    path = tmp_path / "2.toml"
    more = "[tubes]\n'mail*' = 'a'\nonly = 'a'\nclicks = ['b', 'a']\n"
    path.write_text(f"epoch = 2\nbefore = ['1.toml']\neverywhere = ['dead']\n{shards}\n{more}")
    return path


def test_a_map_is_checked(file: Path) -> None:
    done = run("shards", "check", file)
    assert done.lines[:2] == [
        f"{file}: epoch 2; jobs may still lie as in {file.parent / '1.toml'} (epoch 1)",
        "shard\tnumber\tweight\tshare\tnodes",
    ]
    assert [each["share"] for each in run("shards", "check", file, "--json").objects] == [0.25, 0.75]
    file.write_text(file.read_text().replace("'a']", "'c']"))
    done = run("shards", "check", file)
    assert (done.code, done.err) == (ExitCode.USAGE, f"beanpole: {file}:12: clicks: there is no shard 'c'\n")


@pytest.mark.parametrize(
    ("what", "reasons"),
    [
        ("mail", {"a": "home by mail*", "b": "before, by {folder}/1.toml"}),
        ("mail-x;y", {"a": "home by mail*"}),
        ("clicks", {"b": "one of 2 homes by clicks", "a": "one of 2 homes by clicks"}),
        ("dead", {"b": "home", "a": "everywhere"}),
        ("1", {"a": "it has given out 1"}),
        (str(9 * 2**43 + 1), {"b": f"it has given out {9 * 2**43 + 1}"}),
        ("tube:1", {"b": "home"}),
    ],
)
def test_a_tube_or_an_id_is_found(file: Path, what: str, reasons: dict[str, str]) -> None:
    found = {each["shard"]: each["why"] for each in run("shards", "where", what, "--map", file, "--json").objects}
    wanted = {name: why.format(folder=file.parent) for name, why in reasons.items()}
    if "before" not in str(wanted):
        found = {name: why for name, why in found.items() if not why.startswith("before")}
    assert found == wanted


def test_an_id_of_no_shard_is_not_found(file: Path) -> None:
    done = run("shards", "where", str(2 * 2**43 + 1), "--map", file)
    assert (done.code, done.out) == (ExitCode.NOT_FOUND, b"")


def test_a_map_is_held_against_its_servers(file: Path, servers: tuple[Server, Server]) -> None:
    one, two = servers
    with Client((HOST, one.port), None) as first, Client((HOST, two.port), None) as second:
        first.put(b"x", tube="mail")
        second.put(b"x", tube="mail")
        second.put(b"x", tube="only")
        second.set_rules("mail", "attempts: 5")
        second.set_schedule("nightly", cron="0 2 * * *", tube="mail")
    (found,) = run("shards", "status", file, "--json").objects
    assert [(each["shard"], each["jobs"], each["state"]) for each in found["shards"]] == [
        ("a", 1, "ok"),
        ("b", 2, "has the number 0"),
    ]
    said = "\n".join(found["warnings"])
    for part in ("b has the number 0, and 1,9 in", "only on b", "the rules of mail", "schedule nightly is on b"):
        assert part in said
    assert found["advice"][0].startswith(f"{file.parent / '1.toml'} stays in before: mail on b")
    text = run("shards", "status", file)
    assert text.code == ExitCode.OK
    assert text.lines[0].startswith("shard\tnumber\tserver")
    assert "warning: nobody looks for the jobs of only on b" in text.lines


def test_a_shard_that_does_not_answer_is_named(file: Path, servers: tuple[Server, Server]) -> None:
    file.write_text(file.read_text().replace(f"{HOST}:{servers[1].port}", "unix:/nonexistent/socket"))
    (file.parent / "1.toml").unlink()
    file.write_text(file.read_text().replace("before = ['1.toml']", ""))
    done = run("shards", "status", file, "--json")
    assert done.code == ExitCode.NO_SERVER
    assert "/nonexistent/socket" in done.objects[0]["shards"][1]["state"]
