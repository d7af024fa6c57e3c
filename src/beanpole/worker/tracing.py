"""The span of each attempt, for a worker with ``tracing=True``: middleware, which runs where the handler does."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from beanpole.client.tracing import CONSUMER, fail, span_of
from beanpole.worker.handler import Given, tasks_of


def process(given: Given, call: Callable[[], object]) -> object:
    """Around plain handlers."""
    with attempt(given):
        return call()


async def process_async(given: Given, call: Callable[[], Awaitable[object]]) -> object:
    """Around coroutine handlers."""
    with attempt(given):
        return await call()


@contextmanager
def attempt(given: Given) -> Iterator[None]:
    """A span of the attempt at a job, or at a batch, which has failed if one of its jobs has."""
    tasks = tasks_of(given)
    more: dict[str, str | int] = {"messaging.operation.type": "process"}
    if isinstance(given, list):
        more["messaging.batch.message_count"] = len(given)
    else:
        more |= {"messaging.message.id": str(given.id), "beanpole.attempt": given.attempt}
    with span_of("process", CONSUMER, tasks[0].tube, more, tasks) as span:
        yield
        for error in [task.mark[0] for task in tasks if task.mark is not None and task.mark[0] is not None]:
            fail(span, error)
