"""Numbers that begin with the time, from a process that is killed and started again: they grow all the same."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from beanpole_ids import limits
from tests.e2e.process import running

RULES = """
listen = "127.0.0.1:0"
database = "sqlite:///{folder}/ids.db"
offset = 0

[[rule]]
name = "r"
kind = "{kind}"
"""


@pytest.mark.parametrize("kind", ["snowflake", "uuid7", "ulid"])
def test_kill_and_stop(tmp_path: Path, kind: str) -> None:
    config = tmp_path / "rules.toml"
    config.write_text(RULES.format(folder=tmp_path, kind=kind))
    numbers: list[str] = []
    for run in range(4):
        with running(tmp_path, config) as service:
            for app in ("a", "b"):
                numbers.append(service.ask(rule_name="r", app_name=app)["data"])
                numbers += service.ask(rule_name="r", app_name=app, count=1000)["data"]
            if run % 2:
                assert service.end() == 0
            else:
                service.popen.kill()
                service.popen.wait()
    order = [int(each) for each in numbers] if kind == "snowflake" else numbers
    assert len(set(order)) == 4 * 2002
    assert order == sorted(order)
    if kind == "snowflake":
        shown_s = (int(numbers[-1]) >> 22) / 1000 + datetime(2020, 1, 1, tzinfo=UTC).timestamp()
        assert shown_s < time.time() + limits.RESERVE_S_DEFAULT, "crashes do not add up"
