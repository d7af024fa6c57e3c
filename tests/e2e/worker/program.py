"""A worker process, started as a user does it: ``beanpole worker`` in a folder with a module of handlers.

The handlers keep a ledger: a file to which each appends what it begins and ends, and which survives any death.
"""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import forks
from tests.e2e.process import environment, log_lines, wait_until
from tests.servers import HOST, START_TIMEOUT_S, STOP_TIMEOUT_S

if TYPE_CHECKING:
    import subprocess

MODULE = '''
import asyncio, os, signal, time
from beanpole import Worker, exponential

worker = Worker(concurrency=4)


def note(word, task):
    """Lines of 64 bytes lie in one page each: none is ever seen, or left by a death, in part."""
    file = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    line = f"{word} {task.body} {os.getpid()}".ljust(63) + "\\n"
    assert len(line.encode()) == 64
    os.write(file, line.encode())
    os.close(file)


def begin(task):
    note("begin", task)
    verb, _, argument = task.body.partition(" ")
    if verb == "fail" and task.attempt == 1:
        raise ValueError
    if verb == "kill" and task.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "fork":
        if os.fork() == 0:
            return None
        os.wait()
    return float(argument) if verb == "sleep" else 0


@worker.handler("loop", backoff=exponential(0, 0))
async def on_loop(task):
    seconds = begin(task)
    if seconds:
        await asyncio.sleep(seconds)
    if seconds is not None:
        note("end", task)


@worker.handler("thread", backoff=exponential(0, 0))
def in_thread(task):
    seconds = begin(task)
    if seconds:
        time.sleep(seconds)
    if seconds is not None:
        note("end", task)


@worker.handler("process", backoff=exponential(0, 0), process=True)
def in_process(task):
    in_thread(task)


@worker.handler("blocking")
async def block(task):
    note("begin", task)
    time.sleep(100)
'''


class Program:
    """A worker process in a folder of its own."""

    def __init__(self, popen: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.popen = popen
        self.folder = folder

    @property
    def messages(self) -> str:
        return (self.folder / "messages").read_text(errors="replace")

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in log_lines(self.messages) if line["event"].startswith(event)]

    def lines(self, word: str) -> list[tuple[str, int]]:
        """The bodies of the jobs that handlers have begun, or ended, each with its process."""
        path = self.folder / "ledger"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(" ".join(body), int(pid)) for verb, *body, pid in lines if verb == word]

    def ledger(self, word: str) -> list[str]:
        return [body for body, _ in self.lines(word)]

    def wait_event(self, event: str, count: int = 1) -> None:
        """Waits until something was logged."""
        wait_until(lambda: self.popen.poll() is not None or len(self.events(event)) >= count, event, START_TIMEOUT_S)
        assert len(self.events(event)) >= count, f"the worker ended:\n{self.messages}"

    def wait_ledger(self, word: str, count: int = 1) -> None:
        """Waits until so many jobs have begun, or ended."""
        wait_until(lambda: len(self.ledger(word)) >= count, f"{count} × {word}")

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def wait_exit(self) -> int:
        return self.popen.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """Stops the worker as it should be; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit()


@contextmanager
def program(folder: Path, port: int, *flags: str, env: Mapping[str, str] | None = None) -> Iterator[Program]:
    """A worker that runs, of a server (0: none is named); killed at the end, if it still does."""
    if not (folder / "handlers.py").exists():
        (folder / "handlers.py").write_text(MODULE)
    url = ["--url", f"beanstalk://{HOST}:{port}"] if port else []
    command = [sys.executable, "-m", "beanpole", "worker", "handlers:worker", *url, *flags]
    with (folder / "messages").open("ab") as output:
        popen = forks.Popen(command, cwd=folder, stdout=output, stderr=output, env=environment(env))
    running = Program(popen, folder)
    try:
        yield running
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()
