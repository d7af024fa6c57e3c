"""A slot: one connection and one job at a time on it. A worker has as many slots as jobs that it may run at once.

A slot reserves only when it has nothing to run, so a worker never holds a job that nobody works on. All commands for a
job go over the connection that reserved it: no other may touch or delete it, and no reserve blocks that connection
while the handler runs. After anything unexpected the connection is closed, and the server makes the job ready again.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from beanpole.client import Backoff, Job, StatsJob
from beanpole.client.errors import BodyError, BuriedError, ConnectionLostError, NotFoundError, TimedOutError
from beanpole.errors import BeanpoleError
from beanpole.worker import limits
from beanpole.worker.attempt import Attempt, Cut
from beanpole.worker.client import WorkerClient, stats_of
from beanpole.worker.context import WorkerContext
from beanpole.worker.executor import Executor
from beanpole.worker.handler import Function, Handler
from beanpole.worker.policy import Bury, Retry, attempt_number, is_used_up, next_delay_s
from beanpole.worker.task import Outcome, Task
from beanpole.worker.thread import Ended


def pauses_for_ever() -> Iterator[float]:
    """Seconds between attempts to connect, without end."""
    return Backoff(attempts=sys.maxsize).pauses()


class Slot:
    """One connection, and one job at a time on it."""

    def __init__(self, context: WorkerContext, name: str) -> None:
        self._context = context
        self._executor = Executor(name)
        self._client: WorkerClient | None = None
        self._made: int | None = None
        """What the context wants to know of the connection when it breaks; None: there is none."""
        self._reserving: asyncio.Task[Job[Any]] | None = None
        self._ending: asyncio.Task[None] | None = None
        """Ends that reserve, as the worker stops."""
        self._attempt: Attempt | None = None
        self._begun_s: float | None = None
        """When the attempt began, by the loop's clock; None: there is none."""

    # --- Called by the worker ---

    async def work(self) -> None:
        """Works until the worker stops and the running handler has ended."""
        pauses = pauses_for_ever()
        try:
            while not self._context.stopping.is_set():
                try:
                    await self._work_once()
                    pauses = pauses_for_ever()
                    continue
                except BeanpoleError as error:
                    self._context.on_disconnected(error, self._made)
                except Exception:  # a bug here, or in a user's backoff function, must not stop the other slots
                    self._context.logger.exception("the worker failed; the job goes back to the server")
                await self._disconnect()
                await self._pause(next(pauses))
        finally:
            self._executor.close()
            await self._disconnect()

    def stop_reserving(self) -> None:
        """Ends a waiting reserve. A job that has arrived already is given back."""
        if self._reserving is not None and self._client is not None:
            self._ending = asyncio.create_task(_end_reserve(self._client, self._reserving))

    def interrupt(self) -> None:
        """Stops the running handler, if there is one."""
        if self._attempt is not None:
            self._attempt.interrupt(Cut.STOP)

    # --- The connection ---

    async def _connected(self) -> WorkerClient:
        if self._client is None:
            client = self._context.dial()
            await client.connect()
            self._client = client
            self._made = self._context.on_connected(client.address)
        return self._client

    async def _disconnect(self) -> None:
        client, self._client, self._made = self._client, None, None
        if client is not None:
            self._context.counters.connections -= 1
            await client.close()

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._context.stopping.wait(), pause_s)

    # --- A job ---

    async def _work_once(self) -> None:
        """Reserves a job and runs its handler; returns if none came in `reserve_s`: so a dead connection is noticed."""
        client = await self._connected()
        job = await self._reserve(client)
        if job is None:
            return
        self._context.counters.reserved += 1
        try:
            stats = await self._confirm(client, job)
        except (NotFoundError, ConnectionLostError) as error:
            self._context.counters.count(Outcome.LOST)
            self._context.logger.warning("job lost before it began", id=job.id, error=str(error))
            return
        handler = self._context.handlers[stats.tube]
        number = attempt_number(stats, handler.max_attempts)
        task = task_of(job, stats, number, handler)
        if self._context.stopping.is_set():
            await self._finish(client, task, handler, Cut.STOP)
        elif isinstance(job, BodyError):
            await self._finish(client, task, handler, Bury(str(job)))
        elif not task.counted and is_used_up(stats, number, handler.max_attempts):
            sentence = f"{handler.max_attempts} attempts have begun, and the workers of some died or lost the job"
            await self._finish(client, task, handler, Bury(sentence))
        else:
            await self._run(client, task, handler)

    async def _reserve(self, client: WorkerClient) -> Job[Any] | BodyError | None:
        if self._context.stopping.is_set():
            return None
        self._reserving = asyncio.ensure_future(client.reserve_described(self._context.reserve_s))
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

    async def _confirm(self, client: WorkerClient, job: Job[Any] | BodyError) -> StatsJob:
        """Touches a job and returns its statistics, for which it asks only if they did not come with the job.

        If a handler has blocked the event loop, the reply to the reserve may be read long after it was sent, when the
        TTR has run out: then the touch fails. Raises NotFoundError or ConnectionLostError.
        """
        info = job.info if isinstance(job, Job) else None
        if info is not None:
            await client.touch(job.id)
            return stats_of(info)
        async with client.pipeline() as both:
            both.touch(job.id)
            stats = both.stats_job(job.id)
        return stats.result()

    async def _run(self, client: WorkerClient, task: Task[Any], handler: Handler) -> None:
        """Runs the handler of a job and sends the outcome to the server."""
        context = self._context
        attempt = self._attempt = Attempt(client, task, handler)
        if (earlier := context.attempts.get(task.id)) is not None:
            earlier.interrupt(Cut.LOST)
        context.attempts[task.id] = attempt
        attempt.over.add_done_callback(lambda _: self._forget(attempt))
        context.counters.running += 1
        context.metrics.begin(task.tube, task.attempt)
        self._begun_s = asyncio.get_running_loop().time()
        try:
            result = await attempt.run(self._before, self._executor.start, earlier)
            await self._finish(client, task, handler, result)
            if attempt.runs:
                context.logger.error("a handler runs on and occupies its slot", id=task.id, tube=task.tube)
                await context.wait_for_hanging(attempt.over)
        finally:
            context.counters.running -= 1
            self._attempt = self._begun_s = None

    def _forget(self, attempt: Attempt) -> None:
        if self._context.attempts.get(attempt.task.id) is attempt:
            del self._context.attempts[attempt.task.id]

    async def _before(self, task: Task[Any]) -> Ended:
        """Calls the `before` hooks; what one raises counts as raised by the handler."""
        for hook in self._context.hooks.before:
            if (refusal := await self._executor.call_hook(hook, task)) is not None:
                return refusal
        return None

    # --- The outcome ---

    async def _finish(self, client: WorkerClient, task: Task[Any], handler: Handler, result: Cut | Ended) -> None:
        """Sends the outcome of a job to the server, logs it and calls the hooks."""
        error = TimeoutError(f"longer than {handler.timeout_s} s") if result is Cut.TIMEOUT else result
        context, delay_s = self._context, None
        took_s = None if self._begun_s is None else asyncio.get_running_loop().time() - self._begun_s
        about: dict[str, object] = {"id": task.id, "tube": task.tube}
        about |= {"attempt": task.attempt, "max_attempts": task.max_attempts}
        try:
            outcome, delay_s = await self._send_outcome(client, task, handler, error)
        except (NotFoundError, ConnectionLostError) as reason:
            outcome = Outcome.LOST
            about["error"] = str(reason)
        context.counters.count(outcome)
        context.metrics.end(task.tube, outcome, took_s)
        if outcome is Outcome.LOST:
            context.logger.warning("job lost: the server has it again", **about)
        elif outcome is Outcome.RELEASED:
            context.logger.info("job released: the worker stops", **about)
        elif outcome is Outcome.BURIED:
            event = "job dead" if task.counted and not isinstance(error, Bury) else "job buried"
            context.logger.error(event, **about, **_why(error), exc_info=_unexpected(error))
        elif outcome is Outcome.RETRIED and isinstance(error, Retry):
            context.logger.info("job retried", **about, delay_s=delay_s, **_why(error))
        elif outcome is Outcome.RETRIED:
            context.logger.warning("job failed", **about, delay_s=delay_s, **_why(error))
        elif context.log_done:
            context.logger.info("job done", **about)
        if isinstance(error, BaseException):
            context.counters.failed += 1
            await self._call_hooks(context.hooks.on_error, task, error)
        await self._call_hooks(context.hooks.after, task, outcome)

    async def _send_outcome(
        self, client: WorkerClient, task: Task[Any], handler: Handler, result: Cut | Ended
    ) -> tuple[Outcome, float | None]:
        """Says what came of a job; returns the outcome and, if the job comes again, the seconds until then if known.

        Raises NotFoundError or ConnectionLostError if the job is lost.
        """
        if result is Cut.LOST:
            return Outcome.LOST, None
        if result is None:
            await client.delete(task.id)
            return Outcome.DONE, None
        try:
            if isinstance(result, Cut):
                await client.give_back(task.id, task.stats.pri)
                return Outcome.RELEASED, 0
            if task.counted and not isinstance(result, Bury):
                return await _send_failure(client, task.id, result)
            delay_s = next_delay_s(result, task.attempt, handler.max_attempts, handler.backoff)
            if delay_s is not None:
                await client.release(task.id, task.stats.pri, delay_s)
                return Outcome.RETRIED, delay_s
            await client.bury(task.id, task.stats.pri)
        except BuriedError:  # the server's answer to a release for which it has no room
            pass
        return Outcome.BURIED, None

    async def _call_hooks(self, hooks: list[Function], *args: object) -> None:
        """Calls hooks after the outcome was sent; what they raise is logged."""
        for hook in hooks:
            if (error := await self._executor.call_hook(hook, *args)) is not None:
                self._context.logger.error("a hook failed", hook=repr(hook), exc_info=_traceback(error))


