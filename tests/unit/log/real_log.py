"""A log that the real server writes, with something of everything, and ways to damage it in known places."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beanpole.log.format import Kind
from beanpole.log.tools.inspect import Check, Line, check, lines, survey
from beanpole.log.tools.snapshot import Snapshot
from tests.e2e.process import Client, Process, serving

SEGMENT_BYTES = 65536
JOB_COUNT = 300
BODY_BYTES = 1000

DELETED = range(1, 21)
"""Jobs that are deleted right after they were put, in the first segment."""

BURIED = (30, 25)
"""Buried jobs, in this order."""

DELAYED = 40
"""A job that was released with a delay."""

PAUSED = "paused"
"""A tube that is paused for long and holds the last job; so is a group of it, which holds none."""

ALIVE = [id for id in range(1, JOB_COUNT + 2) if id not in DELETED]
"""The jobs that are there when the server stops."""


def body(id: int) -> bytes:
    return (b"%d:" % id).ljust(BODY_BYTES, b".")


@contextmanager
def server(directory: Path, *flags: str) -> Iterator[tuple[Process, Client]]:
    with serving("-b", str(directory), "-s", str(SEGMENT_BYTES), *flags) as process, process.connect() as client:
        yield process, client


def write(directory: Path, *, kill: bool = False) -> None:
    """Let a server write a log; `kill` leaves one without an end."""
    with server(directory) as (process, client):
        fill(client)
        if kill:
            process.signal(signal.SIGKILL)
        else:
            process.popen.terminate()
        process.wait_exit()


def fill(client: Client) -> None:
    """Put, delete, bury, release and pause."""
    for id in range(1, JOB_COUNT + 1):
        client.ask(b"put %d 0 60 %d\r\n%s\r\n" % (id, BODY_BYTES, body(id)), b"INSERTED %d\r\n" % id)
        if id == 30:
            for each in DELETED:
                client.ask(b"delete %d\r\n" % each, b"DELETED\r\n")
            for each in BURIED:
                reserve(client, each)
                client.ask(b"bury %d 7\r\n" % each, b"BURIED\r\n")
    reserve(client, DELAYED)
    client.ask(b"release %d 5 4000\r\n" % DELAYED, b"RELEASED\r\n")
    client.ask(b"use paused\r\n", b"USING paused\r\n")
    client.ask(b"put 0 0 60 2\r\nhi\r\n", b"INSERTED %d\r\n" % (JOB_COUNT + 1))
    client.ask(b"pause-tube paused 4000\r\n", b"PAUSED\r\n")
    client.ask(b"put-job 1 tube=paused group=g\r\nx\r\n", b"INSERTED %d\r\n" % (JOB_COUNT + 2))
    client.ask(b"pause-group paused g 4000\r\n", b"PAUSED\r\n")
    client.ask(b"delete %d\r\n" % (JOB_COUNT + 2), b"DELETED\r\n")


def reserve(client: Client, id: int) -> None:
    """Reserve a job by its id."""
    client.send(b"reserve-job %d\r\n" % id)
    client.body()


def ids_alive(client: Client) -> list[int]:
    """The jobs of a server, each with its own body."""
    alive = []
    for id in range(1, JOB_COUNT + 2):
        client.send(b"peek %d\r\n" % id)
        line = client.line()
        if line.startswith(b"FOUND"):
            expected = body(id) if id <= JOB_COUNT else b"hi"
            assert client.take(len(expected) + 2) == expected + b"\r\n"
            alive.append(id)
    return alive


@dataclass(frozen=True)
class Place:
    """Where a record lies."""

    path: Path
    line: Line

    def overwrite(self, data: bytes = b"\xff" * 8, at: int = 0) -> None:
        """Damage the record, from one of its bytes on."""
        with self.path.open("r+b") as file:
            file.seek(self.line.offset + at)
            file.write(data)


def copy(source: Path, target: Path) -> Path:
    """A log of the test's own."""
    shutil.copytree(source, target)
    return target


def places(directory: Path) -> list[Place]:
    """Every record of a log."""
    found: list[Place] = []
    snapshot = Snapshot(directory)
    survey(snapshot, lambda each, data: found.extend(Place(directory / each.name, line) for line in lines(each, data)))
    snapshot.close()
    return found


def place_of(directory: Path, kind: Kind, id: int) -> Place:
    """The first record of a kind about a job."""
    return next(each for each in places(directory) if each.line.kind == kind and each.line.fields["job"] == id)


def contents(directory: Path) -> dict[str, tuple[bytes, int]]:
    """What every file of a directory holds, and when it was last written."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def segment_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("segment.*"))


def checked(path: Path) -> Check:
    """The result of a check, which changes nothing."""
    before = contents(path)
    snapshot = Snapshot(path)
    result = check(snapshot)
    snapshot.close()
    assert contents(path) == before
    return result


def start(path: Path) -> list[int]:
    """Start a server; return its jobs."""
    with server(path) as (_, client):
        return ids_alive(client)
