"""How long the engine is busy in one go with what concerns very many jobs or tubes: the longest of its pieces.

Run with `python -m benchmarks.pieces`. Everything happens in this process, over connections without sockets, and what
is measured is processor time, so that it hardly depends on what else the machine does.
"""

import sys
import time
from collections.abc import Callable

from beanpole.engine.engine import Engine
from beanpole.engine.limits import TOKENS_PER_TICK
from beanpole.server.connection import Connection

NOW_NS = 1
JOBS = 1_000_000
DEATHS = 200_000
TUBES = 200_000
SECOND_NS = 1_000_000_000
BATCH = 1_000


class Server:
    """An engine, connections to it, and the longest call."""

    def __init__(self) -> None:
        self.engine = Engine(now_ns=NOW_NS)
        self.client = Connection(self.engine, NOW_NS)
        self.other = Connection(self.engine, NOW_NS)
        self.longest_ns = self.total_ns = self.count = 0

    def time(self, call: Callable[[], object]) -> None:
        """Make a call, and take its time."""
        before = time.thread_time_ns()
        call()
        took_ns = time.thread_time_ns() - before
        self.longest_ns = max(self.longest_ns, took_ns)
        self.total_ns += took_ns
        self.count += 1

    def send(self, data: bytes, connection: Connection | None = None, *, timed: bool = False) -> None:
        """Send commands, and run them to their end."""
        to = connection or self.client
        run = self.time if timed else _call
        run(lambda: to.receive(NOW_NS, data))
        to.take_output()
        while to.pending:
            run(lambda: to.resume(NOW_NS))
            to.take_output()

    def end(self, connection: Connection) -> None:
        """Close a connection, and go on until nothing of it is left."""
        self.time(lambda: connection.close(NOW_NS))
        while 0 <= self.engine.next_deadline_ns <= NOW_NS:
            self.time(lambda: self.engine.tick(NOW_NS))

    def pass_time(self, duration_ns: int) -> None:
        """Let time pass, and do everything that is due then."""
        now_ns = NOW_NS + duration_ns
        while 0 <= self.engine.next_deadline_ns <= now_ns:
            self.time(lambda: self.engine.tick(now_ns))

    def hold(self, count: int) -> None:
        """Let the client hold jobs of the tube t."""
        self.send(b"use t\r\nwatch t\r\n")
        for _ in range(count // BATCH):
            self.send(b"put 0 0 60 1\r\nx\r\n" * BATCH)
            self.send(b"reserve-many %d 0\r\n" % BATCH)

    def watch(self, count: int, connection: Connection | None = None) -> None:
        """Let a client watch tubes."""
        for first in range(0, count, BATCH):
            self.send(b"".join(b"watch t%d\r\n" % each for each in range(first, first + BATCH)), connection)


def _call(call: Callable[[], object]) -> None:
    call()


def end_of_holder(server: Server) -> None:
    """A client ends that holds a million jobs."""
    server.hold(JOBS)
    server.end(server.client)


def deaths(server: Server) -> None:
    """A client ends that holds 200 000 jobs, which die by that."""
    server.send(b"set-rules t 19\r\nattempts: 1\ndead: d\r\n")
    server.hold(DEATHS)
    server.end(server.client)


def times_to_run(server: Server) -> None:
    """The times to run of 200 000 jobs end."""
    server.hold(DEATHS)
    server.pass_time(60 * SECOND_NS)


def deaths_in_time(server: Server) -> None:
    """The same, and the jobs die by that."""
    server.send(b"set-rules t 19\r\nattempts: 1\ndead: d\r\n")
    server.hold(DEATHS)
    server.pass_time(60 * SECOND_NS)


def expiry(server: Server) -> None:
    """200 000 jobs have waited too long."""
    for _ in range(DEATHS // BATCH):
        server.send(b"put-job 1 expire=1\r\nx\r\n" * BATCH)
    server.pass_time(SECOND_NS)


def tokens(server: Server) -> None:
    """Puts with a million tokens, ten at a time, which then end in the same second."""
    for first in range(0, JOBS, 10):
        puts = [b"put-job 0 key=k once=%d for=60\r\n\r\n" % each for each in range(first, first + 10)]
        server.send(b"".join(puts), timed=True)
    assert server.engine.once.count == JOBS
    for second in range(61, 61 + JOBS // TOKENS_PER_TICK):
        server.pass_time(second * SECOND_NS)
    assert server.engine.once.count == 0


def end_of_watcher(server: Server) -> None:
    """A client ends that watches 200 000 tubes, and waits."""
    server.watch(TUBES)
    server.send(b"reserve\r\n")
    server.end(server.client)


def reserve(server: Server) -> None:
    """A reserve over 200 000 tubes that are empty."""
    server.watch(TUBES)
    for _ in range(20):
        server.send(b"reserve-with-timeout 0\r\n", timed=True)


def reserve_full(server: Server) -> None:
    """A reserve over 200 000 tubes that have a job each, of which another client took some."""
    server.watch(TUBES)
    server.watch(TUBES, server.other)
    for first in range(0, TUBES, BATCH):
        server.send(b"".join(b"put-job 1 tube=t%d\r\nx\r\n" % each for each in range(first, first + BATCH)))
    for _ in range(20):
        server.send(b"reserve-many 1000 0\r\n", server.other)
        server.send(b"reserve-with-timeout 0\r\n", timed=True)


def wait(server: Server) -> None:
    """A reserve over 200 000 tubes that waits, and the put that ends that."""
    server.watch(TUBES)
    for _ in range(20):
        server.send(b"reserve\r\n", timed=True)
        server.send(b"put 0 0 60 1\r\nx\r\n", server.other, timed=True)


def names(server: Server) -> None:
    """A list-tubes-watched of 200 000 tubes."""
    server.watch(TUBES)
    server.send(b"list-tubes-watched\r\n", timed=True)


def rules(server: Server) -> None:
    """A set-rules of 4 KiB."""
    text = b"attempts: 2\n" + b"\n" * 4_000
    for _ in range(20):
        server.send(b"set-rules t %d\r\n%b\r\n" % (len(text), text), timed=True)
        server.send(b"drop-rules t\r\n")


CASES = {
    "a holder of a million jobs ends": end_of_holder,
    "a holder of 200 000 ends, who die": deaths,
    "the times to run of 200 000 end": times_to_run,
    "the same, and they die": deaths_in_time,
    "200 000 expire": expiry,
    "a million tokens of puts come and end": tokens,
    "a watcher of 200 000 tubes ends": end_of_watcher,
    "reserve over 200 000 tubes": reserve,
    "the same, with jobs": reserve_full,
    "the same, waiting": wait,
    "list-tubes-watched of 200 000": names,
    "set-rules of 4 KiB": rules,
}


def main() -> None:
    """Measure each case on an engine of its own."""
    sys.stdout.write(f"{'ms of processor time':<40}{'longest':>9}{'all':>9}{'pieces':>8}\n")
    for name, case in CASES.items():
        server = Server()
        case(server)
        figures = f"{server.longest_ns / 1e6:>9.2f}{server.total_ns / 1e6:>9.1f}{server.count:>8}"
        sys.stdout.write(f"{name:<40}{figures}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
