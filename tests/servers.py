"""Real server processes for tests: Beanpole and, as the reference, beanstalkd.

Each is a context manager that gives a `Server` which accepts connections, and stops the process that it started, by its
process id. Servers listen on 127.0.0.1 on a port of their own, so that any number of them run side by side.
A peer that is not installed skips a test on a user's machine and fails it in CI: see `missing_peer`.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NoReturn

import pytest

from tests import certificates, forks

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
"""How long a server may take until it accepts connections; generous, as test machines are slow and shared."""

STOP_TIMEOUT_S = 60.0
"""How long a server may take to stop after SIGTERM before it is killed: only one that hangs takes as long."""

REPLY_TIMEOUT_S = 60.0
"""How long a test waits for a reply that must come."""

PORTS_OF_SYSTEM = 1024
"""Ports below are not for everybody."""

PORT_ATTEMPTS = 5
"""A free port can be taken by somebody else before a server binds it; it then exits and another port is tried."""


@dataclass(frozen=True)
class Server:
    """A running server process."""

    name: str
    pid: int
    port: int

    def connect(self) -> socket.socket:
        """A new connection, known to be accepted: the server has answered an empty line, which no statistic counts."""
        connection = socket.create_connection((HOST, self.port), timeout=REPLY_TIMEOUT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"\r\n")
        reply = b""
        while not reply.endswith(b"\r\n"):
            piece = connection.recv(100)
            if not piece:
                break
            reply += piece
        assert reply == b"UNKNOWN_COMMAND\r\n", f"{self.name} answered {reply!r} to an empty line"
        return connection

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def drain(self) -> None:
        """Puts the server into drain mode and returns when it says so itself."""
        self.signal(signal.SIGUSR1)
        give_up_at = time.monotonic() + REPLY_TIMEOUT_S
        with self.connect() as connection:
            while time.monotonic() < give_up_at:
                connection.sendall(b"stats\r\n")
                if b"\ndraining: true\n" in read_body(connection):
                    return
        raise AssertionError(f"{self.name} does not drain after SIGUSR1")


def read_body(connection: socket.socket) -> bytes:
    """The body of the next reply, which must be `OK <bytes>`."""
    received = b""
    while b"\r\n" not in received:
        received += _some(connection)
    line, _, rest = received.partition(b"\r\n")
    size = int(line.removeprefix(b"OK ")) + 2
    while len(rest) < size:
        rest += _some(connection)
    return rest[:-2]


def _some(connection: socket.socket) -> bytes:
    piece = connection.recv(65536)
    if not piece:
        raise EOFError("the server closed the connection")
    return piece


def missing_peer(name: str) -> NoReturn:
    """Ends the test that needs a program that is not installed: a skip for a user, a failure in CI."""
    reason = f"{name} is not installed"
    if os.environ.get("CI"):
        pytest.fail(reason + ", and CI must skip nothing")
    pytest.skip(reason)


def peer(name: str) -> str:
    """The path of a program that tests compare with."""
    return shutil.which(name) or missing_peer(name)


def beanstalkd_version() -> str:
    """The version of the installed beanstalkd, "1.12" for example."""
    answer = subprocess.run([peer("beanstalkd"), "-v"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+(\.\d+)+", answer)
    assert found, f"beanstalkd -v answered {answer!r}"
    return found[0]


@contextmanager
def beanstalkd_server(*flags: str) -> Iterator[Server]:
    """A running beanstalkd."""
    program = peer("beanstalkd")
    with kept_port() as port:
        process = _start([program, "-l", HOST, "-p", str(port), *flags], subprocess.DEVNULL)
        try:
            server = Server("beanstalkd", process.pid, port)
            assert _answers(process, server), f"beanstalkd did not start; it ended with {process.poll()}"
            yield server
        finally:
            stop_process(process)


@contextmanager
def beanpole_server(*flags: str, listen: str = HOST) -> Iterator[Server]:
    """A running Beanpole, the one that this Python would import."""
    with _beanpole("serve", 0, *flags, listen=listen) as (pid, port):
        yield Server("beanpole", pid, port)


@contextmanager
def routed_server(*flags: str, port: int = 0) -> Iterator[Server]:
    """The same behind a router: `pid` is the server's, `port` the router's."""
    with beanpole_server(*flags) as behind, _beanpole("route", port, "--to", f"{HOST}:{behind.port}") as router:
        yield Server("beanpole", behind.pid, router[1])


@contextmanager
def mapped_server(*flags: str, shards: int = 1) -> Iterator[Server]:
    """Servers behind a router that has a map of them: `pid` is the router's if there are several."""
    with ExitStack() as stack:
        lines = ["epoch = 1", "tubes = { default = 'a', t = 'a', u = 'a' }", "[shard]"]
        for number in range(shards):
            behind = stack.enter_context(beanpole_server(*flags, "--shard", str(number)))
            lines.append(f'{"abc"[number]} = {{ number = {number}, nodes = "{HOST}:{behind.port}" }}')
        file = Path(stack.enter_context(tempfile.TemporaryDirectory()), "shards.toml")
        file.write_text("\n".join(lines))
        pid, port = stack.enter_context(_beanpole("route", 0, "--map", str(file)))
        yield Server("beanpole", behind.pid if shards == 1 else pid, port)


