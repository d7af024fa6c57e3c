"""What the benchmark starts: the service, the C echo and the C client that loads them; and what /proc says of them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "bench"
START_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 60.0


@dataclass
class Server:
    """A process that is measured."""

    process: "subprocess.Popen[bytes]"
    port: int
    http_port: int = 0
    folder: Path = field(default_factory=Path)
    is_echo: bool = False

    def cpu_ns(self) -> int:
        """CPU time that its threads and those of its children have used, that in the kernel included."""
        return sum(
            int(path.read_text().split()[0])
            for pid in (self.process.pid, *children(self.process.pid))
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat")
        )

    def resident_bytes(self) -> int:
        """Memory that it uses."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def messages(self) -> str:
        """What it has logged."""
        return (self.folder / "messages").read_text(errors="replace")

    def stop(self) -> None:
        """Stop it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(CLOSE_TIMEOUT_S)


@dataclass(frozen=True)
class Load:
    """What a client has measured, and what the server has used for it."""

    seconds: float
    sent: int
    done: int
    lost: int
    refused: int
    p50_us: float
    p99_us: float
    max_us: float
    cpu_ns: int = 0
    """CPU time of the server while the client ran."""

    @property
    def rate(self) -> float:
        """Requests answered a second."""
        return self.done / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time of the server a request, in µs."""
        return self.cpu_ns / self.done / 1000


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]


def compiled(name: str) -> Path:
    """A program of this folder, compiled if it has changed."""
    source, program = Path(__file__).parent / f"{name}.c", BUILD / name
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        new = program.with_suffix(f".{os.getpid()}")
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-O2", "-Wall", "-Wextra", "-o", str(new), str(source)], check=True)
        new.replace(program)
    return program


@contextmanager
def echo() -> Iterator[Server]:
    """The C echo."""
    process = subprocess.Popen([str(compiled("echo"))], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        yield Server(process, int(process.stdout.readline()), is_echo=True)
    finally:
        process.kill()
        process.wait()


@contextmanager
def folder_of_a_server() -> Iterator[Path]:
    """A new folder on the disk where temporary files are."""
    with tempfile.TemporaryDirectory(prefix="bench-ids-") as name:
        yield Path(name)


@contextmanager
def serving(folder: Path, checkout: Path = ROOT, commit_ms: int = 0) -> Iterator[Server]:
    """The service of a checkout, with `rules.toml` in a folder. `commit_ms`: what each commit takes more."""
    python = checkout / ".venv" / "bin" / "python"
    command = [str(python) if python.exists() else sys.executable]
    command += [str(Path(__file__).parent / "slow.py"), str(commit_ms)] if commit_ms else ["-m", "beanpole_ids"]
    ready = folder / "ready"
    ready.unlink(missing_ok=True)
    with (folder / "messages").open("wb") as messages:
        process = subprocess.Popen(
            [*command, "serve", str(folder / "rules.toml"), "--ready-file", str(ready)],
            stdout=messages,
            stderr=messages,
            cwd=checkout,
        )
    try:
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            assert process.poll() is None, (folder / "messages").read_text()
            assert time.monotonic() < give_up_at, "the service is not ready"
            time.sleep(0.002)
        ports = [int(each.rpartition(":")[2].rstrip("/")) for each in ready.read_text().split()]
        server = Server(process, ports[0], ports[1] if len(ports) > 1 else 0, folder)
        yield server
        assert process.poll() is None, server.messages()
        server.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@contextmanager
def on_one_core(servers: Iterable[Server]) -> Iterator[None]:
    """Have servers, and clients that are started, run on one core.

    With one request under way they take turns. Where the scheduler puts them is then most of what is measured: waking
    another core of a virtual machine costs several times what an echo does.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        for server in servers:
            for task in Path(f"/proc/{server.process.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {max(cores)})
        yield
    finally:
        os.sched_setaffinity(0, cores)


def start_load(server: Server, request: str, options: str) -> "subprocess.Popen[str]":
    """Start the client; its options stand at the beginning of load.c."""
    is_http = "HTTP/1.1" in request
    command = [str(compiled("load")), *(["-e"] if server.is_echo else []), *options.split()]
    command += ["-h", str(server.http_port)] if is_http else [str(server.port)]
    return subprocess.Popen([*command, request], stdout=subprocess.PIPE, text=True)


def finish_load(client: "subprocess.Popen[str]", cpu_ns: int = 0) -> Load:
    """What a client has measured when it has ended."""
    text, _ = client.communicate()
    assert client.returncode == 0, f"the client ended with {client.returncode}"
    return Load(**json.loads(text), cpu_ns=cpu_ns)


def load(server: Server, request: str, options: str) -> Load:
    """Run the client, and measure what the server uses while it runs."""
    before_ns = server.cpu_ns()
    client = start_load(server, request, options)
    text, _ = client.communicate()
    used_ns = server.cpu_ns() - before_ns
    assert client.returncode == 0, f"the client ended with {client.returncode}; the server: {server.messages()}"
    found = Load(**json.loads(text), cpu_ns=used_ns)
    assert found.done, f"nothing was answered: {text}"
    return found


def stop_load(client: "subprocess.Popen[str]") -> Load:
    """End a client before its time; return what it has measured."""
    client.send_signal(signal.SIGTERM)
    return finish_load(client)
