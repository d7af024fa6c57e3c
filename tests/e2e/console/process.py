"""A console process for tests, and what its answers say."""

import http.client
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests import forks
from tests.e2e.process import environment, wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, stop_process

if TYPE_CHECKING:
    import subprocess

TOKEN = "correct-horse-battery-staple"  # noqa: S105 - of servers that live as long as a test
FORM = "application/x-www-form-urlencoded"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""The values of a scrape by name and labels."""


class Answer(NamedTuple):
    """What the console answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


def samples_of(text: str, *, openmetrics: bool = False) -> Samples:
    """The values of a scrape, as prometheus-client reads them."""
    parse = parse_openmetrics if openmetrics else parser.text_string_to_metric_families
    found: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


@dataclass(frozen=True)
class Console:
    """A running console."""

    process: "subprocess.Popen[bytes]"
    port: int
    messages: Path

    def ask(self, method: str, path: str, body: "bytes | str" = b"", **headers: str) -> Answer:
        """Asks, on a connection of its own; an underscore in the name of a header is a hyphen."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=REPLY_TIMEOUT_S)
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items() if value}
            connection.request(method, path, body, names)
            answer = connection.getresponse()
            return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return self.ask(method, path, **headers)

    def post(self, path: str, fields: Mapping[str, object], token: str = "", **headers: str) -> Answer:
        """Sends a form, with a token if there is one; the value of a field may be a list."""
        bearer = f"Bearer {token}" if token else ""
        headers = {"Content_Type": FORM, "Authorization": bearer} | headers
        return self.ask("POST", path, urlencode(fields, doseq=True), **headers)

    def scrape_once(self, path: str = "/metrics") -> Samples:
        answer = self.get(path)
        assert answer.status == 200, answer
        return samples_of(answer.text)

    def scrape(self, path: str = "/metrics") -> Samples:
        """The values of a scrape that finds all servers: on a busy machine one may need more than a second."""
        found: Samples = {}

        def is_complete() -> bool:
            found.clear()
            found.update(self.scrape_once(path))
            return all(value for (name, _), value in found.items() if name == "beanpole_up")

        wait_until(is_complete, "all servers answer")
        return found

    def value(self, name: str, path: str = "/metrics", **labels: str) -> float | None:
        """A value of a new scrape; None: it is not there."""
        return self.scrape(path).get((name, frozenset(labels.items())))

    def wait_for(self, condition: Callable[[Samples], object], what: str) -> None:
        wait_until(lambda: condition(self.scrape_once()), what)


def url_of(server: Server, name: str) -> str:
    """A server as --url takes it."""
    return f"{name}=beanstalk://{HOST}:{server.port}"


@contextmanager
def console(*flags: str, patient: bool = True) -> Iterator[Console]:
    """A running console, which must still run at the end, or have been stopped.

    It waits for servers longer than a console does outside tests, unless a test is about that wait (`patient=False`).
    """
    with tempfile.TemporaryDirectory() as folder:
        ready, messages = Path(folder, "ready"), Path(folder, "messages")
        command = [
            sys.executable,
            "-m",
            "tests.e2e.console.patient" if patient else "beanpole",
            "console",
            "--http",
            f"{HOST}:0",
            "--ready-file",
            str(ready),
            *flags,
        ]
        with messages.open("wb") as output:
            process = forks.Popen(command, stdout=output, stderr=output, env=environment())
        try:
            wait_until(lambda: ready.exists() or process.poll() is not None, "the console serves")
            assert process.poll() is None, messages.read_text()
            yield Console(process, int(ready.read_text().strip().rpartition(":")[2]), messages)
            assert process.poll() in {None, 0}, messages.read_text()
        finally:
            stop_process(process)


@contextmanager
def token_file(token: str = TOKEN) -> Iterator[list[str]]:
    """The flags that let who has a token change things; none for no token."""
    if not token:
        yield []
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tokens")
        file.touch(0o600)
        file.write_text(f"ann {token}\n")
        yield ["--http-token-file", str(file)]


@contextmanager
def acting(server: Server, *flags: str) -> Iterator[Console]:
    """A console of a server, which it calls `one`, in which who has TOKEN may change things."""
    with token_file() as token_flags, console("--url", url_of(server, "one"), *token_flags, *flags) as found:
        yield found


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=REPLY_TIMEOUT_S)
