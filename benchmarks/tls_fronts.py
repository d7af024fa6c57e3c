"""What a command costs a server with `--fronts` whose clients speak TLS, beside one whose clients don't.

Run with `python -m benchmarks.tls_fronts`. Two servers with a front each; fifty clients send each a few commands, wait
for the replies, and begin again; what they send is encrypted before the first sends, so that it comes as fast with TLS
as without. Rounds go in turn, so that whatever else the machine does meets both. Counted is the
processor time of the server's process and of its front's, by the kernel (`/proc/PID/schedstat`).
"""

import contextlib
import socket
import ssl
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

from tests import servers
from tests.certificates import made

CONNECTIONS = 50
TURNS = 100
ROUNDS = 11
COMMANDS = (b"put 0 0 60 5\r\nhello\r\n", b"reserve\r\n", b"peek-ready\r\n")


class Client:
    """One client, of which the benchmark moves the bytes."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext | None) -> None:
        self.socket = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        if context is not None:
            self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=servers.HOST)
            while True:
                try:
                    self.tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    self.socket.sendall(self.outgoing.read())
                    self.incoming.write(self.socket.recv(1 << 16))
            self.socket.sendall(self.outgoing.read())

    def seal(self, data: bytes) -> bytes:
        if self.tls is None:
            return data
        self.tls.write(data)
        return self.outgoing.read()

    def read(self, lines: int) -> None:
        """Read until so many lines have come."""
        while lines > 0:
            data = self.socket.recv(1 << 16)
            assert data
            if self.tls is None:
                lines -= data.count(b"\r\n")
                continue
            self.incoming.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                while True:
                    lines -= self.tls.read(1 << 16).count(b"\r\n")


class Server:
    """A server with a front, and clients of it."""

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        pair = made("server", f"subjectAltName=IP:{servers.HOST}")
        listen = f"{'tls:' if tls else ''}{servers.HOST}:0"
        files = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key)) if tls else ()
        server = stack.enter_context(servers.beanpole_server("--fronts", "1", *files, listen=listen))
        pid, port = server.pid, server.port
        self.pids = (pid, int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]))
        context = ssl.create_default_context(cafile=str(pair.cert)) if tls else None
        self.clients: list[Client] = []
        for number in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection((servers.HOST, port)))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = Client(connection, context)
            connection.sendall(client.seal(b"use t%d\r\nwatch t%d\r\nignore default\r\n" % (number, number)))
            client.read(3)
            self.clients.append(client)

    def step(self, count: int) -> list[float]:
        """Let each client send so many commands a turn; return the microseconds of each process for one."""
        before = [self.used_ns(pid) for pid in self.pids]
        commands = b"".join(COMMANDS[at % 3] for at in range(count))
        lines = sum((1, 2, 1)[at % 3] for at in range(count))
        for _ in range(TURNS):
            sealed = [(each.socket, each.seal(commands)) for each in self.clients]
            for connection, data in sealed:
                connection.sendall(data)
            for each in self.clients:
                each.read(lines)
        each_ns = (self.used_ns(pid) - used for pid, used in zip(self.pids, before, strict=True))
        return [used / TURNS / CONNECTIONS / count / 1_000 for used in each_ns]

    @staticmethod
    def used_ns(pid: int) -> int:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks)


def main() -> None:
    """Measure each number of commands."""
    sys.stdout.write(f"{'µs of processor time a command':<40}{'plain':>8}{'TLS':>8}{'':>8}\n")
    with ExitStack() as stack:
        both = Server(stack, tls=False), Server(stack, tls=True)
        for count in (1, 16):
            rounds = [[each.step(count) for each in both] for _ in range(ROUNDS)]
            for number, process in enumerate(("server", "front")):
                plain, encrypted = ([each[which][number] for each in rounds] for which in range(2))
                ratio = statistics.median(after / before for before, after in zip(plain, encrypted, strict=True))
                name = f"{process}, {CONNECTIONS} connections, {count} at a time"
                medians = f"{statistics.median(plain):>8.2f}{statistics.median(encrypted):>8.2f}"
                sys.stdout.write(f"{name:<40}{medians}{ratio:>6.2f} ×\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