USERS = """
[user.shop]
certificates = ["CN=shop"]
admin = true
"""

STUNNEL = """
foreground = yes
pid =
socket = l:TCP_NODELAY=1
socket = r:TCP_NODELAY=1
TIMEOUTclose = 60
[queue]
client = yes
accept = {accept}
connect = {connect}
CAfile = {ca}
verifyChain = yes
checkIP = {host}
cert = {cert}
key = {key}
"""


def users_file(folder: Path) -> Path:
    """A file with one user, who may do everything."""
    file = folder / "access.toml"
    file.write_text(USERS)
    file.chmod(0o644)
    return file


def server_certificate() -> "certificates.Pair":
    return certificates.made("server", f"subjectAltName=IP:{HOST}", signer="ca")


@contextmanager
def tunnel(port: int, pid: int) -> Iterator[Server]:
    """A stunnel in front of a port where TLS is spoken, with the certificate of the user; `pid` is the server's."""
    stunnel = peer("stunnel")
    user, ca = certificates.made("shop", signer="ca"), certificates.made("ca")
    with tempfile.TemporaryDirectory() as folder, kept_port() as own:
        names = {"ca": ca.cert, "host": HOST, "cert": user.cert, "key": user.key}
        settings = Path(folder, "stunnel.conf")
        settings.write_text(STUNNEL.format(accept=f"{HOST}:{own}", connect=f"{HOST}:{port}", **names))
        process = _start([stunnel, str(settings)], subprocess.DEVNULL)
        try:
            found = Server("beanpole", pid, own)
            assert _answers(process, found), f"stunnel did not start; it ended with {process.poll()}"
            yield found
        finally:
            stop_process(process)


@contextmanager
def encrypted(*flags: str) -> Iterator[tuple[int, int]]:
    """The id, and the port where TLS is spoken, of a server with one user, who may do everything."""
    pair, ca = server_certificate(), certificates.made("ca").cert
    with tempfile.TemporaryDirectory() as folder:
        tls = ("--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--access", str(users_file(Path(folder))))
        with _beanpole("serve", 0, *tls, *flags, listen=f"tls:{HOST}:0,client-ca={ca}") as found:
            yield found


@contextmanager
def guarded_server(*flags: str) -> Iterator[Server]:
    """A server with users and TLS behind stunnel, which has the user's certificate."""
    with encrypted(*flags) as (pid, port), tunnel(port, pid) as found:
        yield found


@contextmanager
def guarded_router(*flags: str) -> Iterator[Server]:
    """Such a server behind a router that has the user's certificate."""
    user, ca = certificates.made("shop", signer="ca"), certificates.made("ca").cert
    login = ("--ca", str(ca), "--cert", str(user.cert), "--cert-key", str(user.key))
    with (
        encrypted(*flags) as (pid, port),
        _beanpole("route", 0, "--to", f"beanstalks://{HOST}:{port}", *login) as (_, own),
    ):
        yield Server("beanpole", pid, own)


HAPROXY_CONFIG = Path(__file__).parents[1] / "examples/access/haproxy.cfg"


def haproxy() -> str:
    """The path of HAProxy, which Debian installs where only root looks."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    return shutil.which("haproxy", path=path) or missing_peer("haproxy")


@contextmanager
def proxying(folder: Path) -> Iterator[int]:
    """HAProxy with the example's configuration, in front of the sockets of a folder; gives the port of its TLS."""
    program, pair = haproxy(), server_certificate()
    (folder / "queue.pem").write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    with kept_port() as port:
        settings = HAPROXY_CONFIG.read_text()
        for old, new in {
            "bind :11400": f"bind {HOST}:{port}",
            "/etc/haproxy/queue.pem": str(folder / "queue.pem"),
            "/etc/haproxy/ca.pem": str(certificates.made("ca").cert),
            "unix@/run/beanpole/": f"unix@{folder}/",
        }.items():
            assert old in settings, old
            settings = settings.replace(old, new)
        (folder / "haproxy.cfg").write_text(settings)
        process = _start([program, "-db", "-f", str(folder / "haproxy.cfg")], subprocess.DEVNULL)
        try:
            give_up_at = time.monotonic() + START_TIMEOUT_S
            while process.poll() is None and time.monotonic() < give_up_at:
                with contextlib.suppress(OSError), socket.create_connection((HOST, port)):
                    break
                time.sleep(0.002)
            yield port
            assert process.poll() is None, f"HAProxy ended with {process.poll()}"
        finally:
            stop_process(process)


