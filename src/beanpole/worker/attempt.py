"""One attempt at a job: the handler runs, and the job stays reserved meanwhile.

It may be cut short: the time is over, the worker stops, or the job is lost. Then the handler is stopped, if that is
possible; what it says afterwards does not count, as nobody can know how far it came.
"""

import asyncio
import enum
from collections.abc import Callable, Coroutine
from typing import Any

from beanpole import limits
from beanpole.errors import ConnectionLostError, NotFoundError, ReplyError, UnexpectedReplyError
from beanpole.worker.handler import Handler
from beanpole.worker.line import Line
from beanpole.worker.station import Running
from beanpole.worker.task import Task
from beanpole.worker.thread import Ended


class Cut(enum.Enum):
    """Why an attempt was cut short."""

    LOST = "lost"
    """The server has taken the job back."""

    TIMEOUT = "timeout"
    """The handler has taken longer than it may."""

    STOP = "stop"
    """The worker stops, and can't wait any longer."""


class Attempt:
    """A job that this worker holds, and the handler that runs for it."""

    def __init__(self, line: Line, task: Task[object], handler: Handler) -> None:
        self._line = line
        self.task = task
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._cut: asyncio.Future[Cut] = self._loop.create_future()
        self._running: Running | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._touching: asyncio.Task[None] | None = None
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done when neither this handler nor that of an earlier attempt runs any more: maybe long after :meth:`run`."""

    @property
    def runs(self) -> bool:
        """Whether the handler runs, or still runs when :meth:`run` has returned."""
        return self._running is not None and not self._running.done.done()

    def cut_short(self, why: Cut) -> None:
        """Ends the attempt; the first reason counts."""
        if not self._cut.done():
            self._cut.set_result(why)

    async def run(
        self,
        before: Callable[[Task[object]], Coroutine[None, None, Ended]],
        start: Callable[[Handler, Task[object]], Running],
        earlier: "Attempt | None",
    ) -> Cut | Ended:
        """Runs the hooks before the handler, and the handler; returns why that was cut short, or what it raised.

        If the handler of an `earlier` attempt still runs here, it is waited for, at the most for the time that this one
        may take: a job is not done twice at the same time.
        """
        self._keep()
        try:
            if earlier is not None and not earlier.over.done():
                await self._wait(earlier.over)
                if self._cut.done() and self._cut.result() is Cut.TIMEOUT:
                    return TimeoutError(
                        f"not begun: an earlier attempt ran on here for {self._handler.timeout_s} s more"
                    )
                self._count_time()
            if not self._cut.done():
                hooks = self._loop.create_task(before(self.task))
                await self._wait(hooks)
                if hooks.done() and hooks.result() is not None:
                    return hooks.result()
                hooks.cancel()
            if not self._cut.done():
                self._running = start(self._handler, self.task)
                await self._wait(self._running.done)
                if self._running.done.done() and not (self._cut.done() and self._cut.result() is Cut.LOST):
                    return self._running.done.result()
                await self._stop_handler()
            return self._cut.result()
        finally:
            self._let_go(earlier)

    def _keep(self) -> None:
        """Begins to touch the job, and to count the time."""
        self._timers["touch"] = self._loop.call_later(self.task.stats.ttr / 2, self._touch_soon)
        self._count_time()

    def _count_time(self) -> None:
        """Lets the time that the attempt may take begin, or begin again."""
        if "timeout" in self._timers:
            self._timers["timeout"].cancel()
        if self._handler.timeout_s is not None:
            self._timers["timeout"] = self._loop.call_later(self._handler.timeout_s, self.cut_short, Cut.TIMEOUT)

    def _let_go(self, earlier: "Attempt | None") -> None:
        """Ends what :meth:`_keep` has begun, and whatever was not stopped properly."""
        for timer in self._timers.values():
            timer.cancel()
        if self._touching is not None:
            self._touching.cancel()
        if self._running is not None and not self._running.done.done():
            self._running.done.add_done_callback(self._end)
            if self._running.stop is not None:
                self._running.stop()
        elif earlier is not None and not earlier.over.done():
            earlier.over.add_done_callback(self._end)
        else:
            self._end()

    async def _stop_handler(self) -> None:
        """Stops the handler if that is possible, and gives it some time for its end."""
        assert self._running is not None, "there is a handler"
        if self._running.stop is not None:
            self._running.stop()
            await asyncio.wait({self._running.done}, timeout=limits.WORKER_CANCEL_MS / 1000)

    def _end(self, _: object = None) -> None:
        if not self.over.done():
            self.over.set_result(None)

    async def _wait(self, future: "asyncio.Future[Any]") -> None:
        """Waits for a future, or until the attempt is cut short."""
        await asyncio.wait({future, self._cut}, return_when=asyncio.FIRST_COMPLETED)

    def _touch_soon(self) -> None:
        """Half of the TTR is over."""
        self._timers["touch"] = self._loop.call_later(self.task.stats.ttr / 2, self._touch_soon)
        if self._touching is None or self._touching.done():
            self._touching = self._loop.create_task(self._touch())

    async def _touch(self) -> None:
        try:
            await self._line.touch(self.task.id)
        except (NotFoundError, ConnectionLostError, UnexpectedReplyError):
            self.cut_short(Cut.LOST)
        except ReplyError:
            pass  # the server has trouble, but not with the job: touched again before the TTR is over
