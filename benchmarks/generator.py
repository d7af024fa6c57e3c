"""What the load generator costs itself: it drives a server that does nothing but send the same bytes back.

Run with `python -m benchmarks.generator`. If the figure for a number of commands in flight comes near what a measured
server pays for a command, then the generator is the bottleneck and commands/s say nothing about the server any more.
Figures are CPU time of the generator's process, the kernel's part of sending and receiving included.
"""

import multiprocessing
import selectors
import socket
import sys
import time
from contextlib import closing, suppress

from benchmarks.bench.dial import open_group
from benchmarks.bench.load import Load
from benchmarks.bench.plan import Group

SECONDS = 1.0
CONNECTIONS = 50
BODY_BYTES = 100
PUT_LINES = 2
"""Lines of a put: the command and its body (which has no line ends)."""


class Mimic:
    """One connection: answers a batch when it is complete, from texts that are made once."""

    def __init__(self, in_flight: int) -> None:
        self.in_flight = in_flight
        self.received = b""
        ids = range(1_000_000, 1_000_000 + in_flight)
        body = b"x" * BODY_BYTES
        self.answers = {
            b"put": (in_flight * PUT_LINES, b"".join(b"INSERTED %d\r\n" % i for i in ids)),
            b"res": (in_flight, b"".join(b"RESERVED %d %d\r\n%s\r\n" % (i, BODY_BYTES, body) for i in ids)),
            b"del": (in_flight, b"DELETED\r\n" * in_flight),
            b"use": (3, b"USING x\r\nWATCHING 2\r\nWATCHING 1\r\n"),
        }

    def answer(self, data: bytes) -> bytes:
        """The replies to what has arrived, if it is a whole batch."""
        self.received += data
        lines, text = self.answers[self.received[:3]]
        if self.received.count(b"\r\n") < lines:
            return b""
        self.received = b""
        return text


def serve(listener: socket.socket, in_flight: int) -> None:
    """Mimics a server until it is terminated."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if key.data is None:
                accepted, _ = sock.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(accepted, selectors.EVENT_READ, Mimic(in_flight))
                continue
            with suppress(OSError):
                if data := sock.recv(1 << 20):
                    sock.sendall(key.data.answer(data))
                    continue
            selector.unregister(sock)
            sock.close()


def cost_us(in_flight: int) -> tuple[float, float]:
    """CPU µs a command, and commands/s."""
    with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as listener, closing(Load()) as load:
        server = multiprocessing.Process(target=serve, args=(listener, in_flight), daemon=True)
        server.start()
        try:
            group = Group(connections=CONNECTIONS, in_flight=in_flight, body_bytes=BODY_BYTES)
            load.add(group, open_group(group, listener.getsockname(), time.monotonic() + 10))
            run_s, cpu_s = load.run(SECONDS)
        finally:
            server.terminate()
            server.join()
        return cpu_s / load.commands * 1e6, load.commands / run_s


def main() -> None:
    """Prints a line for each number of commands in flight."""
    for in_flight in (1, 16, 100):
        cpu_us, rate = cost_us(in_flight)
        sys.stdout.write(
            f"{CONNECTIONS} connections, {in_flight} in flight: {cpu_us:.3f} µs a command, {rate:,.0f}/s\n"
        )


if __name__ == "__main__":
    main()
