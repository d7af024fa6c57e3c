"""What a command costs a server with `--fronts` whose clients speak TLS, beside one whose clients don't.

Run with `python -m benchmarks.tls_fronts`. Two servers with a front each; fifty clients send each a few commands, wait
for the replies, and begin again. Rounds go in turn, so that whatever else the machine does meets both. Counted is the
processor time of the server's process and of its front's, by the kernel (`/proc/PID/schedstat`).
"""

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


class Server:
    """A server with a front, and clients of it."""

    def __init__(self, stack: ExitStack, *, tls: bool) -> None:
        pair = made("server", f"subjectAltName=IP:{servers.HOST}")
        listen = f"{'tls:' if tls else ''}{servers.HOST}:0"
        files = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key)) if tls else ()
        server = stack.enter_context(servers.beanpole_server("--fronts", "1", *files, listen=listen))
        pid, port = server.pid, server.port
        self.pids = (pid, int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]))
        self.clients: list[socket.socket] = []
        for number in range(CONNECTIONS):
            client = stack.enter_context(socket.create_connection((servers.HOST, port)))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                context = ssl.create_default_context(cafile=str(pair.cert))
                client = stack.enter_context(context.wrap_socket(client, server_hostname=servers.HOST))
            client.sendall(b"use t%d\r\nwatch t%d\r\nignore default\r\n" % (number, number))
            self.read(client, 3)
            self.clients.append(client)

    @staticmethod
    def read(client: socket.socket, lines: int) -> None:
        found = b""
        while found.count(b"\r\n") < lines:
            found += client.recv(1 << 16)

    def step(self, count: int) -> list[float]:
        """Let each client send so many commands a turn; return the microseconds of each process for one."""
        before = [self.used_ns(pid) for pid in self.pids]
        commands = b"".join(COMMANDS[at % 3] for at in range(count))
        lines = sum((1, 2, 1)[at % 3] for at in range(count))
        for _ in range(TURNS):
            for each in self.clients:
                each.sendall(commands)
            for each in self.clients:
                self.read(each, lines)
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
