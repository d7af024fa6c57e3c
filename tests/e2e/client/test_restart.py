"""Consumers survive that their server is killed and started again."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from beanpole import AsyncClient, Client, ConnectionLostError
from tests import forks
from tests.e2e.client.test_docs import NEVER_DIES
from tests.e2e.process import environment, wait_until
from tests.servers import REPLY_TIMEOUT_S, START_TIMEOUT_S, peer

TUBE = "restarts"


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

    def end(self) -> None:
        """Ends it, if it runs."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait(START_TIMEOUT_S)
            self._popen = None


@pytest.fixture(params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restarting]:
    """A server that runs."""
    running = Restarting(request.param, tmp_path)
    running.start()
    yield running
    running.end()


def test_tasks_that_share_a_client_survive_together(server: Restarting) -> None:
    """Each has its own call, and all go on over one new connection."""

    async def scene() -> None:
        async with (
            AsyncClient(server.url, use=TUBE, watch=TUBE) as client,
            AsyncClient(server.url, use=TUBE, watch=TUBE) as producer,
        ):
            await client.stats()
            waits = asyncio.create_task(client.reserve())
            while (await producer.stats()).current_waiting != 1:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.002)
            others = [asyncio.create_task(client.tubes()) for _ in range(20)]
            await asyncio.sleep(0)
            await asyncio.to_thread(server.end)
            await asyncio.to_thread(server.start)
            while True:
                try:
                    id = await producer.put("x")
                except ConnectionLostError:
                    continue
                break
            assert (await waits).id == id
            assert all(TUBE in names for names in await asyncio.gather(*others))
            assert (await client.stats()).current_connections == 2

    asyncio.run(asyncio.wait_for(scene(), REPLY_TIMEOUT_S))


def test_closing_ends_a_call_that_waits_for_the_server(server: Restarting) -> None:
    async def scene() -> None:
        client = AsyncClient(server.url, patience=None)
        await client.stats()
        server.end()
        waits = asyncio.create_task(client.reserve())
        while not client._outage.is_on:  # noqa: ASYNC110 - nobody says that it has noticed
            await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(ConnectionLostError):
            await waits

    asyncio.run(asyncio.wait_for(scene(), REPLY_TIMEOUT_S))


def has(file: Path, line: str) -> bool:
    """Whether a file has a line."""
    return line in file.read_text().splitlines()


@pytest.mark.repository
def test_the_consumer_of_the_guide_never_dies(server: Restarting, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as file:
        code = NEVER_DIES.replace('"127.0.0.1:11300"', repr(server.url))
        program = subprocess.Popen([sys.executable, "-u", "-c", code], stdout=file, stderr=file, env=environment())
    try:
        with Client(server.url, use="emails") as producer:
            for body in ("one", "two", "wrong", "three"):
                producer.put(body)
                wait_until(partial(has, output, body), f"{body} was sent")
                server.end()
                server.start()
        wait_until(lambda: output.read_text().count("connected again to") >= 4, "it is back each time")
        assert output.read_text().count("lost the connection to") == 4
        assert program.poll() is None, output.read_text()
    finally:
        program.kill()
        program.wait()
