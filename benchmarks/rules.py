"""What rules of a tube, and keys of jobs, cost a command and a job.

Run with `python -m benchmarks.rules [JOBS]`. On one server, connections put, reserve and delete in tubes without rules
and in tubes with, a round here and a round there, so that whatever else the machine does meets both. What counts is the
processor time of the server. Then puts into a tube that has JOBS jobs (a million) already, plain and with what must not
be there twice or expires, and the memory for these jobs, each on a server of its own.
"""

import argparse
import re
import socket
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from beanpole.log.tools.inspect import survey
from beanpole.log.tools.snapshot import Snapshot
from tests.servers import HOST, Server, beanpole_server

CONNECTIONS = 50
BODY_BYTES = 100
ROUNDS = 21
ROUND_COMMANDS = 30_000
PUTS = 200
PUT_COMMANDS = 5_000
ONCE_SPARE = 10_000_000
"""Tokens that there may be beyond the jobs that a tube has when measuring begins."""

LOG_JOBS = 50_000
LOG_FILE_BYTES = 100_000_000
"""Of a file of the log, so that nothing is compacted."""

RESERVED = re.compile(rb"RESERVED (\d+) \d+\r\n")
RULES = {
    "attempts, backoff": b"attempts: 5\nbackoff: 10\n",
    "attempts, backoff, dead": b"attempts: 5\nbackoff: 10\ndead: dead\n",
    "concurrency, not reached": b"concurrency: 1000000\n",
    "breaker, beside backoff": b"backoff: 10\nbreaker: 50% of 20 in 60s\n",
    "rate, not reached": b"rate: 1000000/s\n",
    "jobs-max, bytes-max, not reached": b"jobs-max: 10000000\nbytes-max: 100000000000\n",
    "expire": b"expire: 86400\n",
    "unique: body": b"unique: body\n",
}
"""The rules that are measured, by what the table calls them."""

BASES = {"breaker, beside backoff": b"backoff: 10\n"}
"""The rules that the tubes have with which these are compared, where they have any."""

KEEPS = "keep-session"
"""No rule, but measured like one: the sessions in those tubes keep their jobs."""


