"""What handshakes of TLS cost, and what they make a quiet client wait.

Run with `python -m benchmarks.handshakes`. The first table is processor time: all that a server uses for a client that
shakes hands and leaves, less what a plain one takes, beside `do_handshake` alone in this process. In the second a
client of a plain listener asks now and then, while others do to the one with TLS what they should not. The third is
memory of the server for a connection.
"""

import contextlib
import multiprocessing
import select
import socket
import ssl
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

from beanpole.client import Client, Login
from benchmarks.flood import ask
from tests.certificates import Pair, made
from tests.e2e.process import Process, serving
from tests.servers import HOST

HANDSHAKES = 500
ROUNDS = 5
QUESTIONS = 1_000
RATE = 500
HALF_OPEN = 10_000
SMALL_RECORDS = 10
PUT = b"put 0 0 60 1\r\nx\r\n"
PUTS = 3_000
MEMORY_CONNECTIONS = 500
MEBIBYTE = 1 << 20


def server_pair() -> Pair:
    return made("server", "subjectAltName=DNS:localhost", signer="bench-ca")


def client_context(*, shows: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(made("bench-ca").cert))
    if shows:
        pair = made("bench-client", signer="bench-ca")
        context.load_cert_chain(pair.cert, pair.key)
    return context


@contextmanager
def running(*more: str) -> Iterator[tuple[Process, int, int]]:
    """A server, the port of its plain listener, and that of the one with TLS."""
    pair = server_pair()
    tls = f"tls:{HOST}:0,client-ca={made('bench-ca').cert},client-cert=optional"
    flags = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key))
    with serving("-l", f"{HOST}:0", "-l", tls, *flags, *more, listen=False) as process:
        plain, encrypted = (int(each.rpartition(":")[2]) for each in process.addresses)
        yield process, plain, encrypted


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    connection = socket.create_connection((HOST, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(connection, server_hostname="localhost")


def cpu_ns(process: Process) -> int:
    """Return the processor time that all threads of a server have used."""
    tasks = Path(f"/proc/{process.popen.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in tasks)


# --- processor time ---------------------------------------------------------------------------------------------------


def alone_ns(*, shows: bool) -> float:
    """Return what a server's end of a handshake takes that only calls `do_handshake`."""
    pair, client = server_pair(), client_context(shows=shows)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.cert, pair.key)
    server.load_verify_locations(made("bench-ca").cert)
    server.verify_mode = ssl.CERT_OPTIONAL
    server.num_tickets = 0
    took_ns = 0
    for _ in range(HANDSHAKES):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
        theirs = server.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(2):
            with contextlib.suppress(ssl.SSLWantReadError):
                ours.do_handshake()
            began_ns = time.thread_time_ns()
            with contextlib.suppress(ssl.SSLWantReadError):
                theirs.do_handshake()
            took_ns += time.thread_time_ns() - began_ns
    return took_ns / HANDSHAKES


def served_ns(process: Process, port: int, *, shows: bool) -> float:
    """Return what the server uses for a connection, from accept to close."""
    context = client_context(shows=shows)
    before_ns = cpu_ns(process)
    for _ in range(HANDSHAKES):
        with connect(port, context) as client:
            client.sendall(b"list-tube-used\r\n")
            client.recv(100)
    return (cpu_ns(process) - before_ns) / HANDSHAKES


def plain_ns(process: Process, port: int) -> float:
    before_ns = cpu_ns(process)
    for _ in range(HANDSHAKES):
        with socket.create_connection((HOST, port)) as client:
            client.sendall(b"list-tube-used\r\n")
            client.recv(100)
    return (cpu_ns(process) - before_ns) / HANDSHAKES


def lone_put_us(put: Callable[[], object]) -> float:
    """Return the median of what a client waits for the answer to a put."""
    found = []
    for _ in range(PUTS):
        began_ns = time.perf_counter_ns()
        put()
        found.append(time.perf_counter_ns() - began_ns)
    return statistics.median(found) / 1_000


def put_over(connection: socket.socket) -> Callable[[], object]:
    def put() -> None:
        connection.sendall(PUT)
        connection.recv(100)

    return put


def lone_puts(plain: int, encrypted: int) -> None:
    """Measure lone puts of a bare socket and Python's `ssl`, and of the blocking client."""
    login = Login(ca=str(made("bench-ca").cert))
    with (
        socket.create_connection((HOST, plain)) as bare,
        connect(encrypted, client_context(shows=False)) as sealed,
        Client(f"{HOST}:{plain}") as ours,
        Client(f"beanstalks://localhost:{encrypted}", login=login) as ours_sealed,
    ):
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pairs = {
            "a socket": (put_over(bare), put_over(sealed)),
            "the client": (lambda: ours.put("x"), lambda: ours_sealed.put("x")),
        }
        for name, both in pairs.items():
            found = [[lone_put_us(each) for each in both] for _ in range(ROUNDS)]
            before, after = (statistics.median(each) for each in zip(*found, strict=True))
            text = f"lone put of {name}, p50, µs"
            sys.stdout.write(f"{text:<32}{before:>9.1f}{after:>9.1f}{after / before:>7.2f} ×\n")


# --- memory -----------------------------------------------------------------------------------------------------------


def memory_kb(process: Process, port: int, context: ssl.SSLContext | None, body: int) -> float:
    """Return what the server's memory grows by for a connection; each puts a body and gets it back, unless it is 0."""
    before_kb, clients = 0, []
    for at in range(MEMORY_CONNECTIONS + 1):
        if at == 1:  # the first has made the server take what all share
            before_kb = resident_kb(process)
        client = socket.create_connection((HOST, port))
        client = client if context is None else context.wrap_socket(client, server_hostname="localhost")
        clients.append(client)
        exchange(client, b"list-tube-used\r\n", b"\r\n")
        if body:
            exchange(client, b"put 0 0 60 %d\r\n%b\r\n" % (body, b"x" * body), b"\r\n")
            reserved = exchange(client, b"reserve\r\n", b"x\r\n")
            exchange(client, b"delete %b\r\n" % reserved.split(b" ", 2)[1], b"\r\n")
    grown_kb = resident_kb(process) - before_kb
    for client in clients:
        client.close()
    return grown_kb / MEMORY_CONNECTIONS


def exchange(client: socket.socket, said: bytes, end: bytes) -> bytes:
    """Say something, and return what is answered, as far as its end."""
    client.sendall(said)
    came = b""
    while not came.endswith(end):
        came += client.recv(1 << 20)
    return came


def resident_kb(process: Process) -> int:
    return int(Path(f"/proc/{process.popen.pid}/statm").read_text().split()[1]) * 4


def memory() -> None:
    """Measure a connection's memory, each on a server of its own."""
    sys.stdout.write(f"\n{'kB of memory of a connection':<32}{'plain':>9}{'TLS':>9}\n")
    for name, body in (("idle", 0), ("idle, after a mebibyte both ways", MEBIBYTE)):
        found = []
        for tls in (False, True):
            with running("-z", str(MEBIBYTE)) as (process, plain, encrypted):
                context = client_context(shows=False) if tls else None
                found.append(memory_kb(process, encrypted if tls else plain, context, body))
        sys.stdout.write(f"{name:<32}" + "".join(f"{each:>9.1f}" for each in found) + "\n")


# --- what others do ---------------------------------------------------------------------------------------------------


def shake(port: int, ready: Event) -> None:
    """Shake hands so many times a second, and leave."""
    context = client_context(shows=False)
    due_s = time.monotonic()
    while True:
        with contextlib.suppress(OSError), connect(port, context) as client:
            client.sendall(b"quit\r\n")
        ready.set()
        due_s += 2 / RATE
        time.sleep(max(0.0, due_s - time.monotonic()))


def stop_half_way(port: int, ready: Event) -> None:
    """Keep connections open that have sent the beginning of a ClientHello."""
    poll = select.epoll()
    clients: dict[int, socket.socket] = {}
    while True:
        while len(clients) < HALF_OPEN:
            client = socket.create_connection((HOST, port))
            client.sendall(b"\x16\x03\x01")
            clients[client.fileno()] = client
            poll.register(client, select.EPOLLRDHUP)
        ready.set()
        for fd, _ in poll.poll():
            clients.pop(fd).close()


def send_bytes(port: int, ready: Event) -> None:
    """Send a byte a record, from a few clients, as fast as they can be encrypted."""
    clients = [connect(port, client_context(shows=False)) for _ in range(SMALL_RECORDS)]
    for each in clients:
        each.setblocking(False)
    ready.set()
    while True:
        for each in clients:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                each.recv(1 << 16)
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                for _ in range(200):
                    each.send(b"\r")


CASES: dict[str, tuple[Callable[[int, Event], None], int]] = {
    f"{RATE} handshakes a second": (shake, 2),
    f"{HALF_OPEN:,} half a ClientHello": (stop_half_way, 1),
    f"{SMALL_RECORDS} send a byte a record": (send_bytes, 1),
}


def waits(process: Process, plain: int, encrypted: int, load: Callable[[int, Event], None], count: int) -> list[float]:
    """Return how long the quiet client waits, in ms, sorted."""
    ready = multiprocessing.Event()
    others = [multiprocessing.Process(target=load, args=(encrypted, ready), daemon=True) for _ in range(count)]
    for each in others:
        each.start()
    ready.wait()
    found, _ = ask(plain, process.popen.pid, QUESTIONS)
    for each in others:
        each.terminate()
        each.join()
    return sorted(found)


def main() -> None:
    """Measure all of it."""
    with running() as (process, plain, encrypted):
        sys.stdout.write(f"{'µs of processor time':<32}{'alone':>9}{'served':>9}\n")
        for name, shows in (("handshake, P-256", False), ("with a client's certificate", True)):
            alone, served = [], []
            for _ in range(ROUNDS):
                alone.append(alone_ns(shows=shows) / 1_000)
                served.append((served_ns(process, encrypted, shows=shows) - plain_ns(process, plain)) / 1_000)
            before, after = statistics.median(alone), statistics.median(served)
            sys.stdout.write(f"{name:<32}{before:>9.0f}{after:>9.0f}{after / before:>7.2f} ×\n")
        lone_puts(plain, encrypted)
        sys.stdout.write(f"\n{'ms that a quiet client waits':<32}{'p50':>9}{'p99':>9}{'max':>9}\n")
        for name, (load, count) in CASES.items():
            took = waits(process, plain, encrypted, load, count)
            figures = (took[len(took) // 2], took[len(took) * 99 // 100], took[-1])
            sys.stdout.write(f"{name:<32}" + "".join(f"{each:>9.2f}" for each in figures) + "\n")
            sys.stdout.flush()
    memory()


if __name__ == "__main__":
    main()
