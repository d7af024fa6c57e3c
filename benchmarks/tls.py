"""What TLS costs a server: a turn's processor time over encrypted connections, beside plain ones.

Run with `python -m benchmarks.tls`. Fifty clients send a turn's commands each, over the loopback interface in one
process; what is counted is the processor time of the turn that reads, runs and answers them, engine included. Plain and
encrypted turns go in turn, so that whatever else the machine does meets both.

Then the same of whole servers, for commands of 50 connections that put, reserve and delete jobs of 100 bytes: this one,
the process that has the jobs where a front has the clients, and beanstalkd alone and behind HAProxy, which speaks TLS
for it; its processor time is added.
"""

import contextlib
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

from beanpole.engine.engine import Engine
from beanpole.log.log import Log
from beanpole.server.epoll import EpollTransport
from beanpole.server.tls import TlsSocket
from beanpole.server.tlsfilter import Filter
from beanpole.server.turn import Turn
from benchmarks.handshakes import client_context, running, server_pair
from benchmarks.rights import IN_FLIGHT, Load
from benchmarks.route import PROXY_DEFAULTS
from tests.e2e.process import wait_until
from tests.servers import HOST, beanstalkd_server, haproxy, kept_port
from tests.unit.server.tls import ends

CONNECTIONS = 50
TURNS = 60
ROUNDS = 9
SERVER_ROUNDS = 7
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


HAPROXY = (
    PROXY_DEFAULTS
    + """
frontend tls
    bind {host}:{port} ssl crt {pem} alpn beanstalk
    default_backend queue
backend queue
    server queue {host}:{behind}
"""
)


@contextmanager
def proxied(behind: int) -> Iterator[tuple[int, int]]:
    """HAProxy in front of a server; gives its process, and the port of its TLS."""
    pair = server_pair()
    with tempfile.TemporaryDirectory() as folder, kept_port() as port:
        pem, config = Path(folder, "pem"), Path(folder, "haproxy.cfg")
        pem.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
        config.write_text(HAPROXY.format(host=HOST, port=port, pem=pem, behind=behind))
        process = subprocess.Popen([haproxy(), "-db", "-f", str(config)], stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: is_there(port), "HAProxy listens")
            yield process.pid, port
        finally:
            process.kill()
            process.wait()


def is_there(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
        return True
    return False


def whole_servers() -> None:
    """Measure servers, in turn."""
    with ExitStack() as stack:
        process, plain, encrypted = stack.enter_context(running())
        theirs = stack.enter_context(beanstalkd_server())
        proxy, proxied_port = stack.enter_context(proxied(theirs.port))
        context = client_context(shows=False)
        engine, fronts_plain, fronts_encrypted = stack.enter_context(running("--fronts", "1"))
        loads = {
            "plain": Load([process.popen.pid], plain),
            "TLS": Load([process.popen.pid], encrypted, context),
            "fronts, the engine's": Load([engine.popen.pid], fronts_plain),
            "fronts, TLS": Load([engine.popen.pid], fronts_encrypted, context),
            "beanstalkd": Load([theirs.pid], theirs.port),
            "beanstalkd, HAProxy": Load([theirs.pid, proxy], proxied_port, context),
        }
        sys.stdout.write(f"\n{'µs of processor time a command':<32}" + "".join(f"{each:>22}" for each in loads) + "\n")
        for depth in IN_FLIGHT:
            rounds = [[load.run(depth) / 1_000 for load in loads.values()] for _ in range(SERVER_ROUNDS)]
            found = [statistics.median(column) for column in zip(*rounds, strict=True)]
            ratios = [
                f"{each:.2f}" if at % 2 == 0 else f"{each:.2f} ({each / found[at - 1]:.2f} ×)"
                for at, each in enumerate(found)
            ]
            sys.stdout.write(f"{f'50 × {depth}':<32}" + "".join(f"{each:>22}" for each in ratios) + "\n")
            sys.stdout.flush()


def main() -> None:
    """Measure turns, then servers."""
    turns()
    whole_servers()


def turns() -> None:
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
