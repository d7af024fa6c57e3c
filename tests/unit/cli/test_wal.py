"""`beanpole wal`: sentences for people, JSON for programs, exit codes; the logic has its tests in unit/log."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from beanpole.cli import wal as verb
from beanpole.cli.main import cli, main
from beanpole.log.format import STATE, Kind
from tests.e2e.process import written_to
from tests.unit.log import real_log
from tests.unit.log.real_log import ALIVE, JOB_COUNT, contents, copy, place_of, places, segment_names
from tests.unit.log.test_growth import log_of
from tests.unit.log.test_schedules import State, fired_record, schedule_record

COMMAND = [sys.executable, "-m", "beanpole", "wal"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that ends as it should; not to be changed."""
    path = tmp_path_factory.mktemp("log") / "data"
    real_log.write(path)
    return path


@pytest.fixture
def damaged(written: Path, tmp_path: Path) -> Path:
    """A log in which the put of job 100 is damaged."""
    path = copy(written, tmp_path / "data")
    place_of(path, Kind.WHOLE, 100).overwrite(at=200)
    return path


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli, ["wal", *map(str, arguments)], standalone_mode=False)
    assert result.exception is None, result.exception
    return result


def test_help_of_each_verb_tells_its_exit_codes() -> None:
    assert set(verb.wal.commands) == {"check", "dump", "stat", "salvage"}
    for name in verb.wal.commands:
        text = run(name, "--help").output
        assert "Exit codes:" in text
        assert "--json" in text
        assert "  1   damage was found" in text
        assert ("  10  a server uses" in text) == (name == "salvage")
    assert "salvage" in run("--help").output


def test_check_of_a_whole_log(written: Path) -> None:
    result = run("check", written)
    assert result.return_value == 0
    assert f"The server would start with {len(ALIVE)} jobs." in result.output
    found = json.loads(run("check", "--json", written).output)
    assert found["damaged"] is False
    assert found["start"] == "starts"
    assert found["jobs"] == len(ALIVE)
    assert found["problems"] == []


def test_check_of_a_damaged_log(damaged: Path) -> None:
    (place,) = [each for each in places(damaged) if each.line.kind is None]
    before = contents(damaged)
    result = run("check", damaged)
    assert result.return_value == 1
    assert f"{place.path.name} at byte {place.line.offset}: 1084 bytes are no good record" in result.output
    assert "The server would refuse to start" in result.output
    assert f"beanpole wal salvage --dry-run {damaged}" in result.output
    found = json.loads(run("check", "--json", damaged).output)
    assert found["damaged"] is True
    assert found["start"] == "refuses"
    assert found["problems"][0]["offset"] == place.line.offset
    assert contents(damaged) == before


def test_check_says_that_a_server_is_at_work(tmp_path: Path) -> None:
    with real_log.server(tmp_path / "data") as (process, client):
        real_log.fill(client)
        result = run("check", tmp_path / "data")
        assert result.return_value == 0
        assert f"in use by process {process.pid}" in result.output
        assert json.loads(run("stat", "--json", tmp_path / "data").output)["in_use_by"] == process.pid


def test_dump_has_a_line_for_each_record(written: Path) -> None:
    result = run("dump", written)
    assert result.return_value == 0
    lines = result.output.splitlines()
    assert [line for line in lines if line.startswith("segment.")] == segment_names(written)
    assert sum(" whole " in line for line in lines) >= JOB_COUNT + 1
    first = next(line for line in lines if " whole " in line)
    for part in (
        "72 whole",
        "job=1",
        "tube=default",
        "state=ready",
        "pri=1",
        "delay_s=0",
        "ttr_s=60",
        "body_bytes=1000",
    ):
        assert part in first
    assert "body=" not in result.output
    assert "created_at=20" in first


def test_dump_as_json_with_bodies(written: Path) -> None:
    found = [
        json.loads(line) for line in run("dump", "--json", "--bodies", "--tube", "paused", written).output.splitlines()
    ]
    put = next(each for each in found if each["kind"] == "whole")
    assert put["job"] == JOB_COUNT + 1
    assert put["body"] == "hi"
    pause = next(each for each in found if each["kind"] == "tube")
    assert (pause["tube"], pause["pause_s"]) == ("paused", 4000)
    assert {each["tube"] for each in found if "tube" in each} == {"paused"}


def test_dump_of_one_job(written: Path) -> None:
    found = [json.loads(line) for line in run("dump", "--json", "--job", "25", written).output.splitlines()]
    assert [(each["kind"], each["state"]) for each in found] == [("whole", "ready"), ("changed", "buried")]
    assert found[1]["bury_order"] > 0
    assert "bury_order=" in run("dump", "--job", "25", written).output


def test_dump_shows_rules_on_one_line() -> None:
    place = {"segment": 1, "offset": 72, "bytes": 45, "kind": "rules"}
    shown = verb.text_of(place | {"set_at_ns": 0, "rules": "mail-*\nattempts: 2\ndead: d\n"})
    assert shown == "        72 rules   rules=mail-*; attempts: 2; dead: d"


def test_dump_escapes_what_a_terminal_would_obey() -> None:
    place = {"segment": 1, "offset": 16, "bytes": 9, "kind": "put"}
    assert verb.text_of(place | {"failed": "no\n\x1b[2J"}).endswith(r" failed=no\n\x1b[2J")


