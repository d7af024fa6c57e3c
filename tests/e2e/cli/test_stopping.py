"""`beanpole move|clear|export|import` that are stopped: nothing is lost, and they say how to go on."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from beanpole import Client, NotFoundError
from tests.e2e.cli.conftest import Cli, run
from tests.e2e.cli.cutting import cut_at
from tests.e2e.cli.test_move import bodies, body_of
from tests.e2e.process import wait_until
from tests.servers import REPLY_TIMEOUT_S

MANY = 5_000
"""Jobs that take more commands than a verb is stopped after."""

BATCH = 256
"""The most jobs that may be there twice, as the help says."""


# --- stopped between any two steps ------------------------------------------------------------------------------------

CUTS_MAX = 60
"""More pieces than a verb sends for a few jobs."""

WANTED = {b"ready 1", b"ready 2", b"delayed 1", b"delayed 2", b"buried 1", b"buried 2"}


def fill_a_few(client: Client[bytes]) -> None:
    """Two jobs of each state, whose bodies say it."""
    for body in sorted(WANTED):
        id = client.put(body, delay=1000 if body.startswith(b"delayed") else 0)
        if body.startswith(b"buried"):
            client.bury(client.reserve_job(id))


def states(cli: Cli, tube: str) -> dict[bytes, str]:
    """The states of the jobs of a tube, by their bodies."""
    done = cli("export", tube) if tube in cli("tubes").out.decode().split() else None
    return {body_of(each): each["state"] for each in done.objects} if done else {}


def stop_everywhere(cli: Cli, client: Client[bytes], tube: str, *verb: object, executed: bool) -> Iterator[None]:
    """Runs a verb again and again, and stops it at a later command each time until it comes to its end."""
    for number in range(1, CUTS_MAX):
        fill_a_few(client)
        with cut_at(cli.server, number, executed=executed) as cut:
            done = run(*verb, "--url", cut.url)
        assert done.code == (4 if cut.happened else 0), done
        yield
        for each in (tube, f"{tube}-b"):
            wait_until(lambda each=each: not held(client, each), "given back")  # type: ignore[misc]
            if each in client.tubes():
                cli("clear", each, "--yes")
        if not cut.happened:
            assert number > 5
            return
    raise AssertionError(f"the verb sends more than {CUTS_MAX} pieces")


def held(client: Client[bytes], tube: str) -> int:
    try:
        return client.stats_tube(tube).current_jobs_reserved
    except NotFoundError:
        return 0


@pytest.mark.parametrize("executed", [False, True])
def test_move_that_is_stopped_loses_nothing(cli: Cli, client: Client[bytes], tube: str, *, executed: bool) -> None:
    other = f"{tube}-b"
    for _ in stop_everywhere(cli, client, tube, "move", tube, other, executed=executed):
        here, there = states(cli, tube), states(cli, other)
        assert set(here) | set(there) == WANTED
        for body, state in (here | there).items():
            if not body.startswith(b"ready"):
                assert here.get(body, body.split()[0].decode()) == body.split()[0].decode()
                assert state in {"delayed", "buried"}, "a worker would get a job that was not ready"


@pytest.mark.parametrize("executed", [False, True])
def test_export_that_is_stopped_loses_nothing(
    cli: Cli, client: Client[bytes], tube: str, tmp_path: Path, *, executed: bool
) -> None:
    file = tmp_path / "jobs"
    verb = ("export", tube, "--remove", "--output", file)
    for _ in stop_everywhere(cli, client, tube, *verb, executed=executed):
        written = {body_of(json.loads(line)) for line in file.read_bytes().splitlines()}
        assert written | set(states(cli, tube)) == WANTED
        file.unlink()


# --- kill -9 ----------------------------------------------------------------------------------------------------------


@contextmanager
def stopped_in_the_middle(
    cli: Cli, number: int, *verb: object, pieces: int = 15
) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a verb as a process, and stops it with a signal while it waits for the reply to one of its commands."""
    with (
        cut_at(cli.server, pieces, executed=True, hold=True) as cut,
        cli.start(*verb, "--url", cut.url, stderr=subprocess.PIPE) as process,
    ):
        assert cut.held.wait(REPLY_TIMEOUT_S), process.poll()
        process.send_signal(number)
        yield process


def delay_of_copied(client: Client[bytes]) -> int:
    """The delay of jobs that `move --ready` copies: a server that knows move-jobs moves those that are ready itself."""
    return 1000 if "move-jobs" in client.features() else 0


def test_move_that_is_killed_loses_nothing(cli: Cli, client: Client[bytes], tube: str) -> None:
    wanted = [b"%d" % number for number in range(MANY)]
    client.put_many(wanted, delay=delay_of_copied(client))
    other = f"{tube}-b"
    with stopped_in_the_middle(cli, signal.SIGKILL, "move", tube, other, "--ready", pieces=30) as process:
        assert process.wait(60) == -signal.SIGKILL
    wait_until(lambda: client.stats_tube(tube).current_jobs_reserved == 0, "given back")
    stats, there = client.stats_tube(tube), client.stats_tube(other).current_jobs_ready
    here = stats.current_jobs_ready + stats.current_jobs_delayed
    assert here
    assert there
    assert MANY <= here + there <= MANY + BATCH
    assert cli("move", tube, other, "--ready").lines == [f"{here} jobs moved from {tube} to {other}"]
    found = bodies(client, other)
    assert set(found) == set(wanted)
    assert len(found) == here + there


