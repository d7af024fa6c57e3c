"""Workers in a thread of the test, against a server in the test's process, whose time the test moves."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from beanpole import Client, Worker
from beanpole.testing import FakeServer
from beanpole.worker.events import EVENTS
from tests.e2e.process import wait_until
from tests.servers import REPLY_TIMEOUT_S


class Shop:
    """A worker, a client that puts jobs into its tube, and what the worker has logged."""

    tube = "t"

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.client = Client(server.url, use=self.tube, watch=self.tube)
        self._capture = structlog.testing.LogCapture()
        self._logger = structlog.wrap_logger(None, processors=[self._capture])

    def check_events(self) -> None:
        """Fails for a line that is not as the list of events has it."""
        listed = {each.name: each for each in EVENTS}
        for line in self._capture.entries:
            event = listed[line["event"]]
            assert line["log_level"] == event.level, line
            assert line.keys() - {"event", "log_level", "exc_info"} <= set(event.fields), line

    def worker(self, concurrency: int = 2, **options: object) -> Worker:
        """A worker that does not serve yet."""
        given: dict[str, Any] = {"grace": 10.0, "logger": self._logger} | options
        return Worker(self.server.url, concurrency, **given)

    @contextmanager
    def open(self, worker: Worker) -> Iterator[None]:
        """The worker serves meanwhile."""
        thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join(REPLY_TIMEOUT_S)
            assert not thread.is_alive(), "the worker does not stop"

    def events(self, event: str) -> list[Any]:
        return [line for line in self._capture.entries if line["event"].startswith(event)]

    def tube_is(self, **counts: int) -> bool:
        """Whether so many jobs of the tube are in some states, and none in the others."""
        states = [job.state for job in self.server.jobs(self.tube)]
        return all(states.count(state) == counts.get(state, 0) for state in ("ready", "reserved", "delayed", "buried"))

    def wait_tube(self, **counts: int) -> None:
        wait_until(lambda: self.tube_is(**counts), f"{counts or 'nothing'} in the tube")

    def wait_waiting(self, count: int) -> None:
        wait_until(lambda: self.client.stats().current_waiting == count, f"{count} wait")


@pytest.fixture(params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[FakeServer]:
    """A server that has our extensions, and one that has none."""
    with FakeServer(old=request.param == "beanstalkd", patience=0.1) as running:
        yield running


@pytest.fixture
def shop(server: FakeServer) -> Iterator[Shop]:
    """A worker's server and tube."""
    made = Shop(server)
    with made.client:
        made.client.connect()
        yield made
    made.check_events()
