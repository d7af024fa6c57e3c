"""Consumers survive that their server is killed and started again."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from beanpole import AsyncClient, Client, ConnectionLostError, NotFoundError, TimedOutError
from tests.e2e.client.restarting import Restarting
from tests.e2e.client.test_docs import NEVER_DIES
from tests.e2e.process import environment, wait_until
from tests.servers import REPLY_TIMEOUT_S
from tests.unit.client.peer import maker

TUBE = "restarts"
RESTARTS = 3


@pytest.fixture(params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Restarting]:
    """A server that runs."""
    running = Restarting(request.param, tmp_path)
    running.start()
    yield running
    running.end()


def consume(kind: str, url: str, done: list[str], errors: list[BaseException]) -> None:
    """Works until there is a job that says stop: what could not be deleted comes again."""
    try:
        with maker(kind) as make:
            client: Any = make(url, watch=TUBE)
            for job in client.reserve_iter():
                done.append(job.body)
                try:
                    client.delete(job)
                except (ConnectionLostError, NotFoundError):
                    continue
                if job.body == "stop":
                    return
    except BaseException as error:  # noqa: BLE001 - the test looks at it
        errors.append(error)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_consumer_survives_restarts(server: Restarting, kind: str, end: int) -> None:
    done: list[str] = []
    errors: list[BaseException] = []
    consumer = threading.Thread(target=consume, args=(kind, server.url, done, errors))
    consumer.start()
    with Client(server.url, use=TUBE) as producer:
        for number in range(RESTARTS):
            producer.put(f"{number}")
            wait_until(partial(done.__contains__, f"{number}"), "the job is done")
            server.end(end)
            server.start()
        producer.put("stop", priority=1)
    consumer.join(REPLY_TIMEOUT_S)
    assert not consumer.is_alive()
    assert not errors
    assert set(done) == {*map(str, range(RESTARTS)), "stop"}


def test_a_job_that_was_held_is_ready_again(server: Restarting) -> None:
    with Client(server.url, use=TUBE, watch=TUBE) as client:
        id = client.put("x")
        job = client.reserve(0)
        server.end()
        with pytest.raises(TimedOutError):
            client.reserve(0)
        server.start()
        assert client.stats_job(id).state == "ready"
        assert client.is_lost(job)
        again = client.reserve(0)
        assert again.id == id
        assert not client.is_lost(job)
        client.delete(job)


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
