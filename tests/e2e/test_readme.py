"""The first fifteen minutes of the README go as they are written: every block runs, in its order, with another port.

Only `make serve` does not, as that compiles everything: tests/test_docs.py has it. Here the server is started as it
starts it.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.process import environment, wait_until
from tests.servers import REPLY_TIMEOUT_S, START_TIMEOUT_S, STOP_TIMEOUT_S

pytestmark = pytest.mark.repository

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README.partition("## Install")[0], re.MULTILINE | re.DOTALL)
PROCESS = re.compile(r"\(\S+:\d+(?= worker)")
AGES = re.compile(r"(?<= 65536 )[\d.]+|[\d.]+(?= s ago)")
LATER = re.compile(r"[abc]@example\.org")
"""Whom the later mails go to. Three threads print that, word by word, so there may be no whole line of it."""

REASON = "is no address"
RESTARTED_S = 60.0
"""Time for what has a delay of ten seconds, and is done in three."""


class Terminal:
    """Where commands run: a folder, the installed programs, and the port in place of 11300."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = "0"
        self.http = "0"

    def environment(self) -> dict[str, str]:
        """The environment of the commands."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        more = {"PATH": path, "PYTHONUNBUFFERED": "1", "BEANPOLE_LOG_FORMAT": "console"}
        return environment(more | {"BEANPOLE_URL": f"beanstalk://127.0.0.1:{self.port}"})

    def run(self, *command: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @staticmethod
    def last_line(block: str) -> str:
        """The command of a block whose first line makes the environment the terminal's."""
        activate, command = block.splitlines()
        assert activate == ". .venv/bin/activate"
        return command

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=REPLY_TIMEOUT_S) as answer:
            return str(answer.read().decode())

    @contextmanager
    def serving(self, command: str) -> Iterator[None]:
        """Runs the server; the first time it chooses its ports, and keeps them after that."""
        ready = self.folder / "ready"
        flags = f"-p {self.port} --http 127.0.0.1:{self.http} --ready-file {ready}"
        with self.running(f"{command} {flags}", self.folder / "server.log"):
            wait_until(ready.exists, "the server is ready", START_TIMEOUT_S)
            self.port, self.http = (line.rpartition(":")[2] for line in ready.read_text().splitlines())
            yield

    @contextmanager
    def running(self, command: str, messages: Path) -> Iterator[None]:
        """Runs a command until the end of the block, and stops it as Ctrl-C does."""
        with messages.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield
            process.send_signal(signal.SIGINT)
            assert process.wait(STOP_TIMEOUT_S) == 0, messages.read_text()
        finally:
            process.kill()
            process.wait()


def test_the_first_fifteen_minutes(tmp_path: Path) -> None:
    (_, make), (_, module), (_, work), (_, put), (_, logged), (_, look), (_, seen), (_, put_more) = BLOCKS
    assert make == "make serve\n"
    server = "beanpole serve -l 127.0.0.1 -b beanpole-data"
    terminal, messages = Terminal(tmp_path), tmp_path / "worker.log"
    with contextlib.ExitStack() as until_stopped:
        with terminal.serving(server):
            (tmp_path / "mails.py").write_text(module)
            until_stopped.enter_context(terminal.running(terminal.last_line(work), messages))
            terminal.run("bash", "-e", "-c", terminal.last_line(put))
            # The whole line: print writes it word by word.
            wait_until(lambda: "sent to you@example.org\n" in messages.read_text(), "the first job is done")
            assert sorted(without_times(messages.read_text().replace(terminal.port, "11300"))) == sorted(
                logged.splitlines()
            )
            wait_until(lambda: "buried" in terminal.run("beanpole", "list", "mails"), "the second is dead")
            assert words(terminal.run("bash", "-e", "-c", look)) == words(seen)
            wait_until(lambda: REASON in terminal.page("/failures"), "the console knows why")
            terminal.run("bash", "-e", "-c", put_more)
        assert not LATER.search(messages.read_text())
        with terminal.serving(server):
            wait_until(lambda: len(LATER.findall(messages.read_text())) == 3, "no job is lost", RESTARTED_S)
            assert terminal.run("beanpole", "kick", "mails") == "1 of mails kicked\n"


def words(text: str) -> str:
    """A text without ages and processes, as a terminal of any width and a pipe show it alike."""
    return AGES.sub("-", PROCESS.sub("(-", " ".join(text.split())))


def without_times(messages: str) -> list[str]:
    """The lines of the log without the time that each begins with."""
    return re.sub(r"^\S+Z (?=\[)", "", messages, flags=re.MULTILINE).splitlines()
