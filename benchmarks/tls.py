"""What TLS costs a server: a turn's processor time over encrypted connections, beside plain ones.

Run with `python -m benchmarks.tls`. Fifty clients send a turn's commands each, over the loopback interface in one
process; what is counted is the processor time of the turn that reads, runs and answers them, engine included. Plain and
encrypted turns go in turn, so that whatever else the machine does meets both.
"""

import socket
import ssl
import statistics
import sys
import time
from types import SimpleNamespace

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.epoll import EpollTransport
from beanpole.server.tls import TlsSocket
from beanpole.server.tlsfilter import Filter
from beanpole.server.turn import Turn
from tests.unit.server.tls import ends

CONNECTIONS = 50
TURNS = 60
ROUNDS = 9
COMMANDS = (b"put 0 0 60 5\r\nhello\r\n", b"reserve\r\n", b"peek-ready\r\n")


class Client:
    """One end of a connection to the server; `tls` encrypts what it sends."""

    def __init__(self, server: "Server", version: ssl.TLSVersion | None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.socket = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
        for each in (self.socket, theirs):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls: ssl.SSLObject | None = None
        if version is None:
            server.clients.take(theirs.detach(), False)
            return
        (self.tls, self.incoming, self.outgoing), there = ends(version)
        server.clients.take(theirs.detach(), False, TlsSocket(Filter(*there)))

    def send(self, data: bytes) -> None:
        if self.tls is not None:
            self.tls.write(data)
            data = self.outgoing.read()
        self.socket.sendall(data)

    def receive(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if self.tls is None:
            return data
        self.incoming.write(data)
        return self.tls.read(1 << 16)


class Server:
    """A server in this process, and clients of it."""

    def __init__(self, version: ssl.TLSVersion | None) -> None:
        log = Log()
        engine = Engine(now_ns=time.monotonic_ns(), records=log.records)
        loop = SimpleNamespace(call_soon=lambda _: None)
        observer = SimpleNamespace(turn_slow=lambda _: None)
        self.turn = Turn(engine, log)
        self.clients = EpollTransport(self.turn, loop, observer)  # type: ignore[arg-type]
        self.all = [Client(self, version) for _ in range(CONNECTIONS)]
        for number, each in enumerate(self.all):
            each.send(b"use t%d\r\nwatch t%d\r\nignore default\r\n" % (number, number))
        self.run()
        for each in self.all:
            each.receive()

    def run(self) -> int:
        """Run turns while there is something to do; return the nanoseconds of processor time."""
        began_ns = time.thread_time_ns()
        self.clients.run()
        while self.turn.busy:
            self.clients.run()
        return time.thread_time_ns() - began_ns

    def step(self, count: int) -> int:
        """Let each client send so many commands, and read what they answer; return what that took, as `run` does."""
        for each in self.all:
            each.send(b"".join(COMMANDS[at % 3] for at in range(count)))
        took_ns = self.run()
        for each in self.all:
            each.receive()
        return took_ns


def main() -> None:
    """Measure each number of commands."""
    sys.stdout.write(f"{'µs of processor time a connection and turn':<46}{'plain':>8}{'TLS':>8}{'':>8}\n")
    for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        plain, encrypted = Server(None), Server(version)
        for count in (1, 16, 100):
            found: dict[str, list[float]] = {"plain": [], "tls": []}
            for _ in range(ROUNDS):
                for name, server in (("plain", plain), ("tls", encrypted)):
                    took = sum(server.step(count) for _ in range(TURNS))
                    found[name].append(took / TURNS / CONNECTIONS / 1_000)
            before, after = statistics.median(found["plain"]), statistics.median(found["tls"])
            name = f"{version.name}, {CONNECTIONS} connections, {count} commands each"
            sys.stdout.write(f"{name:<46}{before:>8.2f}{after:>8.2f}{after / before:>6.2f} ×\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