def test_schedules_are_shown_and_kept(tmp_path: Path) -> None:
    state = State(2_000_000_000, 2_000_000_000, 1_000_000_000, 3, 2, 1, 9)
    records = [
        schedule_record(b"nightly", State(1_000_000_000, 1_000_000_000), b"every: 1\n\n\x1b[2J"),
        fired_record(b"nightly", state, job=9),
        fired_record(b"gone", state, job=10),
    ]
    ((name, content),) = log_of(*records).items()
    (tmp_path / name).write_bytes(content)
    _, first, second, _, _ = run("dump", "--bodies", tmp_path).output.splitlines()
    assert first.endswith(
        "set_at=1970-01-01T00:00:00.000000005Z level=1 document_bytes=14 document='every: 1\\n\\n\\x1b[2J'"
    )
    assert "fired   schedule=nightly next=1970-01-01T00:00:02.000000000Z due=" in second
    assert " fires=3 skips=2 misses=1 last_job=9 paused=0 job=9 pri=0 " in second
    assert second.endswith(" body_bytes=4 body='body'")
    assert [len(run("dump", *each, tmp_path).output.splitlines()) for each in (("--job", "9"), ("--tube", "mail"))] == [
        2,
        3,
    ]
    result = run("check", tmp_path)
    assert "schedule gone has fired, but no record holds its document or drops it" in result.output
    assert "The server would start, with 2 jobs and 1 schedule." in result.output
    assert "Schedules: 1\n" in run("stat", tmp_path).output
    result = run("salvage", tmp_path)
    assert "Schedule gone is lost: only fires of it are left.\n2 jobs and 1 schedule are kept." in result.output
    assert "Nothing is wrong. The server would start with 2 jobs and 1 schedule." in run("check", tmp_path).output
    kept = [json.loads(line) for line in run("dump", "--json", "--bodies", tmp_path).output.splitlines()]
    (schedule,) = [each for each in kept if each["kind"] == "schedule"]
    assert [schedule[each] for each in STATE] == list(state)
    assert schedule["document"] == "every: 1\n\n\x1b[2J"


def test_dump_of_a_damaged_log(damaged: Path) -> None:
    result = run("dump", damaged)
    assert result.return_value == 1
    assert "damage  1084 bytes are no good record" in result.output


def test_stat(written: Path) -> None:
    result = run("stat", written)
    assert result.return_value == 0
    for name in segment_names(written):
        assert name in result.output
    assert f"Next job id: {JOB_COUNT + 3}" in result.output
    found = json.loads(run("stat", "--json", written).output)
    assert found["jobs"] == len(ALIVE)
    assert found["bytes_per_live_byte"] > 1


def test_salvage(damaged: Path) -> None:
    before = contents(damaged)
    dry = run("salvage", "--dry-run", damaged)
    assert dry.return_value == 1
    assert f"{len(ALIVE) - 1} jobs would be kept." in dry.output
    assert contents(damaged) == before
    done = run("salvage", damaged)
    assert done.return_value == 0
    assert "lost are 1084 bytes" in done.output
    assert "jobs deleted in one are back" in done.output
    assert str(damaged / "damaged.1") in done.output
    assert run("check", damaged).return_value == 0
    again = json.loads(run("salvage", "--json", damaged).output)
    assert again["needed"] is False
    assert again["done"] is False


def test_salvage_as_json(damaged: Path) -> None:
    place_of(damaged, Kind.WHOLE, 25).overwrite(at=200)
    assert "Job 25 is lost: only changes of it are left." in run("salvage", "--dry-run", damaged).output
    found = json.loads(run("salvage", "--json", damaged).output)
    assert found["done"] is True
    assert found["jobs"] == len(ALIVE) - 2
    assert found["lost_jobs"] == [25]
    assert found["lost_bytes"] == 2 * 1084
    assert [each["lost_bytes"] for each in found["problems"]] == [1084, 1084]


def test_progress_is_shown_on_a_terminal_only(written: Path) -> None:
    small = f"import beanpole.cli.wal as wal; wal.PROGRESS_BYTES = 1; wal.wal(['check', {str(written)!r}])"
    ours, theirs = pty.openpty()
    shown = subprocess.run([sys.executable, "-c", small], stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    assert b"Checking" in written_to(ours)
    os.close(ours)
    assert b"Checking" not in shown.stdout
    quiet = subprocess.run([sys.executable, "-c", small], capture_output=True, check=True)
    assert quiet.stderr == b""


# --- the real command -------------------------------------------------------------------------------------------------


def test_command_ends_with_the_exit_code(damaged: Path) -> None:
    done = subprocess.run([*COMMAND, "check", damaged], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "refuse" in done.stdout
    assert done.stderr == ""
    assert subprocess.run([*COMMAND, "salvage", damaged], capture_output=True, check=False).returncode == 0
    with real_log.server(damaged) as (_, client):
        assert real_log.ids_alive(client) == [id for id in ALIVE if id != 100]
        done = subprocess.run([*COMMAND, "salvage", damaged], capture_output=True, text=True, check=False)
        assert done.returncode == 10
        assert "in use by another server" in done.stderr


def test_command_survives_a_reader_that_leaves(written: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m beanpole wal dump --bodies {written} | head -c 10"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "segment.00"
    assert done.stderr == ""


def test_wrong_arguments_end_with_5(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wal", "check"]) == 5
    assert main(["wal", "check", str(tmp_path / "none")]) == 5
    assert main(["wal", "lose", str(tmp_path)]) == 5
    assert main(["wal", "dump", "--job", "x", str(tmp_path)]) == 5
    assert "beanpole wal" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["check", "dump", "stat", "salvage"])
def test_directory_without_log_ends_with_1(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wal", name, str(tmp_path)]) == 1
    assert "holds no log" in capsys.readouterr().err
