"""A server that keeps a log, and what tests ask of it."""

import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests import forks
from tests.e2e.process import COMMAND, Client, Process, environment, serving
from tests.servers import HOST


def keeping(directory: Path, *flags: str, env: Mapping[str, str] | None = None) -> AbstractContextManager[Process]:
    """A server with its log in a directory."""
    return serving("-b", str(directory), *flags, env=env)


@contextmanager
def starting(directory: Path, *flags: str, port: int = 0, env: Mapping[str, str] | None = None) -> Iterator[Process]:
    """The same, without waiting until it answers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [*COMMAND, "--ready-file", str(folder / "ready"), "-l", HOST, "-p", str(port), "-b", str(directory)]
        with (folder / "messages").open("wb") as output:
            popen = forks.Popen(
                [*command, *flags], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment(env)
            )
        process = Process(popen, folder)
        try:
            yield process
        finally:
            process.stop()


def kill(process: Process) -> None:
    """Ends a server as a crash does: it can do nothing more."""
    process.signal(signal.SIGKILL)
    process.popen.wait()


def terminate(process: Process) -> int:
    """Ends a server in good order; returns its exit code."""
    process.signal(signal.SIGTERM)
    return process.wait_exit()


def facts(client: Client, command: str = "stats") -> dict[str, str]:
    """What a stats command says."""
    client.send(command.encode() + b"\r\n")
    return dict(line.split(": ", 1) for line in client.body().decode().splitlines()[1:])


def put_line(body: bytes, *, pri: int = 0, delay_s: int = 0, ttr_s: int = 1000) -> bytes:
    return b"put %d %d %d %d\r\n%b\r\n" % (pri, delay_s, ttr_s, len(body), body)


def put(client: Client, body: bytes, *, pri: int = 0, delay_s: int = 0, ttr_s: int = 1000) -> int:
    """Puts a job that must be taken; returns its id."""
    client.send(put_line(body, pri=pri, delay_s=delay_s, ttr_s=ttr_s))
    line = client.line()
    assert line.startswith(b"INSERTED "), f"put was answered with {line!r}"
    return int(line.split()[1])


def fill(client: Client, body_bytes: int, count_max: int = 100_000) -> dict[int, bytes]:
    """Puts jobs one by one until one is refused; returns those that were taken, by id."""
    taken: dict[int, bytes] = {}
    for i in range(count_max):
        body = (b"%d " % i).ljust(body_bytes, b"x")[:body_bytes]
        client.send(put_line(body))
        line = client.line()
        if line == b"OUT_OF_MEMORY\r\n":
            return taken
        assert line.startswith(b"INSERTED "), f"put was answered with {line!r}"
        taken[int(line.split()[1])] = body
    raise AssertionError(f"{count_max} jobs of {body_bytes} bytes did not fill the disk")


def assert_kept(client: Client, jobs: Mapping[int, bytes], gone: Iterable[int] = ()) -> None:
    """Checks that jobs are there with their bodies, and that others are not."""
    ids = sorted(jobs)
    for at in range(0, len(ids), 100):
        some = ids[at : at + 100]
        client.send(b"".join(b"peek %d\r\n" % each for each in some))
        for each in some:
            client.expect(b"FOUND %d %d\r\n%b\r\n" % (each, len(jobs[each]), jobs[each]))
    for each in gone:
        client.ask(b"peek %d\r\n" % each, b"NOT_FOUND\r\n")


def jobs_count(client: Client) -> int:
    """How many jobs there are."""
    found = facts(client)
    return sum(int(found[f"current-jobs-{state}"]) for state in ("ready", "reserved", "delayed", "buried"))
