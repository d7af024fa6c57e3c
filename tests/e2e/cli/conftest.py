"""The command line against both servers: in this process, or as a process of its own where that is the point."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import IO, Any

import pytest
from click.testing import CliRunner

from beanpole import Client
from beanpole.cli.main import main
from tests import forks
from tests.e2e.process import environment, written_to
from tests.servers import HOST, Server, beanpole_server, beanstalkd_server

Where = int | IO[bytes] | None
"""What a process reads from or writes to."""

numbers = count()


@dataclass(frozen=True)
class Done:
    """What a command has said, and its exit code."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


class Cli:
    """Runs `beanpole` with the address of a server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = f"beanstalk://{HOST}:{server.port}"

    def __call__(self, *arguments: object, given: bytes = b"", code: int = 0) -> Done:
        """Runs a verb in this process; it must end with `code`."""
        done = run(*arguments, "--url", self.url, given=given)
        assert done.code == code, f"{arguments} ended with {done.code}, said {done.out!r}, {done.err!r}"
        return done

    def start(
        self, *arguments: object, stdin: Where = subprocess.DEVNULL, stdout: Where = None, stderr: Where = None
    ) -> "subprocess.Popen[bytes]":
        return forks.Popen(
            command(*arguments),
            env=environment({"BEANPOLE_URL": self.url, "PYTHONUNBUFFERED": ""}),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )

    def process(
        self,
        *arguments: object,
        given: bytes | None = None,
        stdin: Where = subprocess.PIPE,
        stdout: Where = subprocess.PIPE,
    ) -> Done:
        with self.start(*arguments, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE) as process:
            out, err = process.communicate(given, timeout=60)
        return Done(process.returncode, out or b"", err.decode())

    def shown(self, *arguments: object, stream: str = "stdout") -> str:
        """What a verb shows on a terminal that is its standard output, or another stream."""
        ours, theirs = pty.openpty()
        streams: dict[str, Where] = {"stdout": subprocess.DEVNULL, stream: theirs}
        with self.start(*arguments, **streams) as process:
            os.close(theirs)
            said = written_to(ours)
        os.close(ours)
        assert process.returncode == 0
        return said.decode(errors="surrogateescape").replace("\r\n", "\n")

    def typed(self, text: bytes, *arguments: object) -> Done:
        """Runs a verb while somebody types on the terminal that is its standard input."""
        ours, theirs = pty.openpty()
        os.write(ours, text)
        done = self.process(*arguments, stdin=theirs)
        os.close(theirs)
        os.close(ours)
        return done


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "beanpole", *map(str, arguments)]


def run(*arguments: object, given: bytes = b"") -> Done:
    """Runs a verb in this process."""
    with CliRunner().isolation(input=io.BytesIO(given)) as (out, err, _):
        code = main([str(each) for each in arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        return Done(int(code), out.getvalue(), err.getvalue().decode())


@pytest.fixture(scope="package", params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that all tests share."""
    with beanpole_server() if request.param == "beanpole" else beanstalkd_server() as running:
        yield running


@pytest.fixture
def cli(server: Server) -> Cli:
    return Cli(server)


@pytest.fixture
def tube() -> str:
    """A tube that no other test knows."""
    return f"t{next(numbers)}"


@pytest.fixture
def client(server: Server, tube: str) -> Iterator[Client[bytes]]:
    """A client that uses and watches the tube."""
    with Client((HOST, server.port), None, tube, tube) as made:
        yield made