class Talk:
    """A connection that sends many commands and then reads all replies."""

    def __init__(self, port: int, tube: bytes = b"default") -> None:
        self.socket = socket.create_connection((HOST, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(600)
        if tube != b"default":
            self.ask(b"use %b\r\nwatch %b\r\nignore default\r\n" % (tube, tube), 3)

    def ask(self, commands: bytes, lines: int) -> bytes:
        """Sends commands and reads replies, of so many lines together."""
        self.socket.sendall(commands)
        return self.read(lines)

    def read(self, lines: int) -> bytes:
        """Reads so many lines."""
        got = bytearray()
        while got.count(b"\n") < lines:
            piece = self.socket.recv(1 << 20)
            assert piece, "the server has closed the connection"
            got += piece
        return bytes(got)


class Crowd:
    """Connections that put, reserve and delete, so many commands in flight each, in a tube of its own each."""

    def __init__(
        self,
        port: int,
        name: bytes,
        in_flight: int,
        one: Callable[[int], bytes] | None = None,
        *,
        together: bool = False,
    ) -> None:
        """All of them are in one tube if they are `together`; `one` says how they put, if not by `put`."""
        tubes = [name if together else b"%b-%d" % (name, number) for number in range(CONNECTIONS)]
        self.talks = [Talk(port, tube) for tube in tubes]
        self.in_flight = in_flight
        self.number = 0
        self.one = one or put

    def keep(self) -> None:
        """Lets each session keep its jobs when it loses its connection."""
        self.all([b"keep-session 10 %032x\r\n" % number for number in range(CONNECTIONS)], 1)

    def all(self, commands: list[bytes], lines: int) -> list[bytes]:
        """Sends to all, then reads from all."""
        for talk, data in zip(self.talks, commands, strict=True):
            talk.socket.sendall(data)
        return [talk.read(lines) for talk in self.talks]

    def cycle(self) -> int:
        """Puts, reserves and deletes once; returns how many commands it were."""
        count = self.in_flight
        self.number += count
        puts = b"".join(self.one(self.number + each) for each in range(count))
        self.all([puts] * CONNECTIONS, count)
        replies = self.all([b"reserve\r\n" * count] * CONNECTIONS, 2 * count)
        ids = [RESERVED.findall(reply) for reply in replies]
        self.all([b"".join(b"delete %b\r\n" % id for id in each) for each in ids], count)
        return 3 * count * CONNECTIONS


def put(number: int, start: bytes = b"put 0 0 60 %d\r\n" % BODY_BYTES) -> bytes:
    """A put of a body that no other job has."""
    return start + b"%0*d\r\n" % (BODY_BYTES, number)


def set_rules(server: Server, pattern: bytes, rules: bytes) -> None:
    """Sets rules, which must be taken."""
    answer = Talk(server.port).ask(b"set-rules %b %d\r\n%b\r\n" % (pattern, len(rules), rules), 1)
    assert answer == b"RULES_SET\r\n", answer


def used(server: Server, run: Callable[[], int], commands: int) -> float:
    """Nanoseconds of processor time for each of the commands that are run."""
    before, count = cpu_ns(server.pid), 0
    while count < commands:
        count += run()
    return (cpu_ns(server.pid) - before) / count


def compare(server: Server, name: str, runs: tuple[Callable[[], int], Callable[[], int]], commands: int) -> None:
    """Runs both in turn and prints a line: nanoseconds a command, and how often as much as without."""
    plain, other = runs
    plain(), other()
    pairs = [(used(server, plain, commands), used(server, other, commands)) for _ in range(ROUNDS)]
    ratios = sorted(after / before for before, after in pairs)
    middle = [statistics.median(each) for each in zip(*pairs, strict=True)]
    say(
        f"{name:<52}{middle[0]:>9.0f}{middle[1]:>9.0f}{statistics.median(ratios):>8.3f}{ratios[0]:>8.3f}{ratios[-1]:>8.3f}"
    )


def cpu_ns(pid: int) -> int:
    """Processor time that all threads of a process have used."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


def say(line: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@contextmanager
def logged(*, log: bool) -> Iterator[Server]:
    """A server, with a log or without."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory()) if log else ""
        yield stack.enter_context(beanpole_server(*(("-b", folder) if log else ())))


def cycles(names: list[str], in_flights: tuple[int, ...]) -> None:
    """Compares put, reserve and delete with rules and without."""
    for log in (False, True):
        for name in names:
            for in_flight in in_flights:
                with logged(log=log) as server:
                    if name in BASES:
                        set_rules(server, b"plain-*", BASES[name])
                    plain, ruled = (Crowd(server.port, each, in_flight) for each in (b"plain", b"ruled"))
                    if name == KEEPS:
                        ruled.keep()
                    else:
                        set_rules(server, b"ruled-*", RULES[name])
                    title = f"{name}, {CONNECTIONS}x{in_flight}{', log' * log}"
                    compare(server, title, (plain.cycle, ruled.cycle), ROUND_COMMANDS)


KINDS: dict[str, Callable[[int], bytes]] = {
    "put": put,
    "put-job": lambda number: put(number, b"put-job %d\r\n" % BODY_BYTES),
    "put-job, a key of 12 bytes": lambda number: put(number, b"put-job %d key=%012d\r\n" % (BODY_BYTES, number)),
    "put-job, expire": lambda number: put(number, b"put-job %d expire=86400\r\n" % BODY_BYTES),
    "put, unique: body": put,
    "put-job, once=, beside put-job": lambda number: put(
        number, b"put-job %d once=token-%012d for=3600\r\n" % (BODY_BYTES, number)
    ),
}
"""How jobs are put that must not be there twice, or expire, and how others are."""


def puts(jobs: int, names: list[str], in_flights: tuple[int, ...]) -> None:
    """Compares puts into tubes that have many jobs already."""
    for name in names:
        with beanpole_server("--once-max", str(2 * jobs + ONCE_SPARE)) as server:
            if "unique" in name:
                set_rules(server, b"other", RULES["unique: body"])
            plain = KINDS["put-job"] if name.endswith("beside put-job") else put
            putters = [Putters(server, b"plain", plain), Putters(server, b"other", KINDS[name])]
            memory = []
            for putter in putters:
                before = resident(server)
                putter.fill(jobs)
                memory.append((resident(server) - before) / jobs)
            for in_flight in in_flights:
                title = f"{name}, beside {jobs} jobs, {CONNECTIONS}x{in_flight}"
                runs = [partial(putter.run, in_flight) for putter in putters]
                compare(server, title, (runs[0], runs[1]), PUT_COMMANDS)
            say(f"{'    bytes of memory a job':<52}{memory[0]:>9.0f}{memory[1]:>9.0f}{memory[1] - memory[0]:>+8.0f}")


class Putters:
    """Connections that put jobs into one tube, so many in flight each."""

    def __init__(self, server: Server, tube: bytes, one: Callable[[int], bytes]) -> None:
        self.talks = [Talk(server.port, tube) for _ in range(CONNECTIONS)]
        self.one = one
        self.number = 0

    def fill(self, jobs: int) -> None:
        """Puts so many jobs."""
        while self.number < jobs:
            self.run(PUTS)

    def run(self, in_flight: int) -> int:
        """Puts some jobs; returns how many."""
        for talk in self.talks:
            talk.socket.sendall(b"".join(self.one(self.number + each) for each in range(in_flight)))
            self.number += in_flight
        for talk in self.talks:
            talk.read(in_flight)
        return in_flight * CONNECTIONS


def resident(server: Server) -> int:
    """Bytes of memory that the server has."""
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096


def log_bytes(names: list[str]) -> None:
    """Prints how many bytes of the log a job takes that is put, reserved and deleted."""
    for name in ["no rules", *names]:
        with tempfile.TemporaryDirectory() as folder:
            with beanpole_server("-b", folder, "-s", str(LOG_FILE_BYTES)) as server:
                if name in RULES:
                    set_rules(server, b"ruled-*", RULES[name])
                crowd, count = Crowd(server.port, b"ruled", 100), 0
                if name == KEEPS:
                    crowd.keep()
                while count < 3 * LOG_JOBS:
                    count += crowd.cycle()
            with closing(Snapshot(Path(folder))) as snapshot:
                runs = [run for segment in survey(snapshot).segments for run in segment.runs]
            written = sum(end - start for start, end in runs)
            say(f"{f'{name}: bytes of the log a job':<52}{written / (count / 3):>9.1f}")


def main() -> None:
    """Measure our own server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--rules", nargs="*", default=[*RULES, KEEPS], choices=[*RULES, KEEPS])
    parser.add_argument("--puts", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--in-flight", nargs="*", type=int, default=[1, 16, 100])
    given = parser.parse_args()
    say(f"{'processor time of the server, ns a command':<52}{'plain':>9}{'with':>9}{'ratio':>8}{'least':>8}{'most':>8}")
    cycles(given.rules, tuple(given.in_flight))
    log_bytes(given.rules)
    puts(given.jobs, given.puts, tuple(given.in_flight))


if __name__ == "__main__":
    main()