async def _end_reserve(client: WorkerClient, reserving: "asyncio.Task[Any]") -> None:
    """Ends a waiting reserve. Where the server knows how, a job that comes at that moment is not lost, but given back.

    Elsewhere, and if the server does not answer, the connection ends: to a server that counts that is a failed attempt.
    """
    with contextlib.suppress(BeanpoleError, TimeoutError):
        async with asyncio.timeout(limits.CANCEL_MS / 1000):
            await client.cancel_reserve()
            await asyncio.wait({reserving})
    reserving.cancel()


def task_of(job: Job[Any] | BodyError, stats: StatsJob, number: int, handler: Handler) -> Task[Any]:
    """What the handler gets: with the server's count of attempts if it has one, else with `number`, which is ours."""
    info, body = (None, job.data) if isinstance(job, BodyError) else (job.info, job.body)
    if info is None or info.attempts is None:
        return Task(job.id, body, stats, min(number, handler.max_attempts or number), handler.max_attempts)
    task = Task(job.id, body, stats, info.attempt or 1, info.attempts)
    task.counted = True
    return task


async def _send_failure(client: WorkerClient, id: int, error: BaseException) -> tuple[Outcome, float | None]:
    """Says to a server that counts attempts that this one has failed, and why: what follows is the server's business.

    Raises NotFoundError or ConnectionLostError if the job is lost.
    """
    delay_s = error.delay if isinstance(error, Retry) else None
    is_dead = await client.fail_job(id, "".join(_why(error).values()), delay=delay_s)
    return (Outcome.BURIED, None) if is_dead else (Outcome.RETRIED, delay_s)


def _why(error: object) -> dict[str, str]:
    """The cause for the log: the reason given by the handler, or else the error."""
    if isinstance(error, Retry | Bury):
        return {"reason": str(error)} if str(error) else {}
    return {"error": f"{type(error).__name__}: {error}"}


def _unexpected(error: object) -> object:
    """The traceback of an error that the handler did not raise on purpose."""
    return None if isinstance(error, Retry | Bury) else _traceback(error)


def _traceback(error: object) -> object:
    """An exception in the form from which structlog formats a traceback."""
    return (type(error), error, error.__traceback__) if isinstance(error, BaseException) else None
