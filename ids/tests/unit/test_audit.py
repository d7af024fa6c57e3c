"""The audit log: what is durable is written, by day; a disk that fails or hangs stops no numbers, and is said once."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from beanpole_ids import limits
from beanpole_ids.audit import Audit, Update, reserved
from beanpole_ids.hand import Mark
from beanpole_ids.rules.sequence import Key
from tests.processes import wait_until
from tests.unit.test_service import MIDNIGHT_S, World, in_a_world

NOON_S = datetime(2026, 11, 21, 12).astimezone().timestamp()
"""Of the machine's day, by which files are named."""

UPDATE = Update("reserved", Key(b"order", b"shop"), 1_795_478_400, 0, 999)


@pytest.fixture(autouse=True)
def _patience(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a stop wait for a disk that is busy, unless the test is about one that hangs."""
    if "hangs" not in request.node.name:
        monkeypatch.setattr(limits, "AUDIT_STOP_S", 60)


class Log:
    """What the process has logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))


class Days:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(each) for each in path.read_text().splitlines() if each]


def test_line_says_all_of_an_update_in_a_file_of_its_day(tmp_path: Path) -> None:
    clock = Days()
    audit = Audit(str(tmp_path / "ids"), 3, 7, Log(), clock)
    audit.write([UPDATE, UPDATE._replace(event="given back", key=Key(b"order", b"\xff"))])
    clock.now_s += 86_400
    audit.write([UPDATE])
    audit.close()
    first, second = lines(tmp_path / "ids.20261121.log")
    assert first == {
        "time": datetime.fromtimestamp(NOON_S, UTC).isoformat(timespec="milliseconds"), "event": "reserved", "node": 3,
        "epoch": 7, "rule": "order", "app": "shop", "cycle_s": 1_795_478_400, "from": 0, "to": 999,
    }  # fmt: skip
    assert (second["event"], second["app"]) == ("given back", "\\xff")
    assert len(lines(tmp_path / "ids.20261122.log")) == 1


def test_disk_that_fails_is_said_once_and_used_again(tmp_path: Path) -> None:
    log = Log()
    audit = Audit(str(tmp_path / "later" / "ids"), 0, 1, log, Days())
    for _ in range(3):
        audit.write([UPDATE])
    wait_until(lambda: audit.lost_count == 3, "lines are lost")
    (tmp_path / "later").mkdir()
    audit.write([UPDATE])
    audit.close()
    assert [event for event, _ in log.lines] == ["audit log fails", "audit log goes on"]
    assert "No such file" in log.lines[0][1]["reason"]
    assert log.lines[1][1] == {"lost_lines": 3}
    assert len(lines(tmp_path / "later/ids.20261121.log")) == 1


def test_disk_that_hangs_holds_up_nothing(tmp_path: Path) -> None:
    """A pipe that nobody reads can't be opened."""
    pipe = tmp_path / "ids.20261121.log"
    os.mkfifo(pipe)
    log = Log()
    audit = Audit(str(tmp_path / "ids"), 0, 1, log, Days())
    for _ in range(limits.AUDIT_WAITING_MAX + 9):
        audit.write([UPDATE])
    assert [event for event, _ in log.lines] == ["audit log fails"]
    audit.close()
    with pipe.open("rb") as reader:  # the thread ends
        assert reader.readline()


@in_a_world
async def test_counters_report_what_is_durable(world: World) -> None:
    found: list[Update] = []
    world.service.counters.audit = found.extend
    await world.ask(count=3)
    batch = world.service.config.rules["day"].counting.batch
    key = Key(b"day", b"a")
    assert found == [Update("reserved", key, MIDNIGHT_S, 0, batch - 1)]
    await world.ask(count=batch)
    assert found[1] == Update("reserved", key, MIDNIGHT_S, batch, found[1].last)
    world.service.counters.begin_stop()
    await world.keeper
    await world.service.counters.stop()
    assert found[-1] == Update("given back", key, MIDNIGHT_S, batch + 3, found[-2].last)


@in_a_world
async def test_range_above_what_the_original_has_given_begins_there(world: World) -> None:
    key = Key(b"day", b"taken over")
    theirs = Mark(0, 4300, MIDNIGHT_S, "of the original")
    counter = world.service.config.rules["day"].counting.counter(key, theirs, MIDNIGHT_S)
    counter.open(MIDNIGHT_S)
    counter.need(1)
    mark = counter.plan()
    assert mark is not None
    assert reserved(counter, mark) == Update("reserved", key, MIDNIGHT_S, 4301, mark.reserved)
