"""`beanpole put`: bodies from everywhere, unchanged."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from beanpole import Client
from tests.e2e.cli.conftest import Cli, run
from tests.e2e.cli.cutting import cut_at

BINARY = bytes(range(256))


def bodies(client: Client[bytes]) -> list[bytes]:
    """The bodies of all ready jobs, in their order."""
    return [job.body for job in client.reserve_iter(timeout=0)]


def test_arguments_are_bodies(cli: Cli, client: Client[bytes], tube: str) -> None:
    done = cli("put", "--tube", tube, "one", "zwei ü", "")
    ids = [int(line) for line in done.lines]
    assert [(job.id, job.body) for job in client.reserve_many(9, timeout=0)] == list(
        zip(ids, [b"one", "zwei ü".encode(), b""], strict=True)
    )


def test_argument_that_is_no_text_survives(cli: Cli, client: Client[bytes], tube: str) -> None:
    assert cli.process("put", "-t", tube, os.fsdecode(b"\xff\xfe")).code == 0
    assert bodies(client) == [b"\xff\xfe"]


def test_options_are_those_of_the_protocol(cli: Cli, client: Client[bytes], tube: str) -> None:
    [found] = cli("put", "-t", tube, "--priority", 7, "--delay", "1m40s", "--ttr", "9s", "--json", "x").objects
    stats = client.stats_job(found["id"])
    assert (stats.pri, stats.delay, stats.ttr, stats.state) == (7, 100, 9, "delayed")


def test_standard_input_is_a_body(cli: Cli, client: Client[bytes], tube: str) -> None:
    assert len(cli("put", "-t", tube, given=BINARY).lines) == 1
    assert len(cli("put", "-t", tube, "-", "more", given=b"from\nstdin\n").lines) == 2
    assert bodies(client) == [BINARY, b"from\nstdin\n", b"more"]


def test_files_are_bodies(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(BINARY)
    (tmp_path / "b").write_bytes(b"")
    cli("put", "-t", tube, "--file", tmp_path / "a", "--file", tmp_path / "b")
    assert bodies(client) == [BINARY, b""]


def test_each_line_is_a_job(cli: Cli, client: Client[bytes], tube: str, tmp_path: Path) -> None:
    assert len(cli("put", "-t", tube, "--each-line", given=b"a\n\n\xffb\r\nlast").lines) == 4
    (tmp_path / "lines").write_bytes(b"x\ny\n")
    cli("put", "-t", tube, "--each-line", "--file", tmp_path / "lines")
    assert bodies(client) == [b"a", b"", b"\xffb\r", b"last", b"x", b"y"]
    assert cli("put", "-t", tube, "--each-line", given=b"").lines == []


def test_each_line_of_many(cli: Cli, client: Client[bytes], tube: str) -> None:
    wanted = [b"%d %s" % (number, b"x" * (number % 300)) for number in range(5000)]
    assert len(cli("put", "-t", tube, "--each-line", given=b"\n".join(wanted) + b"\n").lines) == 5000
    assert client.stats_tube(tube).current_jobs_ready == 5000
    found: list[bytes] = []
    while len(found) < 5000:
        jobs = client.reserve_many(1000, timeout=0)
        found += [job.body for job in jobs]
        client.delete_many(jobs)
    assert found == wanted


def test_lines_are_put_as_they_come(cli: Cli, tube: str) -> None:
    pipe = subprocess.PIPE
    with cli.start("put", "-t", tube, "--each-line", stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(b"a line\n")
            process.stdin.flush()
            assert process.stdout.readline().strip().isdigit()
        process.stdin.close()
        assert process.wait(60) == 0


def test_body_that_is_too_big(cli: Cli, client: Client[bytes], tube: str) -> None:
    reason = f"put into {tube}: JOB_TOO_BIG: the body is larger than the server's limit of 65535 bytes\n"
    done = cli("put", "-t", tube, given=b"x" * 65536, code=1)
    assert done.err == f"beanpole: {reason}"
    big = b"x" * 65536 + b"\n"
    done = cli("put", "-t", tube, "--each-line", given=b"a\n" + big * 2 + b"b\n" + big, code=1)
    assert done.err == (
        f"beanpole: bodies 2 to 3 were not put: {reason}"
        f"beanpole: body 5 was not put: {reason}"
        "beanpole: nothing after body 5 was sent\n"
    )
    assert len(done.lines) == 2
    assert bodies(client) == [b"a", b"b"]


def test_server_that_is_lost_among_many(cli: Cli, client: Client[bytes], tube: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(30_000))
    with cut_at(cli.server, 3, executed=False) as cut:
        done = run("put", "-t", tube, "--each-line", "--url", cut.url, given=lines)
    assert cut.happened
    found = re.fullmatch(
        r"beanpole: [^;]+; (\d+) put; of bodies (\d+) to (\d+) it is not known; nothing after body (\d+) was sent\n",
        done.err,
    )
    assert found, done.err
    put, first, last, end = map(int, found.groups())
    assert (done.code, len(done.lines)) == (4, put)
    assert put == first - 1
    assert put <= client.stats_tube(tube).total_jobs <= last
    assert first < last == end < 30_000


def test_ids_that_can_not_be_written(cli: Cli, client: Client[bytes], tube: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = cli.process("put", "-t", tube, "x", stdout=full)
    said = "beanpole: 1 job was put, but ids can't be written: No space left on device\n"
    assert (done.code, done.err) == (1, said)
    assert bodies(client) == [b"x"]


@pytest.mark.parametrize(("flags", "what"), [((), "the body of a job"), (("--each-line",), "a job a line")])
def test_terminal_is_read_to_its_end(
    cli: Cli, tube: str, client: Client[bytes], flags: tuple[str, ...], what: str
) -> None:
    done = cli.typed(b"hello\n\x04", "put", "-t", tube, *flags)
    assert done.code == 0
    assert done.err == f"beanpole: type {what}; Ctrl-D at the start of a line ends it\n"
    assert bodies(client) == [b"hello" if flags else b"hello\n"]
