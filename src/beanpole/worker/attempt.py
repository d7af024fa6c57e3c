"""One attempt at a job: runs the handler, and keeps the job reserved until it ends.

An attempt is interrupted when its timeout passes, the worker stops, or the job is lost. The handler is then stopped, if
it can be: a coroutine is cancelled and a process killed, but nothing in Python stops a thread, which can look at
``task.cancelled``. Such a thread runs on
after :meth:`Attempt.run` has returned, while the server hands out the job again, maybe to this worker. So an attempt
has two ends: `run` returns the result that counts, and `over` is done when no handler for the job runs here any more.
"""

import asyncio
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from beanpole.errors import ConnectionLostError, NotFoundError, UnexpectedReplyError
from beanpole.worker.calls import Ended
from beanpole.worker.client import WorkerClient
from beanpole.worker.executor import Running
from beanpole.worker.handler import Handler, Task

GONE = (NotFoundError, ConnectionLostError, UnexpectedReplyError)
"""The answers to a touch after which a job is not ours any more."""

CANCELLABLE_TOUCH_S = 5.0
"""Seconds between touches of a job whose handler is cancellable, at the most: so soon it hears of that."""

CANCEL_S = 1.0  # seconds that a cancelled or killed handler has for its end until its job is given back


class Cut(enum.Enum):
    """Why an attempt was interrupted."""

    LOST = "lost"  # the server has taken the job back, or somebody has cancelled it
    TIMEOUT = "timeout"  # the handler took longer than its timeout
    STOP = "stop"  # the worker stops, and the grace period is over


class Attempt:
    """A reserved job, or a batch of them, and the handler that runs for it."""

    def __init__(self, client: WorkerClient, tasks: Sequence[Task[Any]], handler: Handler) -> None:
        self._client = client
        self.tasks = tasks
        self.lost: set[int] = set()
        """Those, by id, that the server has taken back."""
        self._handler = handler
        ttr_s = min(task.stats.ttr for task in tasks)
        self.touch_s = min(ttr_s / 2, CANCELLABLE_TOUCH_S if handler.cancellable else ttr_s)
        """Seconds between touches: half of the TTR at the most, so that one lost touch does no harm."""
        self._loop = asyncio.get_running_loop()
        self._cut: asyncio.Future[Cut] = self._loop.create_future()
        self._running: Running | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._touching: asyncio.Task[None] | None = None
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done when neither this handler nor an earlier one for the job runs here: maybe long after :meth:`run`."""

    @property
    def runs(self) -> bool:
        return self._running is not None and not self._running.done.done()

    def interrupt(self, why: Cut) -> None:
        """Interrupts the attempt; the first reason counts."""
        if not self._cut.done():
            self._cut.set_result(why)
            for task in self.tasks:
                task.cancelled = True

    def lose(self, ids: Iterable[int]) -> None:
        """Notes that jobs are not ours any more; with the last one the attempt is interrupted."""
        self.lost.update(ids)
        for task in self.tasks:
            task.cancelled |= task.id in self.lost
        if len(self.lost) == len(self.tasks):
            self.interrupt(Cut.LOST)

    async def run(
        self,
        start: Callable[[Handler, Sequence[Task[Any]]], Running],
        earlier: "asyncio.Future[Any] | None",
    ) -> Cut | Ended:
        """Runs the handler; returns what it raised, or why the attempt was interrupted.

        If the handler of an earlier attempt still runs here, the attempt waits for its end, `earlier`, first, up to its
        own timeout: one worker never runs the same job twice at the same time.
        """
        self._start_timers()
        try:
            if earlier is not None and not earlier.done():
                await self._wait(earlier)
                if self._cut.done() and self._cut.result() is Cut.TIMEOUT:
                    return TimeoutError(
                        f"not begun: an earlier attempt ran on here for {self._handler.timeout_s} s more"
                    )
                self._start_timeout()  # again: the wait does not count towards this handler's time
            if not self._cut.done():
                self._running = start(self._handler, self.tasks)
                await self._wait(self._running.done)
                # A result that arrives together with an interruption still counts: the handler did finish. But not if
                # the job is lost: its result would be sent for a job that may already run elsewhere.
                if self._running.done.done() and not (self._cut.done() and self._cut.result() is Cut.LOST):
                    return self._running.done.result()
                await self._stop_handler()
            return self._cut.result()
        finally:
            self._clean_up(earlier)

    def _start_timers(self) -> None:
        """Starts to touch the job, and starts the timeout."""
        self._touch_later()
        self._start_timeout()

    def _touch_later(self) -> None:
        self._timers["touch"] = self._loop.call_later(self.touch_s, self._touch_soon)

    def _start_timeout(self) -> None:
        if "timeout" in self._timers:
            self._timers["timeout"].cancel()
        if self._handler.timeout_s is not None:
            self._timers["timeout"] = self._loop.call_later(self._handler.timeout_s, self.interrupt, Cut.TIMEOUT)

    def _clean_up(self, earlier: "asyncio.Future[Any] | None") -> None:
        """Stops the timers and the touching; `over` is done once the handlers that are left have ended."""
        for timer in self._timers.values():
            timer.cancel()
        if self._touching is not None:
            self._touching.cancel()
        if self._running is not None and not self._running.done.done():
            self._running.done.add_done_callback(self._end)
            if self._running.stops:
                self._running.stops[-1]()
        elif earlier is not None and not earlier.done():
            earlier.add_done_callback(self._end)
        else:
            self._end()

    async def _stop_handler(self) -> None:
        """Stops the handler if it can be stopped, and waits up to `CANCEL_S` for its end, after each way to do that."""
        assert self._running is not None, "there is a handler"
        for stop in self._running.stops:
            stop()
            await asyncio.wait({self._running.done}, timeout=CANCEL_S)
            if self._running.done.done():
                break

    def _end(self, _: object = None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    async def _wait(self, future: "asyncio.Future[Any]") -> None:
        await asyncio.wait({future, self._cut}, return_when=asyncio.FIRST_COMPLETED)

    def _touch_soon(self) -> None:
        """Touches the job, unless the last touch still waits for its reply; called each `touch_s` seconds."""
        self._touch_later()
        if self._touching is None or self._touching.done():
            self._touching = self._loop.create_task(self._touch())

    async def _touch(self) -> None:
        """Touches what is still ours. After OUT_OF_MEMORY or INTERNAL_ERROR it is: it is touched again in time."""
        ids = [task.id for task in self.tasks if task.id not in self.lost]
        answers = await self._client.touch_each(ids)
        # Where jobs are kept, the slot comes back, or finds that they are lost.
        gone = tuple(each for each in GONE if each is not ConnectionLostError) if self._client.may_return else GONE
        lost = [id for id, answer in zip(ids, answers, strict=True) if isinstance(answer, gone)]
        self._client.let_go(lost)
        self.lose(lost)
