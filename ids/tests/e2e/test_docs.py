"""The examples of docs and of examples run."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beanpole_ids import limits
from beanpole_ids.cli.main import main
from beanpole_ids.config import load
from beanpole_ids.rules.limit import MEANINGS
from beanpole_ids.rules.rule import preview
from tests.e2e.process import running

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parents[2]
GUIDE, RULES, WIRE = ((ROOT / "docs" / name).read_text() for name in ("index.md", "rules.md", "wire.md"))
NOON_S = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp())


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_examples_are_good() -> None:
    for name in ("rules.toml", "config.json"):
        assert main(["check", str(ROOT / "examples" / name)]) == 0


def test_configuration_and_requests_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    text = blocks(GUIDE, "toml")[0]
    assert "127.0.0.1:11310" in text, "the address of the page's other examples"
    path.write_text(text.replace(":11310", ":0").replace("sqlite:///", f"sqlite:///{tmp_path}/"))
    requests = re.findall(r"`(\{\"action\".*?\})`", WIRE)
    fields = re.findall(r"with `(\"\w+\":.*?)`", WIRE)
    assert requests
    assert len(fields) == 3
    with running(tmp_path, path) as service:
        for request in requests:
            for field in ["", *fields]:
                whole = request[:-1] + ("," + field if field else "") + "}"
                assert json.loads(service.raw(whole.encode()))["code"] == 0, whole


def test_limits_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(next(each for each in blocks(GUIDE, "toml") if "[[limit]]" in each))
    config = load(path)
    assert config.rules["invoice"].apps == frozenset({"shop", "backoffice"})
    assert [(each.rule, each.app) for each in config.limits] == [(None, "*"), ("invoice", "shop")]


def test_lua_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "order.lua").write_text(blocks(RULES, "lua")[0])
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname = "order"\nlua = "order.lua"\n')
    assert main(["check", str(path), "--at", "0"]) == 0
    assert "order: first O700101000000" in capsys.readouterr().out


def test_cookbook(tmp_path: Path) -> None:
    """The comment after a rule is its first number."""
    recipes = blocks(RULES, "toml")
    assert len(recipes) > 8
    for number, recipe in enumerate(recipes):
        path = tmp_path / f"{number}.toml"
        path.write_text(f"offset = 0\n{recipe}")
        shown = re.findall(r"^\[\[rule\]\] +# (\S+)$", recipe, re.MULTILINE)
        made = [preview(rule, NOON_S)["first"] for rule in load(path).rules.values()]
        assert len(shown) == len(made)
        for expected, first in zip(shown, made, strict=True):
            assert first == expected or (expected.endswith("...") and first.startswith(expected[:-3])), recipe


def test_what_check_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, *shown = blocks(RULES, "text")[0].splitlines()
    path = tmp_path / "rules.toml"
    path.write_text(blocks(GUIDE, "toml")[0].replace("Europe/Berlin", "UTC").replace("step = 2", "step = 1"))
    assert main(["check", str(path), *command.split()[4:]]) == 0
    assert capsys.readouterr().out.splitlines() == shown


def test_every_key_of_a_rule_is_described() -> None:
    source = "".join(
        (ROOT / "src/beanpole_ids/rules" / name).read_text() for name in ("config.py", "reader.py", "limit.py")
    )
    keys = set(re.findall(r'(?:table\.(?:take|count|optional|rest\.pop)\(|read_cycle\(table, )"(\w+)"', source)) | set(
        MEANINGS
    )
    assert {"template", "reserve_s", "listen", "cycle", "epoch"} <= keys
    lacking = {key for key in keys if f"`{key}`" not in GUIDE + RULES}
    assert lacking <= {"rule", "http", "limit"}, lacking


def test_every_documented_limit_has_its_value() -> None:
    page = (ROOT / "docs/limits.md").read_text()
    documented = dict(re.findall(r"^\| `([A-Z_]+)` \| ([\d.]+) \|", page, re.MULTILINE))
    actual = {name: str(value) for name, value in vars(limits).items() if name.isupper()}
    wrong = {name: value for name, value in documented.items() if actual.get(name) != value}
    assert documented
    assert not wrong, "repair the table of docs/limits.md"
