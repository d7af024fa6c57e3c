"""A slot: one connection and one job at a time on it. A worker has as many slots as jobs that it may run at once.

A slot reserves only when it has nothing to run, so a worker never holds a job that waits. All commands for a job go
over the connection that reserved it, which has no reserve waiting on it then. When anything unexpected happens the
connection is closed, which gives the job back.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from beanpole.client import Backoff, Job, StatsJob
from beanpole.errors import (
    BeanpoleError,
    BodyError,
    BuriedError,
    ConnectionLostError,
    NotFoundError,
    TimedOutError,
)
from beanpole.worker.attempt import Attempt, Cut
from beanpole.worker.handler import Function, Handler
from beanpole.worker.line import Line
from beanpole.worker.policy import Bury, Retry, attempt_number, is_used_up, next_delay_s
from beanpole.worker.shift import Shift
from beanpole.worker.station import Station
from beanpole.worker.task import Outcome, Task
from beanpole.worker.thread import Ended


def pauses_for_ever() -> Iterator[float]:
    """Seconds between attempts to connect, without an end."""
    return Backoff(attempts=sys.maxsize).pauses()


class Slot:
    """One connection, and one job at a time on it."""

    def __init__(self, shift: Shift, name: str) -> None:
        self._shift = shift
        self._station = Station(name)
        self._line: Line | None = None
        self._reserving: asyncio.Task[Job[Any]] | None = None
        self._attempt: Attempt | None = None

    # --- Called by the worker ---

    async def work(self) -> None:
        """Works until the shift stops and what runs has ended."""
        pauses = pauses_for_ever()
        try:
            while not self._shift.stopping.is_set():
                try:
                    await self._turn()
                    pauses = pauses_for_ever()
                    continue
                except BeanpoleError as error:
                    self._shift.away(error)
                except Exception:  # a mistake in here, or in a backoff, must not stop the other slots
                    self._shift.logger.exception("the worker failed; the job goes back to the server")
                await self._hang_up()
                await self._pause(next(pauses))
        finally:
            self._station.close()
            await self._hang_up()

    def stop_reserving(self) -> None:
        """Ends a reserve that waits. A job that has come already is given back."""
        if self._reserving is not None:
            self._reserving.cancel()

    def cut_short(self) -> None:
        """Stops what runs."""
        if self._attempt is not None:
            self._attempt.cut_short(Cut.STOP)

    # --- The connection ---

    async def _connected(self) -> Line:
        if self._line is None:
            line = self._shift.dial()
            await line.connect()
            self._line = line
            self._shift.connected()
        return self._line

    async def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._shift.counters.connections -= 1
            await line.close()

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._shift.stopping.wait(), pause_s)

    # --- A job ---

    async def _turn(self) -> None:
        """Waits for a job and sees to it; returns without one after a while, so that a dead connection is noticed."""
        line = await self._connected()
        job = await self._reserve(line)
        if job is None:
            return
        self._shift.counters.reserved += 1
        try:
            stats = await self._take_hold(line, job.id)
        except (NotFoundError, ConnectionLostError) as error:
            self._shift.counters.count(Outcome.LOST)
            self._shift.logger.warning("job lost before it began", id=job.id, error=str(error))
            return
        handler = self._shift.handlers[stats.tube]
        number = attempt_number(stats, handler.max_attempts)
        body = job.body if isinstance(job, Job) else job.data
        task: Task[Any] = Task(job.id, body, stats, min(number, handler.max_attempts or number), handler.max_attempts)
        if self._shift.stopping.is_set():
            await self._settle(line, task, handler, Cut.STOP)
        elif isinstance(job, BodyError):
            await self._settle(line, task, handler, Bury(str(job)))
        elif is_used_up(stats, number, handler.max_attempts):
            sentence = f"{handler.max_attempts} attempts have begun, and the workers of some died or lost the job"
            await self._settle(line, task, handler, Bury(sentence))
        else:
            await self._run(line, task, handler)

    async def _reserve(self, line: Line) -> Job[Any] | BodyError | None:
        if self._shift.stopping.is_set():
            return None
        self._reserving = asyncio.ensure_future(line.reserve(self._shift.reserve_s))
        try:
            await asyncio.wait({self._reserving})
            return None if self._reserving.cancelled() else self._reserving.result()
        except TimedOutError:
            return None
        except BodyError as error:
            return error
        finally:
            self._reserving.cancel()
            self._reserving = None

    async def _take_hold(self, line: Line, id: int) -> StatsJob:
        """What the server knows of a job, which is still held: a loop that was blocked may see it late.

        Raises NotFoundError or ConnectionLostError if it is lost.
        """
        async with line.pipeline() as both:
            both.touch(id)
            stats = both.stats_job(id)
        return stats.result()

    async def _run(self, line: Line, task: Task[Any], handler: Handler) -> None:
        """Runs the handler, and tells the server what came of it."""
        shift = self._shift
        attempt = self._attempt = Attempt(line, task, handler)
        if (earlier := shift.attempts.get(task.id)) is not None:
            earlier.cut_short(Cut.LOST)
        shift.attempts[task.id] = attempt
        attempt.over.add_done_callback(lambda _: self._forget(attempt))
        shift.counters.running += 1
        try:
            result = await attempt.run(self._before, self._station.start, earlier)
            await self._settle(line, task, handler, result)
            if attempt.runs:
                shift.logger.error("a handler runs on and occupies its slot", id=task.id, tube=task.tube)
                await shift.until_it_ends(attempt.over)
        finally:
            shift.counters.running -= 1
            self._attempt = None

    def _forget(self, attempt: Attempt) -> None:
        if self._shift.attempts.get(attempt.task.id) is attempt:
            del self._shift.attempts[attempt.task.id]

    async def _before(self, task: Task[Any]) -> Ended:
        """Calls the hooks before a handler; returns what one raised, which is as if the handler had."""
        for hook in self._shift.hooks.before:
            if (refusal := await self._station.call_hook(hook, task)) is not None:
                return refusal
        return None

    # --- What came of it ---

    async def _settle(self, line: Line, task: Task[Any], handler: Handler, result: Cut | Ended) -> None:
        """Tells the server, the log and the hooks what came of a job."""
        error = TimeoutError(f"longer than {handler.timeout_s} s") if result is Cut.TIMEOUT else result
        shift, delay_s = self._shift, None
        about: dict[str, object] = {"id": task.id, "tube": task.tube}
        about |= {"attempt": task.attempt, "max_attempts": task.max_attempts}
        try:
            outcome, delay_s = await self._tell_server(line, task, handler, error)
        except (NotFoundError, ConnectionLostError) as reason:
            outcome = Outcome.LOST
            about["error"] = str(reason)
        shift.counters.count(outcome)
        if outcome is Outcome.LOST:
            shift.logger.warning("job lost: the server has it again", **about)
        elif outcome is Outcome.RELEASED:
            shift.logger.info("job released: the worker stops", **about)
        elif outcome is Outcome.BURIED:
            shift.logger.error("job buried", **about, **_why(error), exc_info=_unforeseen(error))
        elif outcome is Outcome.RETRIED and isinstance(error, Retry):
            shift.logger.info("job retried", **about, delay_s=delay_s, **_why(error))
        elif outcome is Outcome.RETRIED:
            shift.logger.warning("job failed", **about, delay_s=delay_s, **_why(error))
        elif shift.log_done:
            shift.logger.info("job done", **about)
        if isinstance(error, BaseException):
            shift.counters.failed += 1
            await self._call_hooks(shift.hooks.on_error, task, error)
        await self._call_hooks(shift.hooks.after, task, outcome)

    async def _tell_server(
        self, line: Line, task: Task[Any], handler: Handler, result: Cut | Ended
    ) -> tuple[Outcome, int | None]:
        """Deletes, releases or buries a job; returns also in how many seconds it is ready again.

        Raises NotFoundError or ConnectionLostError if it is lost.
        """
        pri = task.stats.pri
        if result is Cut.LOST:
            return Outcome.LOST, None
        if result is None:
            await line.delete(task.id)
            return Outcome.DONE, None
        try:
            if isinstance(result, Cut):
                await line.release(task.id, pri, 0)
                return Outcome.RELEASED, 0
            delay_s = next_delay_s(result, task.attempt, handler.max_attempts, handler.backoff)
            if delay_s is not None:
                await line.release(task.id, pri, delay_s)
                return Outcome.RETRIED, delay_s
        except BuriedError:  # the server's answer to a release for which it has no room
            return Outcome.BURIED, None
        await line.bury(task.id, pri)
        return Outcome.BURIED, None

    async def _call_hooks(self, hooks: list[Function], *args: object) -> None:
        """Calls hooks when all is said; what they raise is logged."""
        for hook in hooks:
            if (error := await self._station.call_hook(hook, *args)) is not None:
                self._shift.logger.error("a hook failed", hook=repr(hook), exc_info=_traceback(error))


def _why(error: object) -> dict[str, str]:
    """What the log says of the cause: the reason that a handler gave, if it did, or else the error."""
    if isinstance(error, Retry | Bury):
        return {"reason": str(error)} if str(error) else {}
    return {"error": f"{type(error).__name__}: {error}"}


def _unforeseen(error: object) -> object:
    """The traceback of what a handler did not raise on purpose."""
    return None if isinstance(error, Retry | Bury) else _traceback(error)


def _traceback(error: object) -> object:
    """What structlog makes a traceback of."""
    return (type(error), error, error.__traceback__) if isinstance(error, BaseException) else None
