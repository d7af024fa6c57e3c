"""What one user's flood leaves to another: throughput and waiting time of a quiet user, alone and beside it.

Run with `python -m benchmarks.tenants`. Fifty connections of a user put, sixteen commands in flight each.
Beside them a thousand connections of another user pipeline puts, `stats`, kicks and `use` of ever new tubes, as fast as
the server answers. Both come to the same server by listeners of their own; the flood is a process of its own, which on
a machine with two cores takes the quiet user's, too.
"""

import contextlib
import multiprocessing
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

QUIET, RUDE, IN_FLIGHT = 50, 1_000, 16
SECONDS = 5
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


def quiet(port: int) -> tuple[float, float]:
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
            each.sendall(PUT * IN_FLIGHT)
        for each in connections:
            left = IN_FLIGHT
            while left > 0:
                left -= each.recv(1 << 16).count(b"\n")
            waits.append(time.perf_counter() - asked_s)
    rate = IN_FLIGHT * len(waits) / (time.monotonic() - began_s)
    for each in connections:
        each.close()
    return rate, statistics.quantiles(waits, n=100)[98] * 1_000


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    """Measure the quiet user alone and beside the flood, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        access = Path(folder, "access.toml")
        access.write_text(USERS)
        access.chmod(0o644)
        places = ("-l", f"{HOST}:0,user=quiet", "-l", f"{HOST}:0,user=rude")
        rounds = []
        for _ in range(ROUNDS):
            with serving(*places, "--access", str(access), listen=False) as process:
                ours, theirs = (int(each.rpartition(":")[2]) for each in process.addresses)
                alone = quiet(ours)
                ready = multiprocessing.Event()
                other = multiprocessing.Process(target=flood, args=(theirs, ready), daemon=True)
                other.start()
                ready.wait()
                rounds.append((alone, quiet(ours)))
                other.terminate()
                other.join()
        rates = statistics.median(beside[0] / alone[0] for alone, beside in rounds)
        waits = [statistics.median(each[place][1] for each in rounds) for place in (0, 1)]
        write(f"throughput beside the flood, × alone: {rates:.2f}\n")
        write(f"p99, ms: alone {waits[0]:.2f}, beside the flood {waits[1]:.2f}\n")


if __name__ == "__main__":
    main()
