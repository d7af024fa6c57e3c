"""Nodes of a cluster as processes, which are killed, frozen and started again."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.servers import HOST
from tests.soak.clock import SET, Clock

WAIT_S = 60.0

CLOCKS_NS = {"b": 500_000_000, "c": 5_000_000_000}
"""By how much the clocks of nodes are wrong, where they can be set."""


class NodeProcess:
    """One node."""

    def __init__(
        self,
        folder: Path,
        url: str,
        name: str,
        *flags: str,
        host: str = HOST,
        within: str = "",
        wall: Clock | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.ready = folder / f"{name}.ready"
        self.messages = folder / f"{name}.log"
        # The program that `within` names puts itself in the node's place, so that the process is the node.
        self.command = [*within.split(), sys.executable, "-m", "beanpole", "serve", "-l", host, "-p", "0"]
        self.command += ["--ready-file", str(self.ready), "--cluster", url, "--node", name, *flags]
        self.wall = wall
        """How far its wall clock is ahead; None: that is not asked for."""

        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        """Start the process; it may answer only later."""
        assert self.process is None
        self.ready.unlink(missing_ok=True)
        self.port = 0
        with self.messages.open("ab") as output:
            env = {**os.environ, **(self.wall.env if self.wall else {})}
            self.process = subprocess.Popen(self.command, stdout=output, stderr=output, env=env)

    def find_port(self) -> int:
        """Return where it listens; 0: not known yet."""
        if not self.port:
            with contextlib.suppress(FileNotFoundError, IndexError, ValueError):
                self.port = int(self.ready.read_text().split()[0].rpartition(":")[2])
        return self.port

    def connect(self, timeout_s: float) -> socket.socket:
        """Connect to it. Raises OSError."""
        port = self.find_port()
        if not port:
            raise ConnectionRefusedError
        connection = socket.create_connection((self.host, port), timeout=timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    def wait(self) -> int:
        """Wait until it has ended by itself; return its exit code."""
        assert self.process is not None
        code = self.process.wait(WAIT_S)
        self.process = None
        return code

    def stop(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


def node_with_a_clock(folder: Path, url: str, name: str) -> NodeProcess:
    """Return a node whose wall clock can be set, and is as wrong as its name says."""
    own = folder / f"{name}.clock"
    own.mkdir(exist_ok=True)
    return NodeProcess(folder, url, name, wall=Clock(own, CLOCKS_NS.get(name, 0), SET))


def stats(node: NodeProcess, timeout_s: float = 2.0) -> dict[str, str]:
    """Return what a node's `stats` says, which is what the leader says; nothing: it does not answer."""
    try:
        with node.connect(timeout_s) as connection:
            connection.sendall(b"stats\r\n")
            received = b""
            while not received.endswith(b"\r\n") or received.count(b"\r\n") < 2:
                piece = connection.recv(65536)
                if not piece:
                    return {}
                received += piece
    except OSError:
        return {}
    lines = received.decode().splitlines()
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def leader_of(nodes: list[NodeProcess], but: NodeProcess | None = None, *, within_s: float = WAIT_S) -> NodeProcess:
    """Wait until a node leads, and return it."""
    give_up_at = time.monotonic() + within_s
    while time.monotonic() < give_up_at:
        for node in nodes:
            if node is but or node.process is None:
                continue
            found = stats(node)
            leader = next((each for each in nodes if str(each.process and each.process.pid) == found.get("pid")), None)
            if leader is not None and leader is not but:
                return leader
        time.sleep(0.02)
    said = "\n".join(node.messages.read_text(errors="replace")[-1500:] for node in nodes)
    raise AssertionError(f"no node leads:\n{said}")
