"""A server program that is examined: each script gets a process of its own, which is empty and on a port of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from beanpole.client import Client
from beanpole.conformance.script import Script
from beanpole.errors import BeanpoleError

STOP_S = 5.0
"""Seconds that a server may take to end before it is killed."""

HOST = "127.0.0.1"
PORT = "{port}"
PORT_TRIES = 3
"""A free port may be taken by another program before the server binds it."""

POLL_S = 0.005


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    pid: int
    port: int
    patience_s: float

    def connect(self) -> socket.socket:
        """Return a connection that is known to be accepted: the server has answered an empty line. Raises OSError."""
        connection = socket.create_connection((HOST, self.port), self.patience_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"\r\n")
        reply = b""
        while not reply.endswith(b"\r\n"):
            piece = connection.recv(100)
            if not piece:
                raise ConnectionResetError("the server closes a connection that sends an empty line")
            reply += piece
        return connection

    def drain(self) -> None:
        """Put the server into drain mode, and wait until it says so itself; one that never does fails the script."""
        os.kill(self.pid, signal.SIGUSR1)
        with contextlib.suppress(BeanpoleError), Client(f"{HOST}:{self.port}", patience=0) as client:
            for _ in range(int(self.patience_s / POLL_S)):
                if client.stats().get("draining") == "true":
                    return
                time.sleep(POLL_S)


@dataclass(frozen=True)
class Program:
    """How a server is started."""

    words: tuple[str, ...]
    """The command line. In its words ``{port}`` stands for the port, and the names of settings of a script for them."""

    patience_s: float

    def takes(self, setting: str) -> bool:
        """Whether the command line has a place for a setting: ``max-job-size`` or ``tubes-max``."""
        return any(f"{{{setting}}}" in word for word in self.words)

    @contextmanager
    def serve(self, script: Script) -> Iterator[Server]:
        """Start a server for a script, and stop it at the exit.

        Raises:
            OSError: it can't be started, or does not answer.
        """
        with tempfile.TemporaryFile() as said:
            process, server = self.start(script, said)
            try:
                yield server
            finally:
                stop(process)

    def start(self, script: Script, said: IO[bytes]) -> "tuple[subprocess.Popen[bytes], Server]":
        """Return a process that answers. Raises OSError."""
        for _ in range(PORT_TRIES):
            port = free_port()
            values = {PORT: port, "{max-job-size}": script.body_bytes_max, "{tubes-max}": script.tubes_max}
            words = list(self.words)
            for name, value in values.items():
                words = [word.replace(name, str(value)) for word in words]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)  # noqa: S603 - it is the user's own
            server = Server(process.pid, port, self.patience_s)
            if answers(process, server):
                return process, server
            code = process.poll()
            stop(process)
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
        how = "does not answer" if code is None else f"ended with exit code {code}"
        raise ConnectionError(f"{self.words[0]} {how}{last and ': ' + last}")


def free_port() -> int:
    """Return a port that nobody has now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def answers(process: "subprocess.Popen[bytes]", server: Server) -> bool:
    """Wait until a server answers; false if it ends, or takes too long.

    The connection that asks is waited for until the server has closed it, too: else statistics would still count it.
    """
    for _ in range(int(server.patience_s / POLL_S)):
        if process.poll() is not None:
            return False
        try:
            with server.connect() as asking:
                asking.shutdown(socket.SHUT_WR)
                while asking.recv(100):
                    pass
        except OSError:
            time.sleep(POLL_S)
        else:
            return process.poll() is None
    return False


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server, which is killed if it takes too long."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
