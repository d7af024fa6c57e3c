"""An attempt that is cut short before its handler begins, or while it runs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from beanpole import StatsJob, Task
from beanpole.errors import ConnectionLostError, InternalError, NotFoundError
from beanpole.worker.attempt import Attempt, Cut
from beanpole.worker.calls import Ended, call_async
from beanpole.worker.client import WorkerClient
from beanpole.worker.executor import Running
from beanpole.worker.handler import make_handler


class Silence(WorkerClient):
    """A connection on which touches have the answers that a test gives."""

    def __init__(self, *answers: Exception | None) -> None:
        super().__init__(("127.0.0.1", 1))
        self.answers = list(answers)

    async def touch(self, _job: object) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


async def nothing(_task: Task[Any]) -> Ended:
    return None


def attempt(client: WorkerClient, timeout_s: float | None = None, ttr: int = 60) -> Attempt:
    task: Task[object] = Task(1, "x", StatsJob(raw={}, ttr=ttr, tube="t"), 1, 5)
    handler = make_handler(nothing, max_attempts=5, backoff=float, timeout_s=timeout_s, process=False)
    return Attempt(client, [task], handler)


def running(function: Callable[..., Any], begun: list[str]) -> Callable[..., Running]:
    """Starts an async handler, and notes that."""

    def start(_handler: object, task: object) -> Running:
        begun.append("begun")
        done = asyncio.ensure_future(call_async(function, task))
        return Running(done, [done.cancel])

    return start


@pytest.mark.parametrize("why", list(Cut))
def test_what_is_cut_while_it_waits_for_an_earlier_one_does_not_begin(why: Cut) -> None:
    begun: list[str] = []

    async def main() -> object:
        earlier, later = attempt(Silence()), attempt(Silence())
        asyncio.get_running_loop().call_soon(later.interrupt, why)
        result = await later.run(running(nothing, begun), earlier.over)
        assert not later.runs
        assert not later.over.done(), "who comes after it has to wait for the earlier one, too"
        earlier.over.set_result(None)
        await asyncio.wait_for(later.over, 5)
        return result

    result = asyncio.run(main())
    assert isinstance(result, TimeoutError) if why is Cut.TIMEOUT else result is why
    assert not begun


def test_the_time_of_an_attempt_begins_when_it_need_not_wait_any_more() -> None:
    async def main() -> object:
        loop = asyncio.get_running_loop()
        earlier, later = attempt(Silence()), attempt(Silence(), timeout_s=100)
        run = loop.create_task(later.run(running(nothing, []), earlier.over))
        await asyncio.sleep(0)
        first = later._timers["timeout"]
        earlier.over.set_result(None)
        assert await run is None
        assert first.cancelled()
        return later._timers["timeout"].when() > first.when()

    assert asyncio.run(main())


def test_what_has_ended_counts_unless_the_job_is_lost() -> None:
    async def main(why: Cut) -> object:
        one = attempt(Silence())

        async def handler(_: Task[Any]) -> None:
            one.interrupt(why)

        return await one.run(running(handler, []), None)

    assert [asyncio.run(main(why)) for why in (Cut.TIMEOUT, Cut.STOP, Cut.LOST)] == [None, None, Cut.LOST]


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([None, None], None),
        ([InternalError("bug"), None], None),
        ([None, NotFoundError("gone")], Cut.LOST),
        ([ConnectionLostError("broken")], Cut.LOST),
    ],
)
def test_what_a_touch_says(answers: list[Exception | None], result: object) -> None:
    client = Silence(*answers)

    async def until_all_is_answered(_: Task[Any]) -> None:
        while client.answers:  # noqa: ASYNC110 - a test may look again and again
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1 if result else 0)

    async def main() -> object:
        return await attempt(client, ttr=1).run(running(until_all_is_answered, []), None)

    assert asyncio.run(main()) is result
