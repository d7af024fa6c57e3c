"""Workers in a thread of the test, against both servers; each test works in a tube of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
import structlog

from beanpole import Client, Worker
from beanpole.worker.events import EVENTS
from tests.e2e.process import wait_until
from tests.servers import HOST, REPLY_TIMEOUT_S, Server, beanpole_server, beanstalkd_server

numbers = count()


class Shop:
    """A worker, a client that puts jobs into its tube, and what the worker has logged."""

    def __init__(self, server: Server, tube: str) -> None:
        self.server = server
        self.tube = tube
        self.client = Client((HOST, server.port), use=tube, watch=tube)
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
        return Worker((HOST, self.server.port), concurrency, **given)

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
        """What was logged about an event."""
        return [line for line in self._capture.entries if line["event"].startswith(event)]

    def tube_is(self, **counts: int) -> bool:
        """Whether so many jobs of the tube are in some states, and none in the others."""
        stats = self.client.stats_tube(self.tube)
        states = ("ready", "reserved", "delayed", "buried")
        return all(stats[f"current-jobs-{state}"] == counts.get(state, 0) for state in states)

    def wait_tube(self, **counts: int) -> None:
        """Waits until so many jobs of the tube are in some states, and none in the others."""
        wait_until(lambda: self.tube_is(**counts), f"{counts or 'nothing'} in the tube")


@pytest.fixture(scope="module", params=["beanpole", "beanstalkd"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that the tests of a file share."""
    with beanpole_server() if request.param == "beanpole" else beanstalkd_server() as running:
        yield running


@pytest.fixture
def shop(server: Server) -> Iterator[Shop]:
    """A tube of the test's own."""
    made = Shop(server, f"t{next(numbers)}")
    with made.client:
        yield made
    made.check_events()
