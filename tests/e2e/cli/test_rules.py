"""`beanpole rules`: one pattern at a time, and a file of them, of which a wrong line changes nothing."""

from collections.abc import Callable, Iterator, Sized
from pathlib import Path

import pytest

from beanpole import Client
from beanpole.protocol.rules import RULES
from tests.e2e.cli.conftest import Cli, run
from tests.e2e.cli.cutting import cut_at
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has rules; each test drops them all in the end."""
    with beanpole_server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client[bytes]]:
    """A client that drops all rules in the end."""
    with Client((HOST, server.port), None) as made:
        yield made
        for each in made.list_rules():
            made.drop_rules(each.pattern)


def there(client: Client[bytes]) -> dict[str, str]:
    return {each.pattern: each.text for each in client.list_rules()}


def test_help_names_every_rule() -> None:
    text = run("rules", "--help").out.decode()
    for name in RULES:
        assert f"\n    {name}: " in text


def test_rules_of_a_pattern(cli: Cli, client: Client[bytes]) -> None:
    assert cli("rules", "set", "mail-*", "attempts: 5", "backoff=1 factor 3").lines == ["rules of mail-* set"]
    assert cli("rules", "set", "--json", "a", given=b"attempts: 7\n").objects == [{"pattern": "a", "result": "set"}]
    assert cli("rules", "set", "b", given=b"").lines[0].startswith("rules of b set: there are none")
    assert cli("rules", "drop", "b").lines == ["rules of b dropped"]
    assert cli("rules", "show", "mail-x").lines == ["[mail-*]", "attempts: 5", "backoff: 1 factor 3"]
    assert cli("rules", "show", "a", "--json").objects == [{"pattern": "a", "rules": {"attempts": "7"}}]
    assert cli("rules", "show", "other", code=2).err == "beanpole: no rules apply to other\n"
    assert cli("rules", "list").lines == ["[a]", "attempts: 7", "", "[mail-*]", "attempts: 5", "backoff: 1 factor 3"]
    done = cli("rules", "drop", "none", "a", code=2)
    assert (done.lines, done.err) == (["rules of a dropped"], "beanpole: no rules are set for none\n")
    assert [each["pattern"] for each in cli("rules", "list", "--json").objects] == ["mail-*"]
    assert there(client) == {"mail-*": "attempts: 5\nbackoff: 1 factor 3\n"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set", "a b", "attempts: 5"], "a tube's name has 1 to 200 letters, digits and"),
        (["set", "a", "attempts: 5", "backof: 1"], "line 2: there is no rule 'backof' (see beanpole rules --help)"),
        (["set", "a", "attempts: many"], "line 1: attempts: a whole number"),
        (["show", "a*"], "a* is a pattern, not a tube; beanpole rules list"),
        (["show", "a b"], "letters"),
        (["drop", "**"], "a tube's name has 1 to 200 letters"),
    ],
)
def test_what_is_wrong_is_named(cli: Cli, client: Client[bytes], arguments: list[str], sentence: str) -> None:
    assert sentence in cli("rules", *arguments, code=5).err
    assert there(client) == {}


FILE = """
# retries for all kinds of mail
[mail-*]
attempts: 5
backoff: 1.500
# who dies goes there
dead: graveyard

[plain]

[*]
  attempts: 3
"""


def test_a_file_of_rules(cli: Cli, client: Client[bytes], tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text(FILE)
    client.set_rules("mail-*", "attempts: 4\ndead: graveyard")
    client.set_rules("old", "attempts: 1")
    before = there(client)
    shown = ["  [mail-*]", "- attempts: 4", "+ attempts: 5", "+ backoff: 1.5", "  dead: graveyard"]
    shown += ["+ [plain]", "+ [*]", "+ attempts: 3"]
    dry = cli("rules", "apply", file, "--dry-run")
    assert sorted(dry.lines) == sorted(shown)
    assert dry.err == "beanpole: nothing was changed: this was a dry run\n"
    assert there(client) == before
    assert cli("rules", "apply", "-", given=FILE.encode()).lines == dry.lines
    wanted = {"mail-*": "attempts: 5\ndead: graveyard\nbackoff: 1.5\n", "plain": "", "*": "attempts: 3\n"}
    assert there(client) == wanted | {"old": "attempts: 1\n"}
    assert cli("rules", "apply", file).err == "beanpole: nothing to change\n"
    pruned = cli("rules", "apply", file, "--prune", "--json").objects
    assert pruned == [{"pattern": "old", "before": "attempts: 1\n", "after": None}]
    assert there(client) == wanted
    file.write_bytes(cli("rules", "list").out)
    assert cli("rules", "apply", file, "--prune").lines == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("attempts: 5\n", ":1: a pattern in brackets is wanted above the rules"),
        (
            "[a]\nattempts: 5\n[b]\n\n# c\nbackof: 1\n",
            ":6: there is no rule 'backof' (see beanpole rules --help); nothing",
        ),
        ("[a]\nattempts: 5\n[b]\nattempts: x\n", ":4: attempts: a whole number from 1 to"),
        ("[a]\n[b]\n[a]\n", ":3: [a] is there twice"),
        ("[a]\nattempts: 5\n[a b]\n", ":3: a tube's name has 1 to 200 letters, digits and"),
        (
            "[a]\nattempts: 5\n[b]\n" + "\n".join(f"dead: {'x' * 190}" for _ in range(30)),
            ":3: rules have 4096 bytes at most",
        ),
        ("[a]\nattempts: 5\n[b]\ndead: \xff\n", ":4: dead: a tube's name has 1 to 200 letters"),
    ],
)
def test_a_file_with_one_wrong_line_changes_nothing(
    cli: Cli, client: Client[bytes], tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "rules"
    file.write_bytes(text.encode("latin-1"))
    for flags in ([], ["--dry-run"]):
        err = cli("rules", "apply", file, *flags, code=5).err
        assert err.startswith(f"beanpole: {file}{sentence}")
        assert err.endswith("; nothing was changed\n")
    assert there(client) == {}


def apply_in_part(cli: Cli, verb: str, file: Path, there: Callable[[], Sized]) -> tuple[int, str]:
    """Applies a file of four sections that the connection cuts short, then all of it; what was there, and was said."""
    with cut_at(cli.server, 5, executed=False) as cut:
        done = Cli(cli.server)  # the same server, through what is cut
        done.url = cut.url
        err = done(verb, "apply", file, code=4).err
    made = len(there())
    assert 0 < made < 4
    assert len(cli(verb, "apply", file).lines) == 2 * (4 - made)
    assert len(there()) == 4
    return made, err


def test_a_file_that_is_applied_in_part_says_so(cli: Cli, client: Client[bytes], tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("".join(f"[t{number}]\nattempts: 5\n" for number in range(4)))
    made, err = apply_in_part(cli, "rules", file, lambda: there(client))
    assert f"; {made} of 4 changes made; call it again to make the rest" in err


def test_a_server_without_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("[a]\nattempts: 5\n")
    with beanstalkd_server() as server:
        for arguments in (["set", "a", "attempts: 5"], ["show", "a"], ["list"], ["drop", "a"], ["apply", file]):
            assert "the server does not support " in Cli(server)("rules", *arguments, code=1).err
