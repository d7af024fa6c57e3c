"""`beanpole move|drain|export|import`: nothing is lost, whatever breaks; else all is there, unchanged."""

import base64
import json
import os
import pty
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beanpole import Client, NotFoundError, TimedOutError
from beanpole.cli.taking import look
from tests.e2e.cli.conftest import Cli, command, run
from tests.e2e.cli.cutting import cut_at
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, beanpole_server

MANY = 20_000
"""Jobs that take long enough for a command to be killed among them."""

BATCH = 256
"""The most jobs that may be there twice, as the help says."""


def fill(client: Client[bytes]) -> None:
    """Three ready jobs, 40 delayed and 40 buried ones, each unlike the others."""
    client.put(b"\xff\x00", priority=1, ttr=11)
    client.put(b"", priority=2, ttr=12)
    client.put("zwei\nü".encode(), priority=3, ttr=13)
    for number in range(40):
        client.put(b"delayed %d" % number, priority=number, delay=1000 + number, ttr=20)
    for number in range(40):
        id = client.put(b"buried %d" % number, ttr=30 + number)
        client.bury(client.reserve_job(id), priority=number)


def contents(cli: Cli, tube: str) -> set[tuple[str, bytes, int, int]]:
    """State, body, priority and ttr of every job."""
    found = cli("jobs", tube, "--json", "--bodies").objects
    return {(each["state"], body_of(each), each["pri"], each["ttr"]) for each in found}


def body_of(record: dict[str, str]) -> bytes:
    return record["body"].encode() if "body" in record else base64.b64decode(record["body_base64"])


def bodies(client: Client[bytes], *tubes: str) -> list[bytes]:
    """The bodies of all ready jobs of some tubes, which are deleted."""
    found: list[bytes] = []
    for tube in tubes:
        client.watch(tube)
    try:
        while jobs := client.reserve_many(1000, timeout=0):
            found += [job.body for job in jobs]
            client.delete_many(jobs)
    except TimedOutError:
        return found
    return found


# --- move -------------------------------------------------------------------------------------------------------------


