"""A server on a unix socket, with a log, that a test kills and starts again."""

import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests import forks
from tests.e2e.process import environment, wait_until
from tests.servers import START_TIMEOUT_S, peer

if TYPE_CHECKING:
    import subprocess


class Restarting:
    """A server that comes and goes."""

    def __init__(self, name: str, folder: Path) -> None:
        self.url = f"unix:{folder / 'socket'}"
        data = folder / "data"
        data.mkdir()
        program = [sys.executable, "-m", "beanpole", "serve"] if name == "beanpole" else [peer("beanstalkd"), "-f", "0"]
        self._command = [*program, "-l", self.url, "-b", str(data)]
        self._messages = folder / "messages"
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        with self._messages.open("ab") as output:
            self._popen = forks.Popen(self._command, stdout=output, stderr=output, env=environment())
        wait_until(self._answers, "the server answers", START_TIMEOUT_S)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(START_TIMEOUT_S)
            try:
                probe.connect(self.url.removeprefix("unix:"))
                probe.sendall(b"\r\n")
                return probe.recv(1) == b"U"
            except OSError:
                return False

    def end(self, number: int = signal.SIGKILL) -> None:
        """Ends it, if it runs."""
        if self._popen is not None:
            self._popen.send_signal(number)
            self._popen.wait(START_TIMEOUT_S)
            self._popen = None
