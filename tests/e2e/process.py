"""A server process under the eyes of a test: what it writes, its memory, its processor time, its descriptors.

`tests.servers` gives a server that is well; this gives one that a test may starve, stop in mid-air or start wrongly.
A stopped server (:meth:`Process.frozen`) is how tests decide what arrives together: everything that is sent meanwhile
is there at the server's next turn.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests import forks
from tests.servers import HOST, REPLY_TIMEOUT_S, START_TIMEOUT_S, STOP_TIMEOUT_S

COMMAND = [sys.executable, "-m", "beanpole", "serve"]

POLL_S = 0.005
"""How often a condition is looked at while a test waits for it."""

VARIABLES = ("BEANPOLE_", "LISTEN_", "NOTIFY_SOCKET")
"""Variables of the test's own environment that would change what a server does."""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a server: ours, without what sets a server up or says how large a terminal is, and `more`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(VARIABLES)}
    for size in ("COLUMNS", "LINES"):  # pytest's workers are told these
        kept.pop(size, None)
    return kept | dict(more or {})


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = REPLY_TIMEOUT_S) -> None:
    """Returns as soon as a condition holds; fails when it does not in time."""
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up_at, f"waited {timeout_s} s in vain: {what}"
        time.sleep(POLL_S)


def written_to(terminal: int) -> bytes:
    """All that was written to a terminal, given our end of it, after everybody has closed the other end.

    It comes in pieces, also when the writer is long gone.
    """
    found = b""
    with contextlib.suppress(OSError):  # EIO: that is the end
        while piece := os.read(terminal, 1 << 16):
            found += piece
    return found


def log_lines(text: str) -> list[dict[str, Any]]:
    """What a program has logged as JSON, among what it has written; the last line may be half-written yet."""
    whole = text[: text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]