@contextmanager
def proxied_server(*flags: str) -> Iterator[Server]:
    """A server with a socket per user behind HAProxy, which ends TLS, and that behind stunnel."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = ("--access", str(users_file(folder)), "-l", f"unix:{folder / 'shop'},user=shop,mode=0660")
        with (
            _beanpole("serve", 0, *files, *flags, listen=f"{HOST},user=shop") as (pid, _),
            proxying(folder) as port,
            tunnel(port, pid) as found,
        ):
            yield found


OpenServer = Callable[..., AbstractContextManager[Server]]

WAYS: dict[str, OpenServer] = {
    "default": beanpole_server,
    "fronts": partial(beanpole_server, "--fronts", "2"),
    "router": routed_server,
    "map": mapped_server,
    "three shards": partial(mapped_server, shards=3),
    "stunnel": guarded_server,
    "HAProxy": proxied_server,
    "router over TLS": guarded_router,
}
"""How clients reach a server: what they see is the same."""


@contextmanager
def _beanpole(verb: str, port: int, *flags: str, listen: str = HOST) -> Iterator[tuple[int, int]]:
    """The id and the port of a program that accepts clients."""
    with tempfile.TemporaryDirectory() as folder:
        ready_file, messages = Path(folder, "ready"), Path(folder, "messages")
        where = ["-l", listen, "-p", str(port), "--ready-file", str(ready_file)]
        with messages.open("wb") as output:
            process = _start([sys.executable, "-m", "beanpole", verb, *where, *flags], output)
        try:
            port = _port_when_ready(process, ready_file)
            assert port, f"{verb} did not start:\n{messages.read_text(errors='replace')}"
            yield process.pid, port
            assert process.poll() is None, (
                f"{verb} ended by itself with {process.returncode}:\n{messages.read_text(errors='replace')}"
            )
        finally:
            stop_process(process)


def _start(command: list[str], output: "IO[bytes] | int") -> "subprocess.Popen[bytes]":
    """Starts a process. On some virtual machines, one start in a thousand fails with EFAULT; the next succeeds."""
    try:
        return forks.Popen(command, stdout=output, stderr=output)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        return forks.Popen(command, stdout=output, stderr=output)


def free_port() -> int:
    """A port that nobody has now, and that the kernel gives to nobody who binds port 0 or connects.

    Only another caller of this may still take it before it is bound.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        # Where the kernel gives away almost all ports, one of those must do.
        port = secrets.choice(range(lowest // 2, lowest)) if lowest > 2 * PORTS_OF_SYSTEM else 0
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return int(probe.getsockname()[1])


@contextmanager
def kept_port() -> Iterator[int]:
    """A port that nobody else gets as long as the block runs, whether or not a server of the test listens there.

    It is bound and does not listen: a program that wants just any port does not get it, one that names it does.
    """
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, 0))
        yield int(bound.getsockname()[1])


def _answers(process: "subprocess.Popen[bytes]", server: Server) -> bool:
    """Waits until a server answers; false when the process ends instead.

    That it can be connected to is not enough: beanstalkd listens before it handles signals, so a SIGUSR1 may kill it.
    The connection that asks is waited for until the server has closed it, too: else statistics would still count it.
    """
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_at and process.poll() is None:
        try:
            with server.connect() as asking:
                asking.shutdown(socket.SHUT_WR)
                while asking.recv(100):
                    pass
        except OSError:
            time.sleep(0.002)
        else:
            return process.poll() is None
    return False


def _port_when_ready(process: "subprocess.Popen[bytes]", ready_file: Path) -> int:
    """The bound port as soon as the server has written its ready file; 0 when it ends or takes too long."""
    give_up_at = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_at and process.poll() is None:
        if ready_file.exists():
            return int(ready_file.read_text().split()[0].rpartition(":")[2])
        time.sleep(0.005)
    return 0


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process, which is killed if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