@pytest.mark.parametrize("executed", [False, True])
def test_jobs_that_the_server_moves_are_in_one_tube_whatever_breaks(
    cli: Cli, client: Client[bytes], tube: str, *, executed: bool
) -> None:
    if "move-jobs" not in client.features():
        return
    ids, other, number = set(client.put_many([b"x"] * 10)), f"{tube}-b", 1
    for number in range(1, CUTS_MAX):
        with cut_at(cli.server, number, executed=executed) as cut:
            done = run("move", tube, other, "--url", cut.url)
        assert set(found_in(cli, tube)) | set(found_in(cli, other)) == ids
        assert len(found_in(cli, tube)) + len(found_in(cli, other)) == len(ids)
        if not cut.happened:
            break
        assert done.code == 4
    assert number > 3


def found_in(cli: Cli, tube: str) -> list[int]:
    there = tube in cli("tubes").out.decode().split()
    return [each["id"] for each in cli("list", tube, "--json").objects] if there else []


def test_export_that_is_killed_loses_nothing(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    wanted = [b"%d" % number for number in range(MANY)]
    client.put_many(wanted)
    file = tmp_path / "jobs"
    with stopped_in_the_middle(cli, signal.SIGKILL, "export", tube, "--remove", "-o", file) as process:
        assert process.wait(60) == -signal.SIGKILL
    wait_until(lambda: client.stats_tube(tube).current_jobs_reserved == 0, "given back")
    complete = file.read_bytes().rpartition(b"\n")[0].split(b"\n")
    written = [json.loads(line)["body"].encode() for line in complete]
    left = bodies(client)
    assert left
    assert set(written) | set(left) == set(wanted)
    assert MANY <= len(written) + len(left) <= MANY + BATCH


# --- Ctrl-C, SIGTERM --------------------------------------------------------------------------------------------------


@contextmanager
def interrupted_at(step: int, function: str) -> Iterator[list[int]]:
    """Has SIGINT come before the line of a function that is the `step`th to run while a verb catches the signal."""
    before, seen = signal.getsignal(signal.SIGINT), [0]

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_code.co_name != function:
            return None
        if event == "line" and signal.getsignal(signal.SIGINT) != before:
            seen[0] += 1
            if seen[0] == step:
                signal.raise_signal(signal.SIGINT)
        return trace

    tracer = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(tracer)


def test_import_that_is_interrupted_anywhere_knows_how_far_it_came(
    cli: Cli, client: Client[bytes], tube: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beanpole.cli.transfer.PIECE", 3)
    client.watch(tube)
    file = tmp_path / "jobs"
    file.write_text('{"body": "x"}\n' * 7)
    for step in range(1, 200):
        with interrupted_at(step, "import_jobs") as seen:
            done = run("import", tube, file, "--url", cli.url)
        there = len(bodies(client, tube))
        if done.code == 0:
            assert seen[0] < step
            assert step > 30
            assert there == 7
            return
        assert done.code == 128 + signal.SIGINT
        imported, skip = map(int, re.findall(r"imported (\d+) jobs?; go on with --skip (\d+)", done.err)[0])
        twice = int(*re.findall(r"up to (\d+) jobs? may be there twice", done.err) or ["0"])
        assert imported == skip <= there <= imported + twice, done.err
    raise AssertionError("the import does not end")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", ["move", "clear", "export", "import"])
def test_verb_that_is_interrupted_says_how_far_it_came(
    cli: Cli, client: Client[bytes], tube: str, tmp_path: Path, *, verb: str, number: int
) -> None:
    file, other = tmp_path / "jobs", f"{tube}-b"
    client.watch(other)
    client.put_many([b"x"] * MANY, delay=delay_of_copied(client) if verb == "move" else 0)
    file.write_text('{"body": "x"}\n' * MANY if verb == "import" else "")
    arguments: dict[str, list[object]] = {
        "move": [tube, other, "--ready"],
        "clear": [tube, "--yes", "--count", MANY],
        "export": [tube, "--remove", "-o", file],
        "import": [other, file],
    }
    pieces = {"import": 3, "move": 30}.get(verb, 15)
    with stopped_in_the_middle(cli, number, verb, *arguments[verb], pieces=pieces) as process:
        _, err = process.communicate(timeout=60)
    assert client.stats_tube(other).current_jobs_ready or client.stats_tube(tube).cmd_delete, "it had not begun"
    said = err.decode()
    assert process.returncode == 128 + number, said
    assert re.fullmatch(r"beanpole: interrupted; [^\n]+\n", said)
    assert {"import": "go on with --skip ", "export": "--append"}.get(verb, "call it again") in said
    if verb == "import":
        imported, skip = map(int, re.findall(r"imported (\d+) jobs; go on with --skip (\d+)", said)[0])
        assert imported == skip <= client.stats_tube(other).total_jobs <= imported + 1000
    if verb == "move":
        assert int(re.findall(r"moved (\d+) jobs", said)[0]) <= client.stats_tube(other).total_jobs
    wait_until(lambda: not held(client, tube), "given back")
    for each in (tube, other):
        cli("clear", each, "--yes")
