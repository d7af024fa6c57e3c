"""`tail`: each job once, none taken, and what was missed is told."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import beanpole as library
from tests.e2e.observe.command import PROGRAM, url_of
from tests.e2e.observe.command import beanpole as run
from tests.e2e.process import environment, serving, wait_until
from tests.servers import HOST, STOP_TIMEOUT_S, Server


class Tail:
    """A running `tail`, and what it has written."""

    def __init__(self, popen: "subprocess.Popen[bytes]", folder: Path) -> None:
        self.popen = popen
        self._folder = folder

    @property
    def lines(self) -> list[str]:
        """What it wrote to standard output."""
        return (self._folder / "out").read_text().splitlines()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The same, as JSON."""
        return [json.loads(line) for line in self.lines]

    @property
    def notes(self) -> str:
        """What it wrote to standard error."""
        return (self._folder / "err").read_text()

    def interrupt(self) -> None:
        """Ends it as Ctrl-C does."""
        self.popen.send_signal(signal.SIGINT)
        assert self.popen.wait(STOP_TIMEOUT_S) == 0, self.notes
        assert "Traceback" not in self.notes


@contextmanager
def tailing(folder: Path, *arguments: str, url: str) -> Iterator[Tail]:
    """A `tail`, asking often."""
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        command = [*PROGRAM, "tail", "--interval", "0.1", "--url", url, *arguments]
        popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment())
    try:
        yield Tail(popen, folder)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()


def wait_for_probe(client: "library.Client[Any]") -> None:
    """Waits until the tail knows the last id: its probe was put and deleted."""
    wait_until(lambda: client.stats()["cmd-delete"] != 0, "the tail has begun")


def test_jobs_as_they_come_and_workers_get_them(server: Server, tmp_path: Path) -> None:
    with library.Client((HOST, server.port), use="mail", watch="mail") as client:
        client.put("before")
        with tailing(tmp_path, "mail", "--json", url=url_of(server)) as tail:
            wait_for_probe(client)
            client.put("elsewhere", tube="other")
            first = client.put("one", priority=7, ttr=30)
            later = client.put("two", delay=100)
            wait_until(lambda: len(tail.lines) == 2, "two jobs were shown")
            assert [job["id"] for job in tail.jobs] == [first, later]
            assert tail.jobs[0] | {"age": 0} == {
                "id": first,
                "tube": "mail",
                "state": "ready",
                "pri": 7,
                "age": 0,
                "delay": 0,
                "ttr": 30,
                "body_size": 3,
                "body": "one",
            }
            assert tail.jobs[1]["state"] == "delayed"
            assert {client.reserve(0).body for _ in range(2)} == {"before", "one"}
            tail.interrupt()
            assert tail.notes == ""
        wait_until(lambda: "beanpole-tail" not in " ".join(client.tubes()), "the probe leaves nothing")


def test_missed_jobs_are_counted(server: Server, tmp_path: Path) -> None:
    with (
        library.Client((HOST, server.port), use="mail") as client,
        tailing(tmp_path, "mail", url=url_of(server)) as tail,
    ):
        wait_for_probe(client)
        first = client.put("seen")
        wait_until(lambda: len(tail.lines) == 1, "the first one was shown")
        with client.pipeline() as gone:
            for number in range(1, 4):
                gone.put("gone")
                gone.delete(first + number)
        client.put("kept")
        wait_until(lambda: "kept" in tail.lines[-1], "the last one was shown")
        tail.interrupt()
    missed = 3 - (len(tail.lines) - 2)  # the tail may look between a put and a delete
    said = f"{missed} job{'s' * (missed != 1)} came and went before they could be looked at"
    assert said in tail.notes or missed == 0, tail.lines


def test_body_is_cut_and_harmless(server: Server, tmp_path: Path) -> None:
    with (
        library.Client((HOST, server.port), None, use="mail") as client,
        tailing(tmp_path, "mail", "--body-bytes", "10", "-n", "3", url=url_of(server)) as tail,
    ):
        wait_for_probe(client)
        ids = [client.put(body) for body in (b"\x1b[2Jclear\n", b"\xff\x00", b"x" * 3000)]
        assert tail.popen.wait(STOP_TIMEOUT_S) == 0
    assert tail.lines == [
        f"{ids[0]}  ready  pri 65536  ttr 60  \\x1b[2Jclear\\n",
        f"{ids[1]}  ready  pri 65536  ttr 60  \\xff\\x00",
        f"{ids[2]}  ready  pri 65536  ttr 60  xxxxxxxxxx ... (3 000 bytes)",
    ]


def test_only_jobs_in_a_state(server: Server, tmp_path: Path) -> None:
    with (
        library.Client((HOST, server.port), use="mail") as client,
        tailing(tmp_path, "mail", "--state", "delayed", "-n", "1", "--json", url=url_of(server)) as tail,
    ):
        wait_for_probe(client)
        client.put("now")
        later = client.put("later", delay=9)
        assert tail.popen.wait(STOP_TIMEOUT_S) == 0
    assert [job["id"] for job in tail.jobs] == [later]


def test_server_that_comes_back(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with serving("-l", address, listen=False) as first, tailing(tmp_path, "mail", "-n", "1", url=address) as tail:
        with library.Client(address) as client:
            wait_for_probe(client)
        first.stop()
        wait_until(lambda: "trying again" in tail.notes, "the loss was told")
        with serving("-l", address, listen=False), library.Client(address, use="mail") as client:
            wait_for_probe(client)
            client.put("after")
            assert tail.popen.wait(STOP_TIMEOUT_S) == 0
    assert "after" in tail.lines[0]
    assert tail.notes.count("trying again") == 1


def test_draining_server(server: Server) -> None:
    server.drain()
    assert run("tail", "mail", url=url_of(server), code=1) == ""


@pytest.mark.parametrize("arguments", [["-bad"], [], ["mail", "--state", "gone"], ["mail", "-n", "0"]])
def test_wrong_arguments(beanpole: Server, arguments: list[str]) -> None:
    run("tail", *arguments, url=url_of(beanpole), code=5)
