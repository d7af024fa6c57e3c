"""The runner: what it starts it ends, what it cannot measure it names."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.bench import measure, run, server
from benchmarks.bench.__main__ import bench
from benchmarks.bench.dial import SetupError
from benchmarks.bench.plan import Group, Row, Scenario
from benchmarks.bench.report import Outcome
from tests.servers import peer

THEIRS = "beanstalkd -l {host} -p {port}"


def test_server_ends_with_its_block() -> None:
    peer("beanstalkd")
    with pytest.raises(KeyboardInterrupt), server.running(server.THEIRS) as started:  # noqa: PT012 - the block is tested
        os.kill(started.pid, 0)
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(started.pid, 0)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ((sys.executable, "-c", "raise SystemExit('no beans today')"), "no beans today"),
        (("/nonexistent/beanstalkd",), "cannot start"),
    ],
)
def test_server_that_does_not_start_says_why(command: tuple[str, ...], why: str) -> None:
    with pytest.raises(SetupError, match=why), server.running(command):
        pass


def test_server_and_generator_run_apart() -> None:
    peer("beanstalkd")
    cores = os.sched_getaffinity(0)
    with server.running(server.THEIRS) as started:
        with measure.apart(started):
            assert len(cores) == 1 or not os.sched_getaffinity(0) & os.sched_getaffinity(started.pid)
        assert os.sched_getaffinity(0) == cores


def test_row_that_fails_is_named_and_not_repeated(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    row = Row("row", "a row", "rate", Scenario())
    player = measure.Contestant("theirs", ("sh", "-c", f"echo >>{starts}; echo too slow >&2; exit 1"), ours=False)
    outcome = Outcome(row)
    run.run_row(outcome, [player], run.Options(rounds=3), lambda _: None)
    assert list(outcome.failures) == [("theirs", "scenario")]
    assert "too slow" in outcome.failures["theirs", "scenario"]
    assert starts.read_text() == "\n"


def test_without_beanstalkd_the_user_is_told_how_to_get_it() -> None:
    said: list[str] = []
    found = run.contestants(run.Options(theirs="/nonexistent/beanstalkd"), said.append)
    assert [player.name for player in found] == ["ours"]
    assert "apt-get install beanstalkd" in said[0]


def test_another_server_is_measured_in_the_same_run(tmp_path: Path) -> None:
    """In each round after the two, under the name of its program, and so in what is saved."""
    fork = tmp_path / "fork"
    fork.symlink_to(peer("beanstalkd"))
    saved = tmp_path / "out.json"
    said: list[str] = []
    options = run.Options(only=("start",), rounds=2, ours=THEIRS, against=fork, json_file=saved, data_dir=tmp_path)
    assert run.main(options, said.append) == 0
    assert [line.split(", ")[1] for line in said] == ["ours", "theirs", "against"] * 2
    read = json.loads(saved.read_text())
    assert (read["rows"][0]["failures"], read["machine"]["against"]) == ({}, "fork")
    assert {"ours", "theirs", "against"} <= read["rows"][0].keys()
    assert len(read["rows"][0]["samples"]["against scenario"]) == 2


@pytest.mark.parametrize(
    ("name", "arguments", "ours"),
    [("beanstalkd-new", server.THEIRS[1:], False), ("beanpole", server.OURS[3:], True)],
)
def test_another_server_is_started_by_what_its_program_takes(
    tmp_path: Path, name: str, arguments: tuple[str, ...], ours: bool
) -> None:
    *_, player = run.contestants(run.Options(against=tmp_path / name), lambda _: None)
    assert player == measure.Contestant("against", (str(tmp_path / name), *arguments), ours)


LOGGED = ("-b", "{data}", "-F")


@pytest.mark.parametrize(
    ("scenario", "figures"),
    [
        (Scenario((Group(connections=3),), operations=300), {"rate", "p50_us", "p99_us", "p999_us", "cpu_us"}),
        (Scenario((Group(in_flight=10, held=50),), operations=300), {"cpu_delete_us"}),
        (Scenario((Group(in_flight=10, programme="p"),), operations=300), {"bytes_per_job"}),
        (Scenario((Group(), Group(20, programme="", name="idle")), other_tubes=30, operations=300), {"cpu_us"}),
        (Scenario(measure="start"), {"start_ms"}),
        (Scenario((Group(programme="p"),), measure="replay", args_theirs=LOGGED, operations=300), {"start_ms"}),
        (Scenario((Group(programme="pd"),), args_theirs=LOGGED, operations=300), {"disk_bytes"}),
        (Scenario((Group(programme="p"),), measure="lone", args_theirs=LOGGED), {"p50_us", "over_sync_us"}),
        (Scenario((Group(programme="p"),), measure="lone-apart", args_theirs=LOGGED), {"p50_us", "over_sync_us"}),
    ],
    ids=lambda value: "" if isinstance(value, Scenario) else "-".join(sorted(value)),
)
def test_sample_has_the_figures(tmp_path: Path, scenario: Scenario, figures: set[str]) -> None:
    peer("beanstalkd")
    sample = measure.take_sample(measure.Contestant("theirs", server.THEIRS, ours=False), scenario, 0.05, tmp_path)
    assert figures <= set(sample.figures)
    assert sample.peak_bytes > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row", ["cycle-50x1", "start"])
def test_row_side_by_side(tmp_path: Path, row: str) -> None:
    peer("beanstalkd")
    arguments = ["--quick", "--seconds", "0.05", "--only", row, "--ours", THEIRS, "--data-dir", str(tmp_path)]
    result = CliRunner().invoke(bench, [*arguments, "--json", str(tmp_path / "out.json"), "--markdown"])
    assert result.exit_code == 0, result.output
    read = json.loads((tmp_path / "out.json").read_text())["rows"][0]
    assert read["failures"] == {}
    assert read["ours"] is not None
    assert read["theirs"] is not None
    assert f"| {row} |" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_ends_its_server_and_shows_what_it_has(tmp_path: Path, number: signal.Signals) -> None:
    peer("beanstalkd")
    said = tmp_path / "said"
    command = [sys.executable, "-c", "from benchmarks.bench.__main__ import bench; bench()", "--only", "cycle-50x1"]
    with said.open("wb") as stderr:
        runner = subprocess.Popen([*command, "--ours", THEIRS], stdout=subprocess.PIPE, stderr=stderr)
    give_up_at = time.monotonic() + 30
    children: list[int] = []
    while not children and time.monotonic() < give_up_at:
        time.sleep(0.01)
        children = children_of(runner.pid) if "round 1" in said.read_text() else []
    runner.send_signal(number)
    output, _ = runner.communicate(timeout=30)
    assert runner.returncode == run.INTERRUPTED, said.read_text()
    assert b"cycle-50x1" in output
    assert children
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_floor_is_measured_beside_its_rows_alone(tmp_path: Path) -> None:
    """Also where it writes what comes to the disk, beside an idle connection, with the figures of the others."""
    said: list[str] = []
    rows = ("start", "floor-1x1", "floor-lone-put-idle")
    options = run.Options(
        only=rows, rounds=1, seconds=0.05, ours=THEIRS, theirs="none", json_file=tmp_path / "out.json"
    )
    assert run.main(options, said.append) == 0
    read = {row["name"]: row for row in json.loads((tmp_path / "out.json").read_text())["rows"]}
    assert [row["failures"] for row in read.values()] == [{}] * len(rows)
    assert [row["floor"] is not None for row in read.values()] == [False, True, True]
    for name in rows[1:]:
        figures = read[name]["figures"]["floor"]
        assert figures["cpu_us"] > 0
        assert figures["p50_us"] <= figures["p99_us"] <= figures["p999_us"] <= figures["max_us"]


def children_of(pid: int) -> list[int]:
    """The servers that a runner has started: what it runs besides may come and go."""
    names = {
        int(line): Path(f"/proc/{line}/comm") for line in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    }
    return [child for child, name in names.items() if name.exists() and name.read_text().strip() == "beanstalkd"]


def test_interrupt_waits_until_a_started_process_is_known() -> None:
    known = []
    with pytest.raises(KeyboardInterrupt), server.uninterrupted():  # noqa: PT012 - the order is what is tested
        signal.raise_signal(signal.SIGINT)
        known.append("process")
    assert known == ["process"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--check"], 1)])
def test_row_that_is_not_met_is_a_failure_when_asked(flags: list[str], code: int) -> None:
    peer("beanstalkd")
    arguments = ["--quick", "--seconds", "0.05", "--only", "cycle-50x100", "--ours", THEIRS]
    result = CliRunner().invoke(bench, [*arguments, *flags])
    assert result.exit_code == code, result.output


def test_load_at_a_running_server() -> None:
    peer("beanstalkd")
    with server.running(server.THEIRS) as started:
        assert isinstance(started.address, tuple)
        url = f"beanstalk://{started.address[0]}:{started.address[1]}"
        arguments = ["--url", url, "--seconds", "0.05", "--connections", "2", "--pid", str(started.pid)]
        result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 0, result.output
    for line in ("jobs/s", "commands/s", "latency", "server CPU"):
        assert f"\n{line} " in "\n" + result.output


def test_load_at_nobody_is_an_error() -> None:
    result = CliRunner().invoke(bench, ["--url", "beanstalk://127.0.0.1:1", "--seconds", "0.05"])
    assert result.exit_code == 4
    assert "127.0.0.1:1: Connection refused" in result.output


@pytest.mark.parametrize("arguments", [["--url", "127.0.0.1:1", "--quick"], ["--connections", "3", "--list"]])
def test_option_without_effect_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(bench, arguments)
    assert result.exit_code == 2, "click's own; the command line makes 5 of it"
    assert "means nothing" in result.output
