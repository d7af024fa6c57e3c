"""`beanpole move|clear|export|import`: nothing is lost, whatever breaks; else all is there, unchanged."""

import base64
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from beanpole import Client, TimedOutError
from beanpole.operations.batches import batches, delete, enter, in_state
from beanpole.operations.plan import run, walk
from tests.e2e.cli.conftest import Cli, command
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, beanpole_server


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
    found = cli("list", tube, "--json", "--bodies").objects
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
    delays = {each["left"] for each in cli("list", other, "--state", "delayed", "--json").objects}
    assert 940 < min(delays) < max(delays) < 1040
    client.delete(held)
    assert cli("move", "--json", tube, other).objects == [{"from": tube, "to": other, "moved": 0}]


def test_jobs_that_the_server_moves_keep_their_ids(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    client.pause_tube(tube, 1000)
    before = {each["id"]: each["state"] for each in cli("list", tube, "--json").objects}
    other = f"{tube}-b"
    cli("move", tube, other)
    after = {each["id"]: each["state"] for each in cli("list", other, "--json").objects}
    assert sorted(after.values()) == sorted(before.values())
    whole = {id for id, state in before.items() if state != "buried"} if "move-jobs" in client.features() else set()
    assert set(before) & set(after) == whole
    cli("move", other, tube, "--ready")
    ready = [each for each in cli("list", tube, "--json").objects if each["state"] == "ready"]
    assert len(ready) == len(before)
    if whole:
        buried = {id for id, state in after.items() if state == "buried"}
        assert buried <= {each["id"] for each in ready}


def test_a_server_that_moves_no_more_says_so() -> None:
    """It has as many tubes as it may have."""
    with beanpole_server("--tubes-max", "2") as server, Client((HOST, server.port), None, "full", "full") as client:
        client.put_many([b"a", b"b"])
        done = Cli(server)("move", "full", "other", code=1)
        assert done.err == (
            "beanpole: the server moves no more ready jobs into other; moved 0 jobs; call it again to move the rest\n"
        )
        assert client.stats_tube("full").current_jobs_ready == 2


def test_move_some(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    other = f"{tube}-b"
    cli("move", tube, other, "--state", "buried", "--count", 20, "--ready")
    stats = client.stats_tube(other)
    assert stats.current_jobs_ready == 20
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
        assert done.err == (
            f"beanpole: put into {tube}: DRAINING: the server takes no more jobs; moved 0 jobs;"
            " call it again to move the rest\n"
        )
    done = cli("move", tube, tube, "--to-url", f"beanstalk://{HOST}:{other.port}", code=4)
    assert "can't connect" in done.err
    wait_until(lambda: client.stats_tube(tube).current_jobs_ready == 3, "nothing is lost")


def test_move_to_itself(cli: Cli, client: Client[bytes], tube: str) -> None:
    client.put(b"x")
    assert "the same tube" in cli("move", tube, tube, code=5).err
    for name in (HOST, "localhost", "127.1"):
        done = cli("move", tube, tube, "--to-url", f"beanstalk://{name}:{cli.server.port}", code=5)
        assert "the same tube" in done.err
    assert client.stats_tube(tube).total_jobs == 1


def test_move_ends_where_others_put_as_fast(client: Client[bytes], tube: str) -> None:
    client.put_many([b"x"] * 10)
    taken = 0
    for batch in walk(client, batches(tube, run(client, enter(tube, ["ready"])))):
        client.put_many([each.body for each in batch])
        taken += len(batch)
        run(client, delete(batch))
        assert taken <= 10
    assert client.stats_tube(tube).current_jobs_ready == 10


def test_tube_that_is_not_there(cli: Cli, tube: str, tmp_path: Path) -> None:
    none = f"{tube}-none"
    verbs: list[list[object]] = [[verb, none] for verb in ("kick", "list", "pause", "peek", "resume")]
    verbs += [["move", none, tube], ["clear", "--yes", none]]
    verbs += [["export", "--remove", "--output", tmp_path / "x", none]]
    for verb in verbs:
        assert cli(*verb, code=2).err == f"beanpole: there is no tube {none}\n"
    assert none not in cli("tubes").out.decode()


# --- clear ------------------------------------------------------------------------------------------------------------


def test_clear(cli: Cli, client: Client[bytes], tube: str) -> None:
    fill(client)
    held = client.put(b"held", priority=0)
    client.reserve_job(held)
    assert "give --yes" in cli("clear", tube, code=5).err
    assert cli("clear", tube, "--yes", "--state", "buried", "--count", 30).lines == [f"30 jobs of {tube} deleted"]
    stats = client.stats_tube(tube)
    assert (stats.current_jobs_ready, stats.current_jobs_delayed, stats.current_jobs_buried) == (3, 40, 10)
    assert cli("clear", tube, "--yes", "--state", "delayed").lines == [f"40 jobs of {tube} deleted"]
    done = cli("clear", tube, "--yes", "--json")
    assert done.objects == [{"tube": tube, "deleted": 13}]
    assert json.loads(done.err) == {"note": f"1 reserved job stays in {tube}"}
    assert cli("move", tube, f"{tube}-b").err == f"beanpole: 1 reserved job stays in {tube}\n"
    assert contents(cli, tube) == {("reserved", b"held", 0, 60)}
    client.delete(held)


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_clear_asks(cli: Cli, client: Client[bytes], tube: str, answer: bytes, code: int) -> None:
    client.put_many([b"x", b"y"])
    done = cli.typed(answer, "clear", tube)
    assert done.code == code
    assert f"Delete jobs of {tube} at {cli.url} (2 ready, 0 delayed, 0 buried)? [y/N]: " in done.err
    assert ("beanpole: nothing was deleted\n" in done.err) == bool(code)
    assert client.stats_tube(tube).current_jobs_ready == (2 if code else 0)


def test_only_jobs_in_the_asked_state_are_taken(client: Client[bytes], tube: str) -> None:
    ids = client.put_many([b"1", b"2", b"3"])
    client.bury(client.reserve_job(ids[1]))
    other = client.put(b"4", tube=f"{tube}-b")
    assert [each.body for each in run(client, in_state([*ids, other], tube, "buried"))] == [b"2"]
    assert [each.body for each in run(client, in_state([*ids, other], tube, "ready"))] == [b"1", b"3"]


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


def test_export_does_not_mix_files(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    client.put(b"x")
    file = tmp_path / "jobs"
    file.touch()
    cli("export", tube, "-o", file)
    assert "give --append" in cli("export", tube, "-o", file, code=5).err
    cli("export", tube, "-o", file, "--append")
    assert file.read_bytes().count(b"\n") == 2


def test_export_ends_a_line_that_was_cut_off(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    client.put(b"x")
    file = tmp_path / "jobs"
    file.write_bytes(b'{"id": 1, "bo')
    cli("export", tube, "-o", file, "--append", "--remove")
    done = cli("import", tube, file, code=1)
    assert (done.lines, done.err.count("\n")) == ([f"1 job imported into {tube}"], 1)
    assert bodies(client) == [b"x"]


def test_export_to_standard_output(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    client.put_many([b"%d" % number for number in range(2500)])
    done = cli("export", tube)
    assert [each["body"] for each in done.objects] == [str(number) for number in range(2500)]
    assert cli("export", tube, "--state", "buried").out == b""
    assert "a file" in cli.process("export", tube, "--remove").err
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
    assert done.returncode == 1
    assert done.stderr == (
        f"beanpole: File too large; 0 jobs of {tube} exported and removed; up to 20 jobs may be in the file and in the"
        " tube; call it again with --append, or >>, to go on\n"
    )
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
        '{"body": 5}',
        '{"body": "x", "reason": 5}',
        r'{"body": "x", "state": "buried", "reason": "\ud800"}',
        r'{"body": "x", "key": "\ud800"}',
        '{"body": "x", "meta": {"a": 1}}',
        '{"body": "last", "unknown": 1}',
    ]
    done = cli("import", tube, given="\n".join(lines).encode(), code=1)
    said = [line.partition(": line ")[2] for line in done.err.splitlines()]
    assert [line.split(":")[0] for line in said] == [str(number) for number in range(2, 16)]
    assert said[0] == "2: this is not a job: it is not JSON"
    assert said[8] == f"10: put into {tube}: JOB_TOO_BIG: the body is larger than the server's limit of 65535 bytes"
    assert said[9] == "11: this is not a job: body must be a string, not 5"
    assert done.lines == [f"2 jobs imported into {tube}"]
    assert bodies(client) == [b"minimal", b"last"]


def test_import_says_how_to_go_on(tube: str) -> None:
    with beanpole_server() as server:
        server.drain()
        done = Cli(server)("import", tube, "--skip", 1, given=b'{"body": "x"}\n1\n{"body": "y"}\n2\n', code=1)
    assert done.err == (
        "beanpole: line 2: this is not a job: it is not a JSON object\n"
        f"beanpole: line 3: put into {tube}: DRAINING: the server takes no more jobs;"
        " imported 0 jobs; go on with --skip 2\n"
    )
