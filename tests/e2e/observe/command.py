"""The command line as a process, with pipes or in a terminal of its own."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests import forks
from tests.e2e.process import environment
from tests.servers import REPLY_TIMEOUT_S, STOP_TIMEOUT_S, Server

PROGRAM = [sys.executable, "-W", "error", "-m", "beanpole"]

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


def url_of(server: Server) -> str:
    """The URL of a server."""
    return f"beanstalk://127.0.0.1:{server.port}"


def beanpole(*arguments: str, url: str, code: int = 0) -> str:
    """What a command that ends by itself writes to standard output."""
    done = forks.run(
        [*PROGRAM, *arguments, "--url", url],
        capture_output=True,
        text=True,
        env=environment(),
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=REPLY_TIMEOUT_S * 2,
    )
    assert done.returncode == code, f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    assert code or not done.stderr, done.stderr
    return str(done.stdout)


def as_json(*arguments: str, url: str, code: int = 0) -> Any:  # noqa: ANN401 - whatever JSON says
    """The one line of JSON that a command writes."""
    return json.loads(beanpole(*arguments, "--json", url=url, code=code))


class Terminal:
    """A process in a terminal, and what it has written there."""

    def __init__(self, popen: "subprocess.Popen[bytes]", master: int, slave: int, mode_before: list[Any]) -> None:
        self.popen = popen
        self.slave = slave
        self.mode_before = mode_before
        """How the terminal treated what is typed before the process began."""
        self._master = master
        self._seen = b""

    def press(self, keys: str) -> None:
        """Types keys; what was written until now counts no more."""
        self._seen = b""
        os.write(self._master, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Changes the size of the window."""
        self._seen = b""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.popen.send_signal(signal.SIGWINCH)

    def wait_for(self, pattern: str) -> None:
        """Waits until what was written since the last key has a text, without what colours and moves."""
        give_up_at = time.monotonic() + REPLY_TIMEOUT_S
        while not re.search(pattern, seen := self.seen()):
            assert time.monotonic() < give_up_at, f"waited in vain for {pattern!r}; there was:\n{seen[-5000:]}"
            self.read(0.1)

    def seen(self) -> str:
        """What was written since the last key, without what colours and moves: a piece may end within such a thing."""
        return ESCAPES.sub("", self._seen.decode(errors="replace"))

    def read(self, timeout_s: float) -> None:
        """Takes in what is written."""
        if select.select([self._master], [], [], timeout_s)[0]:
            self._seen += os.read(self._master, 1 << 16)

    def mode(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self.slave)

    def wait_end(self) -> int:
        """Waits for the end of the process, reading what it still writes; returns its exit code."""
        give_up_at = time.monotonic() + STOP_TIMEOUT_S
        while self.popen.poll() is None and time.monotonic() < give_up_at:
            self.read(0.02)
        return self.popen.wait(1)


@contextmanager
def terminal(*arguments: str, url: str, term: str = "xterm", encoding: str = "utf-8") -> Iterator[Terminal]:
    """A command in a terminal of 30 lines with 120 characters."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    mode_before = termios.tcgetattr(slave)
    popen = forks.Popen(
        [*PROGRAM, *arguments, "--url", url],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment({"TERM": term, "PYTHONIOENCODING": encoding}),
        start_new_session=True,
    )
    try:
        yield Terminal(popen, master, slave, mode_before)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()
        os.close(master)
        os.close(slave)
