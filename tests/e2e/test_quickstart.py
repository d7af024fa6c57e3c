"""The quick start works as it is written: every block runs, in its order, with another port.

Only `pip install .` does not, as that compiles everything: CI installs a wheel of the same sources.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.process import environment, wait_until
from tests.servers import STOP_TIMEOUT_S

pytestmark = pytest.mark.repository

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "quickstart.md").read_text()
BLOCKS = [(kind, text) for kind, text in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
AGE = re.compile(r"\t65536\t\d+\t")


class Terminal:
    """Where commands run: a folder, the installed programs, and the port in place of 11300."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = "11300"

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


def test_every_block_in_its_order(tmp_path: Path) -> None:
    (_, install), (_, activate), (_, serve), (_, module), (_, work), (_, put), (_, said), *rest = BLOCKS
    (_, put_bad), (_, look), (_, seen) = rest
    assert [kind for kind, _ in BLOCKS] == ["sh", "sh", "sh", "python", "sh", "python", "text", "sh", "sh", "text"]
    assert (install, activate) == (
        "python3 -m venv ~/queue\n~/queue/bin/pip install .\n",
        ". ~/queue/bin/activate\n",
    )
    terminal, ready, messages = Terminal(tmp_path), tmp_path / "ready", tmp_path / "worker.log"
    with terminal.running(f"{serve.strip()} -p 0 --ready-file {ready}", tmp_path / "server.log"):
        wait_until(ready.exists, "the server is ready")
        terminal.port = ready.read_text().split()[0].rpartition(":")[2]
        (tmp_path / "mails.py").write_text(module)
        with terminal.running(work.strip(), messages):
            terminal.run(sys.executable, "-W", "error", "-c", put.replace("11300", terminal.port))
            wait_until(lambda: "sent to" in messages.read_text(), "the job is done")
            assert without_times(messages.read_text()).replace(terminal.port, "11300") == said
            terminal.run("bash", "-e", "-c", put_bad)
            wait_until(lambda: "job buried" in messages.read_text(), "the job is buried")
            wait_until(lambda: "buried" in terminal.run("beanpole", "jobs", "mails"), "the server knows")
            assert AGE.sub("\t65536\t-\t", terminal.run("bash", "-e", "-c", look)) == AGE.sub("\t65536\t-\t", seen)
            terminal.run("beanpole", "kick", "mails")
        assert list((tmp_path / "jobs").iterdir())


def without_times(messages: str) -> str:
    """The log without the time that each line begins with."""
    return re.sub(r"^\S+Z (?=\[)", "", messages, flags=re.MULTILINE)