class Process:
    """A running server."""

    def __init__(self, popen: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.popen = popen
        self.pid = popen.pid
        self.folder = folder

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready"

    @property
    def addresses(self) -> list[str]:
        return self.ready_file.read_text().splitlines()

    @property
    def port(self) -> int:
        return int(self.addresses[0].rpartition(":")[2])

    @property
    def output(self) -> str:
        """Everything that the server has written to standard error and standard output."""
        return (self.folder / "messages").read_text(errors="replace")

    @property
    def messages(self) -> str:
        """That without the lines about slow turns, which any server writes on a busy machine."""
        return "".join(line for line in self.output.splitlines(keepends=True) if "slow turn" not in line)

    def events(self, event: str = "") -> list[dict[str, object]]:
        """The log lines, or those of one event; a warning of the command line is none."""
        found = log_lines(self.output if event else self.messages)
        return [line for line in found if event in ("", line["event"])]

    def wait_ready(self) -> None:
        """Waits until the server answers."""
        wait_until(lambda: self.ready_file.exists() or self.popen.poll() is not None, "ready", START_TIMEOUT_S)
        assert self.ready_file.exists(), f"the server ended with {self.popen.returncode}:\n{self.messages}"

    def connect(self, *, receive_buffer_bytes: int = 0, wait_accepted: bool = True) -> "Client":
        """A new client; the server has accepted it when this returns, unless that is not wanted."""
        connection = socket.socket()
        connection.settimeout(REPLY_TIMEOUT_S)
        if receive_buffer_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client = Client(connection)
        try:
            connection.connect((HOST, self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if wait_accepted:
                client.ask(b"\r\n", b"UNKNOWN_COMMAND\r\n")
        except BaseException:
            connection.close()
            raise
        return client

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stops the process; whatever happens meanwhile is there at once when it goes on."""
        self.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: self._stat()[0] == "T", "stopped")
            yield
        finally:
            self.signal(signal.SIGCONT)

    def cpu_ticks(self) -> int:
        """Processor time that the server has used, in ticks of the system (mostly 10 ms)."""
        fields = self._stat()
        return int(fields[11]) + int(fields[12])

    def _stat(self) -> list[str]:
        """The fields of /proc/PID/stat from the state on."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()

    def rss_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def descriptor_count(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def statistic(self, key: str) -> int:
        """A number of `stats`, asked for over a connection of its own, which counts as one."""
        with self.connect() as client:
            return client.statistic(key)

    def wait_exit(self) -> int:
        return self.popen.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Ends the process, whatever it is doing."""
        if self.popen.poll() is None:
            self.signal(signal.SIGCONT)
            self.popen.terminate()
            try:
                self.wait_exit()
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


class Client:
    """A client that knows nothing but bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def fill(self) -> bool:
        """Receives more; false at the end."""
        piece = self.socket.recv(1 << 18)
        self.received += piece
        return bool(piece)

    def take(self, size: int) -> bytes:
        """The next `size` bytes; fewer when the server closes before."""
        while len(self.received) < size and self.fill():
            pass
        taken, self.received = self.received[:size], self.received[size:]
        return taken

    def line(self) -> bytes:
        """The next line with its CRLF."""
        while b"\r\n" not in self.received and self.fill():
            pass
        return self.take(self.received.find(b"\r\n") + 2 or len(self.received))

    def ask(self, command: bytes, reply: bytes) -> None:
        """Sends a command and reads exactly this reply."""
        self.send(command)
        self.expect(reply)

    def expect(self, reply: bytes) -> None:
        """Reads exactly this reply; fails as soon as it begins otherwise."""
        while len(self.received) < len(reply) and reply.startswith(self.received) and self.fill():
            pass
        got, self.received = self.received[: len(reply)], self.received[len(reply) :]
        assert got == reply, f"wanted {reply[:200]!r}, got {got[:200]!r}"

    def body(self) -> bytes:
        """The body of the next reply, whose line ends with its size."""
        line = self.line()
        assert line.startswith((b"OK ", b"RESERVED ", b"FOUND ")), f"no reply with a body: {line!r}"
        size = int(line.split()[-1])
        return self.take(size + 2)[:-2]

    def statistic(self, key: str, command: bytes = b"stats\r\n") -> int:
        """A number of a stats command."""
        self.send(command)
        return int(dict(line.split(": ", 1) for line in self.body().decode().splitlines()[1:])[key])

    def rest(self) -> bytes:
        """Everything up to the end."""
        with contextlib.suppress(ConnectionResetError):  # An end as well: of a server that had not read all of it.
            while self.fill():
                pass
        taken, self.received = self.received, b""
        return taken

    def half_close(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Closes at once, with a RST instead of a FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send_while_possible(self, data: bytes) -> int:
        """Sends `data` until the server takes no more; returns how many bytes went.

        Nothing going for a quarter of a second counts as no more: too short on a slow machine means less pressure on
        the server, not a false alarm.
        """
        sent = 0
        self.socket.settimeout(0.25)
        with contextlib.suppress(TimeoutError):
            while sent < len(data):
                sent += self.socket.send(data[sent : sent + 65536])
        self.socket.settimeout(REPLY_TIMEOUT_S)
        return sent


@contextmanager
def serving(
    *flags: str,
    listen: bool = True,
    env: Mapping[str, str] | None = None,
    limits: Mapping[int, int] | None = None,
    command: list[str] | None = None,
    pass_fds: tuple[int, ...] = (),
    standard_error: int | None = None,
) -> Iterator[Process]:
    """A server that answers; `limits` are limits of resources, which hold for the whole process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)  # A server that becomes another user writes its ready file here.
        arguments = [*(command or COMMAND), "--ready-file", str(folder / "ready")]
        if listen:
            arguments += ["-l", HOST, "-p", "0"]

        with (folder / "messages").open("wb") as output:
            popen = forks.Popen(
                [*arguments, *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if standard_error is None else standard_error,
                env=environment(env),
                pass_fds=pass_fds,
                limits=limits,
            )
        process = Process(popen, folder)
        try:
            process.wait_ready()
            yield process
        finally:
            process.stop()


@contextmanager
def healthy(*flags: str, limits: Mapping[int, int] | None = None) -> Iterator[Process]:
    """A server that must still be well at the end: it runs, every session is closed, and it did not complain."""
    with serving(*flags, limits=limits) as process:
        yield process
        assert process.popen.poll() is None, f"the server ended with {process.popen.returncode}:\n{process.messages}"
        wait_until(lambda: process.statistic("current-connections") == 1, "all sessions are closed")
        complaints = [line for line in process.events() if line["level"] not in ("info", "warning")]
        assert not complaints, f"the server complained: {complaints}"


@dataclass(frozen=True)
class Outcome:
    """How a server ended that did not start."""

    code: int
    output: str
    error: str


def start_in_vain(
    *flags: str,
    env: Mapping[str, str] | None = None,
    listen: bool = True,
    limits: Mapping[int, int] | None = None,
    command: list[str] | None = None,
) -> Outcome:
    """Starts a server that must end by itself; `limits` are limits of resources."""
    arguments = [*(command or COMMAND), *(["-l", HOST, "-p", "0"] if listen else []), *flags]
    done = forks.run(
        arguments,
        capture_output=True,
        text=True,
        env=environment(env),
        timeout=STOP_TIMEOUT_S,
        check=False,
        limits=limits,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
