"""Starts one server for a measurement, observes it through /proc, and ends it, whatever happens.

A command line is a template: `{host}` and `{port}` are filled in with an address that was free a moment ago, or
`{ready_file}` with the path of a file that the server writes its bound addresses to (then it chooses the port itself).
The process is ended by its own id, and its directory removed, when the `with` block is left.
"""

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from beanpole import client
from benchmarks.bench.dial import SetupError

HOST = "127.0.0.1"
START_TIMEOUT_S = 120.0
"""How long a server may take from exec to its first answer (long: it may replay a log of a million jobs)."""
STOP_TIMEOUT_S = 30.0
"""How long it may take from SIGTERM to its end before it is killed."""
START_TRIES = 5
"""Times that another port is tried when somebody took the free one first."""
POLL_S = 0.0005
"""Pause between two tries to connect while a server starts: the resolution of the start-up time."""

OURS = (sys.executable, "-m", "beanpole", "serve", "-l", HOST, "-p", "0", "--ready-file", "{ready_file}")
THEIRS = ("beanstalkd", "-l", HOST, "-p", "{port}")

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)
"""What ends a benchmark early."""

Address = str | tuple[str, int]


@dataclass
class Server:
    """A running server."""

    pid: int
    address: Address
    started_s: float
    """Seconds from exec to its first answer."""

    def cpu_s(self) -> float:
        """CPU time of all its threads so far, to the nanosecond."""
        return time.clock_gettime_ns(~self.pid << 3 | 2) / 1e9

    def memory_bytes(self) -> tuple[int, int]:
        """Resident now, and the most so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["VmRSS"].split()[0]) * 1024, int(fields["VmHWM"].split()[0]) * 1024

    def disk_bytes(self) -> int:
        """Bytes that it caused to be written to a disk so far."""
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


def free_port() -> int:
    """A TCP port that nobody listens on at this moment."""
    with socket.create_server((HOST, 0)) as sock:
        return int(sock.getsockname()[1])


def first_answer(address: Address, deadline: float) -> bool:
    """Whether the server answers a command; False if it does not accept connections (yet)."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as sock:
        sock.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            sock.connect(address)
            sock.sendall(b"list-tube-used\r\n")
            return sock.recv(64) == b"USING default\r\n"
        except OSError:
            return False


def wait_for_answer(process: subprocess.Popen[bytes], ready_file: Path, port: int, deadline: float) -> Address | None:
    """Polls until the server answers; None if it ended, or did not answer in time."""
    address: Address | None = (HOST, port) if port else None
    while time.monotonic() < deadline and process.poll() is None:
        if address is None and ready_file.exists():
            lines = [line for line in ready_file.read_text().splitlines(keepends=True) if line.endswith("\n")]
            if lines:
                bound = client.Address.of(lines[0].strip().removeprefix("tcp:"))
                address = bound.path or (bound.host, bound.port)
        if address is not None and first_answer(address, deadline):
            return address
        time.sleep(POLL_S)
    return None


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that we started: asks, and after a while insists."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts signals off until a block is over: one that came while a process is started would leave it to nobody."""
    came: list[int] = []
    before = {each: signal.signal(each, lambda number, _: came.append(number)) for each in INTERRUPTIONS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def running(command: Sequence[str], args: Sequence[str] = (), data: Path | None = None) -> Iterator[Server]:
    """Runs a server for the length of a `with` block. `{data}` in its arguments becomes the directory `data`."""
    scratch = Path(tempfile.mkdtemp(prefix="beanpole-bench-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        for _ in range(START_TRIES):
            ready_file = scratch / "ready"
            ready_file.unlink(missing_ok=True)
            port = 0 if any("{ready_file}" in word for word in command) else free_port()
            words = {"host": HOST, "port": str(port), "ready_file": str(ready_file), "data": str(data)}
            line = [word.format_map(words) for word in (*command, *args)]
            with (scratch / "log").open("wb") as log:
                start = time.monotonic()
                try:
                    with uninterrupted():
                        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                except OSError as error:
                    raise SetupError(f"cannot start {line[0]}: {error.strerror}") from error
            address = wait_for_answer(process, ready_file, port, start + START_TIMEOUT_S)
            if address is not None:
                yield Server(process.pid, address, time.monotonic() - start)
                return
            stop(process)
            said = (scratch / "log").read_text(errors="replace").strip()
            if "in use" not in said:
                break
        raise SetupError(
            f"the server does not answer; the last line that it wrote: {said.splitlines()[-1] if said else 'none'}"
        )
    finally:
        if process is not None:
            stop(process)
        shutil.rmtree(scratch, ignore_errors=True)


def installed(command: Sequence[str]) -> bool:
    """Whether the program of a command line exists."""
    return shutil.which(command[0]) is not None
