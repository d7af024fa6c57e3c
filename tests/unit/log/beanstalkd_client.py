"""Makes a real beanstalkd write its log, and asks it what it knows of its jobs."""

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from beanpole.log.migration.beanstalkd_binlog import BinlogJob
from tests.servers import Server, beanstalkd_server


class Client:
    """A connection that sends a command and reads its reply."""

    def __init__(self, server: Server) -> None:
        self._socket = server.connect()
        self._replies = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._replies.close()
        self._socket.close()

    def ask(self, line: str, body: bytes | None = None) -> list[str]:
        """The words of a reply; what follows its line is the last word, decoded as Latin-1."""
        self._socket.sendall(line.encode() + b"\r\n" + (b"" if body is None else body + b"\r\n"))
        words = self._replies.readline().decode().split()
        if not words:
            raise ConnectionError("beanstalkd has closed the connection")
        if words[0] in {"OK", "FOUND", "RESERVED"}:
            words.append(self._replies.read(int(words[-1]) + 2)[:-2].decode("latin-1"))
        return words

    def put(self, tube: str, body: bytes, *, pri: int = 1000, delay_s: int = 0, ttr_s: int = 60) -> int:
        """The id of a new job."""
        assert self.ask(f"use {tube}") == ["USING", tube]
        words = self.ask(f"put {pri} {delay_s} {ttr_s} {len(body)}", body)
        assert words[0] == "INSERTED", words
        return int(words[1])

    def do(self, line: str) -> str:
        return self.ask(line)[0]

    def stats(self, line: str = "stats") -> dict[str, str]:
        """What a stats command says, without quotes."""
        words = self.ask(line)
        assert words[0] == "OK", words
        return {key: value.strip('"') for key, _, value in (row.partition(": ") for row in words[2].splitlines()[1:])}


@dataclass(frozen=True)
class Seen:
    """What beanstalkd says of a job, in its own units."""

    tube: str
    state: str
    body: bytes
    pri: int
    delay_s: int
    ttr_s: int
    counts: tuple[int, int, int, int, int]


def ask_all(server: Server, ids: range) -> tuple[dict[int, Seen], dict[int, dict[str, str]], dict[int, int]]:
    """What a server knows of jobs: what it should agree on with the reader, all of `stats-job`, and when it said so."""
    seen, stats, asked_ns = {}, {}, {}
    with Client(server) as client:
        for id in ids:
            words = client.ask(f"peek {id}")
            if words[0] != "FOUND":
                continue
            row = stats[id] = client.stats(f"stats-job {id}")
            asked_ns[id] = time.time_ns()
            reserves, timeouts, releases, buries, kicks = (
                int(row[key]) for key in ("reserves", "timeouts", "releases", "buries", "kicks")
            )
            if row["state"] == "buried":
                buries -= 1  # beanstalkd counts one more for each buried job when it starts
            counts = reserves, timeouts, releases, buries, kicks
            numbers = int(row["pri"]), int(row["delay"]), int(row["ttr"])
            seen[id] = Seen(row["tube"], row["state"], words[3].encode("latin-1"), *numbers, counts)
    return seen, stats, asked_ns


def as_seen(job: BinlogJob, now_ns: int) -> Seen:
    """What beanstalkd should say of a job that was read; a delayed one that is due is ready."""
    counts = job.reserve_count, job.timeout_count, job.release_count, job.bury_count, job.kick_count
    state = "ready" if job.state == "delayed" and job.deadline_at_ns <= now_ns else job.state
    return Seen(job.tube.decode(), state, job.body, job.pri, job.delay_s, job.ttr_s, counts)


def compare_with_beanstalkd(folder: Path, jobs: dict[int, BinlogJob], next_id: int) -> None:
    """Starts beanstalkd on a copy of a directory, and compares every field of every job with what was read there."""
    copy = folder.with_name(folder.name + "-copy")
    shutil.copytree(folder, copy)
    with beanstalkd_server("-b", str(copy), "-f", "0", "-s", "1000000") as server:
        seen, stats, asked_ns = ask_all(server, range(1, next_id + 5))
    shutil.rmtree(copy)
    assert {id: as_seen(job, asked_ns.get(id, 0)) for id, job in jobs.items()} == seen
    for id, row in stats.items():
        job, now_ns = jobs[id], asked_ns[id]
        assert abs((now_ns - job.created_at_ns) // 1_000_000_000 - int(row["age"])) <= 2
        if row["state"] == "delayed":
            assert abs((job.deadline_at_ns - now_ns) // 1_000_000_000 - int(row["time-left"])) <= 2


@contextmanager
def killed_beanstalkd(folder: Path, file_bytes: int) -> Iterator[Server]:
    """A beanstalkd that logs into a directory and is killed at the end, so that it tidies nothing up."""
    folder.mkdir(exist_ok=True)
    with beanstalkd_server("-b", str(folder), "-f", "0", "-s", str(file_bytes)) as server:
        try:
            yield server
        finally:
            server.signal(signal.SIGKILL)
