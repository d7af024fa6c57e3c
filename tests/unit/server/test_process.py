"""What a process leaves and says for others."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.process import ProcessFacts, notify_systemd, remove_ready_file, write_ready_file
from beanpole.server.turn import Turn


def test_link_in_the_place_of_the_unfinished_ready_file_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    ready = tmp_path / "ready"
    ready.with_name("ready.unfinished").symlink_to(precious)
    write_ready_file(ready, ["tcp:127.0.0.1:1"])
    assert ready.read_text() == "tcp:127.0.0.1:1\n"
    assert not ready.is_symlink()
    assert precious.read_text() == "precious"


def test_ready_file_of_another_server_is_not_removed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    write_ready_file(ready, ["tcp:127.0.0.1:1"])
    remove_ready_file(ready, ["tcp:127.0.0.1:2"])
    assert ready.exists()
    remove_ready_file(ready, ["tcp:127.0.0.1:1"])
    assert not ready.exists()


def test_notify_socket_that_is_gone_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "missing"))
    notify_systemd("READY=1")


def test_facts_are_found_once_a_turn() -> None:
    asked = 0

    def part() -> Mapping[str, str]:
        nonlocal asked
        asked += 1
        return {"asked": str(asked)}

    log = Log()
    facts = ProcessFacts()
    facts.parts.append(part)
    facts.turn = Turn(Engine(now_ns=1, records=log.records), log)
    assert [facts()["asked"] for _ in range(2)] == ["1", "1"]
    facts.turn.run(1)
    assert [facts()["asked"] for _ in range(2)] == ["2", "2"]
