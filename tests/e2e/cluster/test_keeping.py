"""Jobs that are under way when something of a cluster fails: who has them returns, and nobody else gets them."""

import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster.conftest import Cluster, daemon
from tests.e2e.process import Client, Process, serving, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, STOP_TIMEOUT_S

HOLDERS = 20
STOPPED_S = 5.0
"""For how long a leader is stopped: another one leads after the silence of a second."""

Nodes = dict[str, Process]


class Rival(threading.Thread):
    """Who takes every job that it can get, at one node after the other."""

    def __init__(self, nodes: list[Process]) -> None:
        super().__init__(daemon=True)
        self.nodes = nodes
        self.taken: list[bytes] = []
        self.asked_count = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            for node in self.nodes:
                with suppress(OSError, AssertionError), node.connect(wait_accepted=False) as client:
                    while not self.stopping.is_set():
                        client.send(b"reserve-with-timeout 0\r\n")
                        if not (reply := client.line()):
                            break
                        self.asked_count += 1
                        if reply.startswith(b"RESERVED"):
                            self.taken.append(reply)


def again(number: int, ends: bytes = b"") -> bytes:
    """How a holder returns."""
    return b"keep-session 120 %032x%b\r\n" % (number, ends)


def hold(clients: list[Client], ends: bytes = b"") -> None:
    """Let each client hold a job of its own."""
    for number, client in enumerate(clients, 1):
        client.ask(again(number, ends), b"KEPT 0\r\n")
        client.ask(b"put 0 0 120 1\r\nx\r\n", b"INSERTED %d\r\n" % number)
        client.ask(b"reserve-job %d\r\n" % number, b"RESERVED %d 1\r\nx\r\n" % number)


def has_returned(connect: Callable[[], Client], number: int, ends: bytes = b"") -> bool:
    """Whether a holder has come back and done its job."""
    with suppress(OSError, AssertionError), connect() as client:
        client.ask(again(number, ends), b"KEPT 1 %d\r\n" % number)
        client.ask(b"delete %d\r\n" % number, b"DELETED\r\n")
        return True
    return False


def kill_leader(cluster: Cluster, nodes: Nodes) -> Process:
    nodes["a"].signal(signal.SIGKILL)
    cluster.wait_leader("b", "c")
    return nodes["b"]


def kill_follower(_: Cluster, nodes: Nodes) -> Process:
    nodes["c"].signal(signal.SIGKILL)
    return nodes["b"]


def stop_leader(cluster: Cluster, nodes: Nodes) -> Process:
    with nodes["a"].frozen():
        cluster.wait_leader("b", "c")
        threading.Event().wait(STOPPED_S)
    return nodes["a"]


def lose_database(cluster: Cluster, nodes: Nodes) -> Process:
    with cluster.database.server.frozen():
        wait_until(lambda: nodes["a"].events("clients sent away"), "clients are sent away")
    wait_until(lambda: nodes["a"].events("clients taken again"), "they are taken again")
    return nodes["b"]


@pytest.mark.parametrize(
    ("via", "trouble"),
    [
        ("c", kill_follower),
        pytest.param("a", kill_leader, marks=pytest.mark.long),
        pytest.param("b", kill_leader, marks=pytest.mark.long),
        pytest.param("a", stop_leader, marks=pytest.mark.long),
        pytest.param("b", stop_leader, marks=pytest.mark.long),
        pytest.param("a", lose_database, marks=pytest.mark.long),
        pytest.param("b", lose_database, marks=pytest.mark.long),
    ],
)
def test_holders_return_and_nobody_else_has_their_jobs(
    cluster: Cluster, via: str, trouble: Callable[[Cluster, Nodes], Process]
) -> None:
    cluster.init()
    with ExitStack() as stack:
        flags = ("--cluster-wait", "2") if trouble is lose_database else ()
        nodes = {name: stack.enter_context(cluster.node(name, *flags)) for name in "abc"}
        cluster.wait_alive(*nodes)
        hold([stack.enter_context(nodes[via].connect()) for _ in range(HOLDERS)])
        rival = Rival([*nodes.values()])
        rival.start()
        stack.callback(rival.stopping.set)
        back = trouble(cluster, nodes)
        asked_before = rival.asked_count
        wait_until(lambda: rival.asked_count > asked_before + HOLDERS, "others are answered before")
        for number in range(1, HOLDERS + 1):
            wait_until(partial(has_returned, back.connect, number), f"{number} returns")
        rival.stopping.set()
        rival.join()
        assert rival.taken == []


@contextmanager
def proxy(folder: Path, port: int) -> Iterator[None]:
    """HAProxy before one server."""
    front = folder / "front"
    times = "timeout connect 2s\n timeout client 1d\n timeout server 1d"
    lines = f"defaults\n mode tcp\n {times}\nlisten one\n bind unix@{front}\n server a {HOST}:{port}\n"
    (folder / "haproxy.cfg").write_text(lines)
    process = subprocess.Popen([daemon("haproxy"), "-db", "-f", folder / "haproxy.cfg"])
    try:
        wait_until(front.exists, "the proxy listens")
        yield
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)
        front.unlink(missing_ok=True)


@pytest.mark.long
def test_holders_behind_a_proxy_return_when_that_is_restarted(tmp_path: Path) -> None:
    ends = b" ends=all"

    def through() -> Client:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(REPLY_TIMEOUT_S)
        connection.connect(str(tmp_path / "front"))
        return Client(connection)

    with serving("-b", str(tmp_path)) as server, ExitStack() as stack:
        with proxy(tmp_path, server.port):
            holders = [stack.enter_context(through()) for _ in range(HOLDERS)]
            hold(holders, ends)
        for each in holders:
            with suppress(ConnectionError):
                assert each.rest() == b""
        with server.connect() as other:
            wait_until(lambda: other.statistic("sessions-lost") == HOLDERS, "the server has noticed it")
            other.ask(b"reserve-with-timeout 0\r\n", b"TIMED_OUT\r\n")
        with proxy(tmp_path, server.port):
            for number in range(1, HOLDERS + 1):
                assert has_returned(through, number, ends), number
