"""The examples of docs/ids.md and of examples/ids run."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.ids.process import running
from tests.e2e.ids.test_ids import check

pytestmark = pytest.mark.repository

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/ids.md").read_text()
BLOCKS = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_examples_are_good() -> None:
    for name in ("rules.toml", "config.json"):
        done = check(ROOT / "examples/ids" / name)
        assert done.returncode == 0, done.stderr


def test_configuration_and_requests_of_the_page(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(BLOCKS["toml"].replace("sqlite:///", f"sqlite:///{tmp_path}/"))
    requests = re.findall(r"`(\{\"action\".*?\})`", PAGE)
    fields = re.findall(r"with `(\"\w+\":.*?)`", PAGE)
    assert requests
    assert len(fields) == 3
    with running(tmp_path, path) as service:
        for request in requests:
            for field in ["", *fields]:
                whole = request[:-1] + ("," + field if field else "") + "}"
                assert json.loads(service.raw(whole.encode()))["code"] == 0, whole


def test_lua_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "order.lua").write_text(BLOCKS["lua"])
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname = "order"\nlua = "order.lua"\n')
    done = check(path, "--at", "0")
    assert "order: first O700101000000" in done.stdout, done.stderr
