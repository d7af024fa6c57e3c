"""A Prometheus for tests, with a database of its own, and what it says; and an Alertmanager that only listens."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from tests.e2e.process import wait_until
from tests.servers import HOST, PORT_ATTEMPTS, REPLY_TIMEOUT_S, START_TIMEOUT_S, free_port, peer, stop_process

Labels = Mapping[str, str]
Values = list[tuple[Labels, float]]
"""What an expression gives: a value for each set of labels."""


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    process: "subprocess.Popen[bytes]"
    port: int
    messages: Path

    def get(self, path: str, **query: str) -> Any:  # noqa: ANN401 - any JSON
        connection = HTTPConnection(HOST, self.port, timeout=REPLY_TIMEOUT_S)
        try:
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", f"{query}: {answer}"
        return answer["data"]

    def values(self, expression: str, at_s: float | None = None) -> Values:
        """What an expression gives, now or at another time."""
        found = self.get("query", query=expression, **({} if at_s is None else {"time": f"{at_s:.3f}"}))
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    def rules(self) -> list[dict[str, Any]]:
        """Its alerting rules, with their health."""
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("targets", state="active")["activeTargets"]
        return found

    def answers(self) -> bool:
        connection = HTTPConnection(HOST, self.port, timeout=REPLY_TIMEOUT_S)
        try:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def prometheus(configuration: Mapping[str, Any], folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, whose files are below `folder`."""
    file, messages = folder / "prometheus.yml", folder / "prometheus.log"
    file.write_text(yaml.safe_dump(dict(configuration)))
    for attempt in range(PORT_ATTEMPTS):
        port = free_port()
        command = [
            peer("prometheus"),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / f'tsdb-{attempt}'}",
            f"--web.listen-address={HOST}:{port}",
            "--storage.tsdb.retention.size=100MB",
            "--log.level=warn",
        ]
        with messages.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        found = Prometheus(process, port, messages)
        try:
            if _is_up(found):
                yield found
                assert process.poll() is None, messages.read_text()
                return
        finally:
            stop_process(process)
    raise AssertionError(f"Prometheus did not start:\n{messages.read_text()}")


def _is_up(found: Prometheus) -> bool:
    """Waits until it is ready; false when it ends instead, for somebody else has taken its port."""
    wait_until(lambda: found.process.poll() is not None or found.answers(), "Prometheus is ready", START_TIMEOUT_S)
    return found.process.poll() is None


@dataclass
class Peer:
    """What else Prometheus talks to: it serves pages of metrics, and takes alerts as an Alertmanager does."""

    port: int = 0
    pages: dict[str, str] = field(default_factory=dict)
    """By path."""
    alerts: list[dict[str, Any]] = field(default_factory=list)
    """All that came."""

    def fired(self, name: str) -> Sequence[dict[str, Any]]:
        return [each for each in list(self.alerts) if each["labels"]["alertname"] == name]


@contextmanager
def listening_peer(pages: Mapping[str, str]) -> Iterator[Peer]:
    """A peer on a port of its own."""
    found = Peer(pages=dict(pages))

    class Handler(BaseHTTPRequestHandler):
        """Answers on a connection."""

        def do_GET(self) -> None:
            self.answer(found.pages[self.path].encode())

        def do_POST(self) -> None:
            found.alerts += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(b"")

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        found.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
