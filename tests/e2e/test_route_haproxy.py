"""`examples/route/haproxy.cfg` with HAProxy itself: of two routers one stops, one is killed, and clients go on."""

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.process import Client, serving, wait_until
from tests.e2e.test_route import routing
from tests.servers import HOST, REPLY_TIMEOUT_S, STOP_TIMEOUT_S, free_port, haproxy

pytestmark = pytest.mark.repository

EXAMPLE = (Path(__file__).parents[2] / "examples/route/haproxy.cfg").read_text()
INTERVAL, OFTEN = "check port 11382 inter 2s ", "check inter 100ms "
"""A check that fails is to be seen within the test."""


@contextmanager
def proxy(servers: dict[str, str], folder: Path) -> Iterator[Path]:
    """HAProxy with the example's configuration, in front of these servers; gives its Unix socket."""
    program, address, settings = haproxy(), folder / "proxy", EXAMPLE
    changes = {"bind :11300": f"bind unix@{address}", INTERVAL: OFTEN}
    changes |= {
        f"server {name} 10.0.0.{number}:11300": f"server {name} {servers[name]}"
        for number, name in enumerate(servers, 1)
    }
    for old, new in changes.items():
        assert settings.count(old) == 1, old
        settings = settings.replace(old, new)
    (folder / "haproxy.cfg").write_text(settings)
    with (folder / "messages").open("wb") as output:
        process = subprocess.Popen([program, "-db", "-f", folder / "haproxy.cfg"], stdout=output, stderr=output)
    try:
        wait_until(address.exists, "the proxy listens")
        yield address
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def connected(address: Path) -> Client:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(REPLY_TIMEOUT_S)
    connection.connect(str(address))
    return Client(connection)


def put(address: Path) -> bytes:
    """The reply to a put over a connection of its own; empty if that is lost."""
    with contextlib.suppress(ConnectionResetError), connected(address) as client:
        client.send(b"put 0 0 600 1\r\ny\r\n")
        return client.line()
    return b""


def test_clients_go_on_behind_the_proxy(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving())
        metrics = {name: str(free_port()) for name in ("one", "two")}
        routers = {
            name: stack.enter_context(routing(server, "--metrics", f"{HOST}:{port}")) for name, port in metrics.items()
        }
        ports = {name: str(router.port) for name, router in routers.items()}
        servers = {name: f"{HOST}:{port} port {metrics[name]}" for name, port in ports.items()}
        address = stack.enter_context(proxy(servers, tmp_path))
        holders = [stack.enter_context(connected(address)) for _ in routers]  # one at each router
        for number, holder in enumerate(holders, 1):
            holder.ask(b"put 0 0 600 1\r\nx\r\n", b"INSERTED %d\r\n" % number)
            holder.ask(b"reserve\r\n", b"RESERVED %d 1\r\nx\r\n" % number)

        routers["one"].signal(signal.SIGTERM)
        wait_until(lambda: routers["one"].events("stopping"), "it takes no more clients")
        for _ in range(10):
            assert put(address).startswith(b"INSERTED ")
        for number, holder in enumerate(holders, 1):
            holder.ask(b"delete %d\r\n" % number, b"DELETED\r\n")
        assert routers["one"].wait_exit() == 0

        again = ("-l", HOST, "-p", ports["one"], "--metrics", f"{HOST}:{metrics['one']}")
        stack.enter_context(routing(server, *again, listen=False))
        routers["two"].signal(signal.SIGKILL)
        wait_until(lambda: put(address).startswith(b"INSERTED "), "clients are brought to the other")
