"""A real process of the ID service, and a client that takes each reply for what it is."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e import clocked, patient
from tests.e2e.patient import PATIENT
from tests.processes import REPLY_TIMEOUT_S, START_TIMEOUT_S, STOP_TIMEOUT_S, environment, wait_until

if TYPE_CHECKING:
    import subprocess

ZONE = "UTC" if datetime.now(UTC).hour < 12 else "Etc/GMT+12"
"""A time zone in which the day does not end while tests run: they count the numbers of a day."""

RULES = """
listen = "127.0.0.1:0"
time_zone = "{zone}"
database = "sqlite:///{folder}/ids.db"
{more}

[[rule]]
name = "order"
template = "O{{year:02}}{{month:02}}{{day:02}}{{counter:06}}"
cycle = "day"
batch = {batch}

[[rule]]
name = "small"
template = "{{counter:02}}"
maximum = 20
"""


class Ids:
    """A running ID service with a socket to it."""

    def __init__(self, popen: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
        self.popen = popen
        self.folder = folder
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(("127.0.0.1", port))
        self.socket.settimeout(REPLY_TIMEOUT_S)

    def ask(self, **fields: object) -> dict[str, Any]:
        """The reply to a request."""
        self.socket.send(json.dumps({"action": "get", "app_name": "a", "rule_name": "order"} | fields).encode())
        reply: dict[str, Any] = json.loads(self.socket.recv(70_000))
        return reply

    def raw(self, data: bytes) -> bytes:
        """The bytes of the reply to some bytes."""
        self.socket.send(data)
        return self.socket.recv(70_000)

    def messages(self) -> str:
        """What the process has logged."""
        return (self.folder / "messages").read_text(errors="replace")

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ends the process with a signal; returns its exit code."""
        os.kill(self.popen.pid, number)
        return self.popen.wait(STOP_TIMEOUT_S)


def write_rules(folder: Path, batch: int = 100, more: str = "", zone: str = ZONE) -> Path:
    """A configuration."""
    path = folder / "rules.toml"
    path.write_text(RULES.format(folder=folder, batch=batch, more=more, zone=zone))
    return path


@contextmanager
def running(
    folder: Path,
    config: Path,
    *,
    has_own_clock: bool = False,
    env: Mapping[str, str] | None = None,
    limits: Mapping[str, int] = PATIENT,
    options: Sequence[str] = (),
) -> Iterator[Ids]:
    """A service that answers; it is killed if the test has not ended it. Its own clock is that of `clocked`.

    `limits`: those that are not the service's own; see `patient`.
    """
    ready_file = folder / "ready"
    ready_file.unlink(missing_ok=True)
    program = ["beanpole_ids", "serve", str(config), "--ready-file", str(ready_file), *options]
    if has_own_clock:
        program = [clocked.__file__, str(config), str(folder)]
    with (folder / "messages").open("ab") as output:
        popen = patient.start(limits, *program, stdout=output, stderr=output, env=environment(env))
    try:
        wait_until(lambda: ready_file.exists() or popen.poll() is not None, "the service starts", START_TIMEOUT_S)
        assert popen.poll() is None, (folder / "messages").read_text()
        service = Ids(popen, int(ready_file.read_text().split()[0].rpartition(":")[2]), folder)
        try:
            yield service
        finally:
            service.socket.close()
    finally:
        if popen.poll() is None:
            popen.kill()
            popen.wait()


def answers(service: Ids, seq: str) -> bool:
    """Whether the service gives a number, of an application whose numbers no flood has used up.

    The request may be lost: the kernel drops what comes while the service's buffer is full.
    """
    service.socket.settimeout(1)
    try:
        reply = service.ask(seq=seq, app_name=seq)
        while reply.get("seq") != seq:  # an earlier one, of which the answer was late
            reply = json.loads(service.socket.recv(70_000))
    except TimeoutError:
        return False
    return bool(reply["code"] == 0)


def hammer(service: Ids, goes_on: Callable[[list[str]], bool], rule: str = "order") -> list[str]:
    """Numbers that were answered, with many requests under way, as long as `goes_on` says so of them.

    If the process is gone then, the replies that it had sent are read too.
    """
    numbers: list[str] = []
    request = b'{"action":"get","app_name":"a","rule_name":"%b"}' % rule.encode()
    for _ in range(32):
        service.socket.send(request)
    while True:
        try:
            reply = json.loads(service.socket.recv(4096))
        except BlockingIOError:
            return numbers
        assert reply["code"] == 0, reply
        numbers.append(reply["data"])
        if service.socket.gettimeout() and goes_on(numbers):
            service.socket.send(request)
        else:
            service.socket.setblocking(False)
