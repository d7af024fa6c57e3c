"""A flood of workers on a tube with limits: never more than they say, and nobody starves."""

import selectors
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.process import Client, healthy

pytestmark = pytest.mark.long

WORKERS = 50
JOBS = 120
RATE = 60
CONCURRENCY = 3
GIVE_UP_S = 120.0
RULES = b"rate: %d/s burst 5\nconcurrency: %d\n" % (RATE, CONCURRENCY)


def test_fifty_workers_on_a_tube_with_limits(tmp_path: Path) -> None:
    """Each takes a job and deletes it, as fast as it can. What a worker believes to hold, it does hold."""
    with healthy("-b", str(tmp_path)) as server, ExitStack() as stack:
        boss = stack.enter_context(server.connect())
        began_s = time.monotonic()
        boss.ask(b"set-rules t %d\r\n%b\r\n" % (len(RULES), RULES), b"RULES_SET\r\n")
        for number in range(JOBS):
            boss.ask(b"put-job 1 tube=t\r\nx\r\n", b"INSERTED %d\r\n" % (number + 1))
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(WORKERS):
            worker = stack.enter_context(server.connect())
            selector.register(worker.socket, selectors.EVENT_READ, worker)
            worker.send(b"watch t\r\nignore default\r\nreserve\r\n")
        done: list[bytes] = []
        most_held = 0
        while len(done) < JOBS:
            assert time.monotonic() - began_s < GIVE_UP_S, f"only {len(done)} jobs are done"
            held: dict[Client, bytes] = {}
            for key, _ in selector.select(1):
                worker = key.data
                worker.fill()
                while b"\r\n" in worker.received:
                    line = worker.line()
                    if line.startswith(b"RESERVED "):
                        held[worker] = line.split()[1]
            most_held = max(most_held, len(held))
            for worker, id in held.items():
                worker.send(b"delete %b\r\nreserve\r\n" % id)
                done.append(id)
        assert most_held <= CONCURRENCY
        assert len(set(done)) == JOBS
        assert time.monotonic() - began_s >= JOBS / RATE, "faster than the rate"
