"""What one user's flood leaves to another: throughput and waiting time of a quiet user, alone and beside it.

Run with `python -m benchmarks.tenants`. Fifty connections of a user put, one command or sixteen in flight each. Beside
them a thousand connections of another user pipeline puts, `stats`, kicks and `use` of ever new tubes, as fast as the
server answers. Both come to the same server by listeners of their own; the flood is a process of its own, which on a
machine with two cores takes the quiet user's, too. So there are two more rows: beside a process that takes as much of
the processor and has nothing to do with the server, and beside the flood with the lowest priority, which has to do
with the server alone.
"""

import contextlib
import multiprocessing
import os
import selectors
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.e2e.process import serving
from tests.servers import HOST

QUIET, RUDE = 50, 1_000
IN_FLIGHT = (1, 16)
SECONDS = 3
ROUNDS = 3
USERS = """
[user.quiet]
put = ["quiet"]
reserve = ["quiet"]

[user.rude]
put = ["rude*"]
reserve = ["rude*"]
manage = ["rude*"]
"""
PUT = b"put 0 0 60 100\r\n" + b"x" * 100 + b"\r\n"


def flood(port: int, ready: Event) -> None:
    """Send as much as the server takes, and read what it answers."""
    chosen = selectors.DefaultSelector()
    for number in range(RUDE):
        connection = socket.create_connection((HOST, port))
        connection.setblocking(False)
        again = (PUT * 20 + b"use rude-%d\r\nstats\r\nkick 100\r\nstats-tube rude-%d\r\n" % (number, number)) * 4
        chosen.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, again)
    ready.set()
    while True:
        for key, events in chosen.select():
            with contextlib.suppress(BlockingIOError):
                if events & selectors.EVENT_READ:
                    key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(key.data)  # type: ignore[union-attr]


def patient_flood(port: int, ready: Event) -> None:
    """Do the same with what of the processor nobody else wants."""
    os.nice(19)
    flood(port, ready)


def spin(_: int, ready: Event) -> None:
    """Take the processor."""
    ready.set()
    while True:
        time.monotonic()


def quiet(port: int, in_flight: int) -> tuple[float, float]:
    """Return commands a second, and the 99th percentile of what each waited, in milliseconds."""
    connections = [socket.create_connection((HOST, port)) for _ in range(QUIET)]
    for each in connections:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.sendall(b"use quiet\r\nwatch quiet\r\nignore default\r\n")
        answered = b""
        while answered.count(b"\r\n") < 3:
            answered += each.recv(4096)
    waits, began_s = [], time.monotonic()
    while time.monotonic() - began_s < SECONDS:
        asked_s = time.perf_counter()
        for each in connections:
            each.sendall(PUT * in_flight)
        for each in connections:
            left = in_flight
            while left > 0:
                left -= each.recv(1 << 16).count(b"\n")
            waits.append(time.perf_counter() - asked_s)
    rate = in_flight * len(waits) / (time.monotonic() - began_s)
    for each in connections:
        each.close()
    return rate, statistics.quantiles(waits, n=100)[98] * 1_000


OTHERS: dict[str, Callable[[int, Event], None] | None] = {
    "alone": None,
    "beside who takes the processor": spin,
    "beside the flood": flood,
    "beside the flood, of lowest priority": patient_flood,
}


def beside(other: Callable[[int, Event], None] | None, ours: int, theirs: int, in_flight: int) -> tuple[float, float]:
    """Return what `quiet` does, while another process does what it does."""
    if other is None:
        return quiet(ours, in_flight)
    ready = multiprocessing.Event()
    process = multiprocessing.Process(target=other, args=(theirs, ready), daemon=True)
    process.start()
    ready.wait()
    found = quiet(ours, in_flight)
    process.kill()
    process.join()
    return found


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    """Measure the quiet user alone and beside others, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        access = Path(folder, "access.toml")
        access.write_text(USERS)
        access.chmod(0o644)
        places = ("-l", f"{HOST}:0,user=quiet", "-l", f"{HOST}:0,user=rude")
        write(f"{'':<48}{'commands/s':>12}{'× alone':>9}{'p99, ms':>9}\n")
        for in_flight in IN_FLIGHT:
            rounds = []
            for _ in range(ROUNDS):
                with serving(*places, "--access", str(access), listen=False) as process:
                    ours, theirs = (int(each.rpartition(":")[2]) for each in process.addresses)
                    rounds.append([beside(each, ours, theirs, in_flight) for each in OTHERS.values()])
            for at, name in enumerate(OTHERS):
                rate, p99_ms = (statistics.median(each[at][which] for each in rounds) for which in (0, 1))
                ratio = statistics.median(each[at][0] / each[0][0] for each in rounds)
                write(f"{f'{QUIET} × {in_flight}, {name}':<48}{rate:>12,.0f}{ratio:>9.2f}{p99_ms:>9.2f}\n")


if __name__ == "__main__":
    main()