def test_move_keeps_everything_but_the_id(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    held = client.put(b"held", priority=0)
    client.reserve_job(held)
    before = contents(cli, tube)
    other = f"{tube}-b"
    assert cli("move", tube, other).lines == [f"83 jobs moved from {tube} to {other}"]
    assert contents(cli, other) == before - {("reserved", b"held", 0, 60)}
    assert contents(cli, tube) == {("reserved", b"held", 0, 60)}
    delays = {each["time-left"] for each in cli("jobs", other, "--state", "delayed", "--json").objects}
    assert 940 < min(delays) < max(delays) < 1040
    client.delete(held)
    assert cli("move", "--json", tube, other).objects == [{"from": tube, "to": other, "moved": 0}]


def test_move_some(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    other = f"{tube}-b"
    cli("move", tube, other, "--state", "buried", "--count", 20, "--ready")
    stats = client.stats_tube(other)
    assert (stats.current_jobs_ready, stats.total_jobs) == (20, 20)
    cli("move", tube, other, "--count", 2)
    assert client.stats_tube(tube).current_jobs_ready == 1
    cli("move", tube, other, "--count", 10)
    stats = client.stats_tube(tube)
    assert (stats.current_jobs_ready, stats.current_jobs_delayed, stats.current_jobs_buried) == (0, 31, 20)


def test_move_out_of_a_paused_tube(cli: Cli, client: Client[bytes], tube: str) -> None:
    wanted = client.put_many([b"x"] * 700)
    client.pause_tube(tube, 1000)
    other = f"{tube}-b"
    assert cli("move", tube, other, "--count", 600).lines == [f"600 jobs moved from {tube} to {other}"]
    assert client.stats_tube(tube).current_jobs_ready == len(wanted) - 600


def test_move_to_another_server(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    before = contents(cli, tube)
    with beanpole_server() as other:
        cli("move", tube, tube, "--to-url", f"beanstalk://{HOST}:{other.port}")
        assert contents(Cli(other), tube) == before
        assert client.stats_tube(tube).current_jobs_ready == 0
        client.put_many([b"x"] * 3)
        other.drain()
        done = cli("move", tube, tube, "--to-url", f"beanstalk://{HOST}:{other.port}", code=1)
        assert done.err == "beanpole: moved 0 jobs, then: DRAINING: the server takes no more jobs\n"
    done = cli("move", tube, tube, "--to-url", f"beanstalk://{HOST}:{other.port}", code=4)
    assert "can't connect" in done.err
    wait_until(lambda: client.stats_tube(tube).current_jobs_ready == 3, "nothing is lost")


def test_move_to_itself(cli: Cli, tube: str) -> None:
    assert "the same tube" in cli("move", tube, tube, code=5).err


# --- drain ------------------------------------------------------------------------------------------------------------


def test_drain(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    held = client.put(b"held", priority=0)
    client.reserve_job(held)
    assert "say --yes" in cli("drain", tube, code=5).err
    assert cli("drain", tube, "--yes", "--state", "buried", "--count", 30).lines == [f"30 jobs of {tube} deleted"]
    stats = client.stats_tube(tube)
    assert (stats.current_jobs_ready, stats.current_jobs_delayed, stats.current_jobs_buried) == (3, 40, 10)
    assert cli("drain", tube, "--yes", "--json").objects == [{"tube": tube, "deleted": 53}]
    assert contents(cli, tube) == {("reserved", b"held", 0, 60)}
    client.delete(held)
    assert cli("drain", f"{tube}-none", "--yes").lines == [f"0 jobs of {tube}-none deleted"]


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 130), (b"y\n", 0)])
def test_drain_asks(cli: Cli, client: Client[bytes], tube: str, answer: bytes, code: int) -> None:
    client.put_many([b"x", b"y"])
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = cli.process("drain", tube, stdin=theirs)
    os.close(theirs)
    os.close(ours)
    assert done.code == code
    assert f"Delete jobs of {tube} at {cli.url} (2 ready, 0 delayed, 0 buried)? [y/N]: " in done.err
    assert client.stats_tube(tube).current_jobs_ready == (2 if code else 0)


# --- export, import ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remove", [False, True])
def test_export_and_import(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path, *, remove: bool) -> None:
    fill(client)
    before, file, other = contents(cli, tube), tmp_path / "jobs", f"{tube}-b"
    cli("export", tube, "--output", file, *(["--remove"] if remove else []))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {(each["state"], body_of(each), each["pri"], each["ttr"]) for each in lines} == before
    assert {tuple(each)[:6] for each in lines} == {("id", "tube", "state", "pri", "ttr", "delay")}
    assert contents(cli, tube) == (set() if remove else before)
    done = cli("import", other, file)
    assert (done.lines, done.err) == ([f"83 jobs imported into {other}"], "")
    assert contents(cli, other) == before
    cli("import", f"{tube}-c", "--ready", "--skip", 3, given=file.read_bytes())
    assert client.stats_tube(f"{tube}-c").current_jobs_ready == 80


def test_export_to_standard_output(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    client.put_many([b"%d" % number for number in range(2500)])
    done = cli("export", tube)
    assert [each["body"] for each in done.objects] == [str(number) for number in range(2500)]
    assert cli("export", tube, "--state", "buried").out == b""
    assert "a file" in cli.process("export", tube, "--remove").err
    assert "nobody has reserved" in cli("export", tube, "--remove", "--state", "reserved", code=5).err
    with (tmp_path / "jobs").open("wb") as file:
        assert cli.process("export", tube, "--remove", stdout=file).code == 0
    assert (tmp_path / "jobs").read_bytes().count(b"\n") == 2500
    assert client.stats_tube(tube).current_jobs_ready == 0


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("output", ["--output {0}", "> {0}"])
def test_export_keeps_what_can_not_be_written(
    cli: Cli, client: Client[bytes], tube: str, tmp_path: Path, *, unbuffered: str, output: str
) -> None:
    client.put_many([b"x" * 100] * 20)  # less than a buffer, more than a block
    verb = f"{shlex.join(command('export', tube, '--remove'))} {output.format(tmp_path / 'jobs')}"
    given = environment({"BEANPOLE_URL": cli.url, "PYTHONUNBUFFERED": unbuffered})
    limited = ["bash", "-c", f'ulimit -f 1; trap "" XFSZ; {verb}']
    done = subprocess.run(limited, env=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "beanpole: [Errno 27] File too large\n")
    wait_until(lambda: client.stats_tube(tube).current_jobs_ready == 20, "given back")


def test_import_says_which_lines_are_no_jobs(cli: Cli, client: Client[bytes], tube: str) -> None:
    lines = [
        '{"body": "minimal"}',
        "not JSON",
        '["body"]',
        '{"id": 1}',
        '{"body_base64": "?"}',
        '{"body": "x", "pri": -1}',
        '{"body": "x", "ttr": "1"}',
        '{"body": "x", "delay": true}',
        '{"body": "x", "state": "lost"}',
        json.dumps({"body": "x" * 65536}),
        '{"body": "last", "unknown": 1}',
    ]
    done = cli("import", tube, given="\n".join(lines).encode(), code=1)
    assert [line.split(":")[1] for line in done.err.splitlines()] == [f" line {number}" for number in range(2, 11)]
    assert done.lines == [f"2 jobs imported into {tube}"]
    assert bodies(client) == [b"minimal", b"last"]


def test_import_says_how_to_go_on(tube: str) -> None:
    with beanpole_server() as server:
        server.drain()
        done = Cli(server)("import", tube, "--skip", 1, given=b'{"body": "x"}\n{"body": "y"}\n', code=1)
    assert done.err == (
        "beanpole: line 2: DRAINING: the server takes no more jobs; imported 0 jobs; go on with --skip 1\n"
    )


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
            cli("drain", each, "--yes")
        if not cut.happened:
            assert number > 5
            return
    raise AssertionError(f"the verb sends more than {CUTS_MAX} pieces")


def held(client: Client[bytes], tube: str) -> int:
    """How many jobs are reserved."""
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


def test_only_jobs_in_the_asked_state_are_taken(client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"1", b"2", b"3"])
    client.bury(client.reserve_job(ids[1]))
    other = client.put(b"4", tube=f"{tube}-b")
    assert [each.body for each in look(client, [*ids, other], tube, "buried")] == [b"2"]
    assert [each.body for each in look(client, [*ids, other], tube, "ready")] == [b"1", b"3"]


# --- kill -9 ----------------------------------------------------------------------------------------------------------


def kill_when(process: "subprocess.Popen[bytes]", condition: Callable[[], object]) -> None:
    """Kills a command in the middle of its work."""
    wait_until(lambda: condition() or process.poll() is not None, "it has begun")
    process.kill()
    assert process.wait(60) == -9, "the command was done before it could be killed"


def test_move_that_is_killed_loses_nothing(cli: Cli, client: Client[bytes], tube: str) -> None:
    wanted = [b"%d" % number for number in range(MANY)]
    client.put_many(wanted)
    other = f"{tube}-b"
    client.use(other)
    kill_when(cli.start("move", tube, other), lambda: client.stats_tube(other).current_jobs_ready)
    wait_until(lambda: client.stats_tube(tube).current_jobs_reserved == 0, "given back")
    here, there = client.stats_tube(tube).current_jobs_ready, client.stats_tube(other).current_jobs_ready
    assert here
    assert there
    assert MANY <= here + there <= MANY + BATCH
    assert cli("move", tube, other).lines == [f"{here} jobs moved from {tube} to {other}"]
    found = bodies(client, other)
    assert set(found) == set(wanted)
    assert len(found) == here + there


def test_export_that_is_killed_loses_nothing(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    wanted = [b"%d" % number for number in range(MANY)]
    client.put_many(wanted)
    file = tmp_path / "jobs"
    kill_when(cli.start("export", tube, "--remove", "-o", file), lambda: file.exists() and file.stat().st_size)
    wait_until(lambda: client.stats_tube(tube).current_jobs_reserved == 0, "given back")
    complete = file.read_bytes().rpartition(b"\n")[0].split(b"\n")
    written = [json.loads(line)["body"].encode() for line in complete]
    left = bodies(client)
    assert left
    assert set(written) | set(left) == set(wanted)
    assert MANY <= len(written) + len(left) <= MANY + BATCH
