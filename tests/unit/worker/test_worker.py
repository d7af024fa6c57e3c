"""What a worker is made of is checked when it is given, not when a job comes."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from beanpole import ArgumentError, Task, Worker
from beanpole.client.stats import StatsJob


def send(_task: Task[str]) -> None:
    """A handler."""


def yielding(_task: Task[str], _call: Callable[[], object]) -> Iterator[None]:
    """A mistake: as a fixture would be."""
    yield


async def send_async(_task: Task[str]) -> None:
    """A handler."""


class Sender:
    """An object that is a handler."""

    async def __call__(self, _task: Task[str]) -> None:
        """Sends."""


def test_a_handler_stays_the_function_that_it_is() -> None:
    worker = Worker()
    assert worker.handler("emails")(send) is send
    assert worker.after(send) is send


def test_where_a_handler_runs() -> None:
    worker = Worker()
    worker.handler("threads", "more-threads")(send)
    worker.handler("loop")(send_async)
    worker.handler("objects")(Sender())
    worker.handler("processes", process=True)(send)
    places = {tube: handler.place.value for tube, handler in worker._handlers.items()}
    assert places == {
        "threads": "thread",
        "more-threads": "thread",
        "loop": "loop",
        "objects": "loop",
        "processes": "process",
    }


@pytest.mark.parametrize(
    ("register", "sentence"),
    [
        (lambda worker: worker.handler()(send), "name the tubes"),
        (lambda worker: worker.handler(send), "name the tubes"),
        (lambda worker: worker.handler("-x")(send), "name of a tube|tube"),
        (lambda worker: worker.handler("a", "a")(send), "'a' has a handler"),
        (lambda worker: worker.handler("a", max_attempts=0)(send), "max_attempts"),
        (lambda worker: worker.handler("a", max_attempts="5")(send), "max_attempts"),
        (lambda worker: worker.handler("a", timeout=0)(send), "timeout"),
        (lambda worker: worker.handler("a", concurrency=0)(send), "concurrency"),
        (lambda worker: worker.handler("a", batch=1001)(send), "from 1 to 1000"),
        (lambda worker: worker.handler("a", linger=1)(send), "linger"),
        (lambda worker: worker.handler("a", batch=2, linger=-1)(send), "linger"),
        (lambda worker: worker.handler("a")("send"), "function"),
        (lambda worker: worker.handler("a", process=True)(send_async), "async"),
        (lambda worker: worker.handler("a", process=True)(lambda _: None), "top of a module"),
        (lambda worker: worker.middleware("x"), "middleware is a function"),
        (lambda worker: worker.middleware(yielding), "yielding yields"),
        (lambda _: Worker(stuck_timeout=0), "stuck_timeout"),
        (lambda _: Worker(max_jobs=0), "max_jobs"),
        (lambda _: Worker("http://x"), "beanstalk://"),
    ],
)
def test_mistakes_are_found_at_once(register: Callable[[Worker], Any], sentence: str) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        register(Worker())


def test_a_socket_is_refused() -> None:
    with socket.socket() as given, pytest.raises(ArgumentError, match="address"):
        Worker(given)


def test_a_worker_without_handler_or_slots_does_not_serve() -> None:
    with pytest.raises(ArgumentError, match="no handler"):
        asyncio.run(Worker().serve())
    worker = Worker(concurrency=0)
    worker.handler("emails")(send)
    with pytest.raises(ArgumentError, match="concurrency"):
        asyncio.run(worker.serve())


def test_middleware_that_a_process_cannot_find_is_refused() -> None:
    worker = Worker()
    worker.middleware(lambda _, call: call())
    worker.handler("emails")(send)
    worker.handler("processes", process=True)(send)
    with pytest.raises(ArgumentError, match="top of a module"):
        asyncio.run(worker.serve())


def test_a_task_says_what_it_is() -> None:
    task = Task(5, "x", StatsJob(raw={}, tube="emails"), 2, 5)
    assert repr(task) == "beanpole.Task(id=5, body='x', tube='emails', attempt=2)"
    assert "emails" in repr(Worker()) or "no tube" in repr(Worker())
