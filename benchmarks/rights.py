"""What users cost: processor time of the server for a command, without users and with rights by 20 patterns.

Run with `python -m benchmarks.rights`. Fifty connections put, reserve and delete jobs of 100 bytes, so many in flight
each; both servers, one after the other in each round, so that what else runs is in both. The figure is the median of
the rounds' ratios. The connections of the second server are one user's, by their listener.
"""

import socket
import ssl
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.flood import cpu_ns
from tests.e2e.process import serving
from tests.servers import HOST

CONNECTIONS = 50
IN_FLIGHT = (1, 16, 100)
JOBS = 12_000  # of a round
ROUNDS = 15
TIMEOUT_S = 60
PUT = b"put 0 0 60 100\r\n" + b"x" * 100 + b"\r\n"
PATTERNS = [f"tube-{number}-*" for number in range(19)] + ["jobs"]
USERS = f"[user.shop]\nput = {PATTERNS}\nreserve = {PATTERNS}\n"
SERVERS = {"without": "", "with users": USERS}


class Load:
    """Connections to one server, which may be of several processes."""

    def __init__(self, pids: Sequence[int], port: int, context: ssl.SSLContext | None = None) -> None:
        self.pids = pids
        self.sockets = [socket.create_connection((HOST, port), TIMEOUT_S) for _ in range(CONNECTIONS)]
        if context is not None:
            self.sockets = [context.wrap_socket(each, server_hostname="localhost") for each in self.sockets]
        self.ids: list[list[int]] = []
        self.each(b"use jobs\r\nwatch jobs\r\nignore default\r\n", 3)

    def cpu_ns(self) -> int:
        return sum(map(cpu_ns, self.pids))

    def each(self, said: bytes, lines: int) -> list[list[bytes]]:
        """Say the same on each connection; return the lines that are answered, so many."""
        for each in self.sockets:
            each.sendall(said)
        return [self.read(each, lines) for each in self.sockets]

    def read(self, connection: socket.socket, lines: int) -> list[bytes]:
        said = b""
        while said.count(b"\r\n") < lines:
            said += connection.recv(1 << 20)
        return said.split(b"\r\n")

    def run(self, depth: int) -> float:
        """Put, reserve and delete; return the processor time of a command, in nanoseconds."""
        before_ns = self.cpu_ns()
        turns = JOBS // (CONNECTIONS * depth)
        for _ in range(turns):
            self.each(PUT * depth, depth)
            reserved = self.each(b"reserve\r\n" * depth, 2 * depth)
            for connection, lines in zip(self.sockets, reserved, strict=True):
                connection.sendall(b"".join(b"delete %b\r\n" % line.split()[1] for line in lines[:-1:2]))
            for connection in self.sockets:
                self.read(connection, depth)
        return (self.cpu_ns() - before_ns) / (3 * turns * CONNECTIONS * depth)


def flags(folder: Path, name: str, text: str) -> list[str]:
    """The flags of a server with a file of users; empty: without."""
    if not text:
        return ["-l", f"{HOST}:0"]
    access = folder / f"{name}.toml"
    access.write_text(text)
    access.chmod(0o644)
    return ["-l", f"{HOST}:0,user=shop", "--access", str(access)]


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    """Measure the servers in turn."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [
            stack.enter_context(serving(*flags(folder, name, text), listen=False)) for name, text in SERVERS.items()
        ]
        loads = [Load([each.pid], each.port) for each in servers]
        write(f"{'ns of a command':<12}" + "".join(f"{each:>16}" for each in SERVERS) + "\n")
        for depth in IN_FLIGHT:
            rounds = [[load.run(depth) for load in loads] for _ in range(ROUNDS)]
            found = [statistics.median(column) for column in zip(*rounds, strict=True)]
            ratios = [statistics.median(each[at] / each[0] for each in rounds) for at in range(len(SERVERS))]
            row = [f"{ns:,.0f} {ratio:.3f} ×" for ns, ratio in zip(found, ratios, strict=True)]
            write(f"50 × {depth:<7}" + "".join(f"{each:>16}" for each in row) + "\n")


if __name__ == "__main__":
    main()
