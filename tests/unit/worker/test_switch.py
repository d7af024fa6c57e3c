"""A worker whose server is gone goes on at the next address, and says so once."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from beanpole import Task, Worker
from beanpole.address import Address
from beanpole.testing import FakeServer
from beanpole.worker.context import WorkerContext
from beanpole.worker.log import Log
from tests.e2e.process import wait_until

WAIT_S = 30.0


@contextmanager
def serving(worker: Worker) -> Iterator[None]:
    """The worker serves in a thread."""
    thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_a_worker_goes_on_at_the_next_address_and_says_so_once() -> None:
    capture = structlog.testing.LogCapture()
    logger = structlog.wrap_logger(None, processors=[capture])
    with FakeServer() as one, FakeServer() as two:
        worker = Worker([one.address, two.address], 4, logger=logger)
        holding, go_on = threading.Event(), threading.Event()

        @worker.handler("a")
        def handle(task: Task[str]) -> None:
            if task.body == "slow":
                holding.set()
                go_on.wait(WAIT_S)

        url = two.url
        with serving(worker):
            one.put("first", tube="a")
            wait_until(lambda: worker.counters.done == 1, "the first is done")
            one.put("slow", tube="a")
            assert holding.wait(WAIT_S)
            one.stop()
            two.put("second", tube="a")
            wait_until(lambda: worker.counters.done == 2, "the second is done")
            go_on.set()  # this slot finds out only now
            wait_until(lambda: worker.counters.connections == 4, "all slots are connected")
            two.put("third", tube="a")
            wait_until(lambda: worker.counters.done == 3, "the third is done")
    assert two.jobs() == []
    lost = [line for line in capture.entries if line["event"].startswith("no connection")]
    again = [line for line in capture.entries if line["event"] == "connected again"]
    assert len(lost) == 1, lost
    assert [line["server"] for line in again] == [url]
    assert capture.entries[0]["server"].count(",") == 1, "it names both"


def test_losses_that_are_noticed_late_are_no_news() -> None:
    capture = structlog.testing.LogCapture()
    context = WorkerContext(
        handlers={},
        hooks=None,  # type: ignore[arg-type]
        counters=Worker().counters,
        metrics=Worker().metrics,
        log=Log(structlog.wrap_logger(None, processors=[capture])),
        log_done=False,
        dial=lambda _tubes: None,  # type: ignore[arg-type, return-value]
        reserve_s=None,
        slots=2,
        stuck_timeout_s=None,
    )
    first, second = context.on_connected(Address("a")), context.on_connected(Address("a"))
    context.on_disconnected(OSError("gone"), first)
    context.on_disconnected(OSError("gone"), None)
    again = context.on_connected(Address("b"))
    context.on_disconnected(OSError("gone"), second)
    events = ["no connection", "connected again"]
    assert [line["event"] for line in capture.entries] == events
    context.on_disconnected(OSError("gone"), again)
    assert [line["event"] for line in capture.entries] == [*events, events[0]]
