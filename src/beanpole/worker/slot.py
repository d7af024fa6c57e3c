"""A slot: one connection and one job, or batch of them, at a time on it. A worker has as many slots as it may run.

A slot reserves only when it has nothing to run, so a worker never holds a job that nobody works on. All commands for a
job go over the connection that reserved it: no other may touch or delete it, and no reserve blocks that connection
while the handler runs. After anything unexpected the connection is closed, and the server makes the job ready again.

When the connection breaks while a handler runs, and the server keeps jobs for those who return, the slot connects again
and goes on; the handler does not notice. Any other end of a connection is the end of what was held over it.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from beanpole.client import Backoff, Job, JobInfo, StatsJob
from beanpole.errors import (
    BeanpoleError,
    BodyError,
    ConnectionLostError,
    DeadlineSoonError,
    ForbiddenError,
    NotAuthenticatedError,
    NotFoundError,
    TimedOutError,
)
from beanpole.worker import events
from beanpole.worker.attempt import CANCEL_S, Attempt, Cut
from beanpole.worker.calls import Ended
from beanpole.worker.client import WorkerClient, stats_of
from beanpole.worker.context import WorkerContext, first_of
from beanpole.worker.ending import Ending, about, send_done, send_outcome, traceback_of, why, write_ending
from beanpole.worker.executor import Executor
from beanpole.worker.handler import Function, Handler, Outcome, Place, Task, name_of
from beanpole.worker.policy import Dead, attempt_number, is_used_up

NO_RIGHT_S = 60.0  # from one try to the next of a slot whose user may not reserve from any of its tubes

JOBS_NAMED = 5  # jobs that a worker names when it says for whom it waits


class Slot:
    """One connection, and one job at a time on it."""

    def __init__(self, context: WorkerContext, name: str, tubes: Sequence[str]) -> None:
        self._context = context
        self._tubes = tubes
        self._handlers = [context.handlers[tube] for tube in tubes]
        self._warmed = self._handlers if all(each.place is Place.PROCESS for each in self._handlers) else ()
        """Handlers whose process is started before there is a job: those of a slot that can't do anything without."""
        self._executor = Executor(name, context.hooks.middleware)
        self._dialed = context.dial(tubes)  # one client for all connections, so that each returns for the last
        self._client: WorkerClient | None = None
        # What the context wants to know of the connection when it breaks; None: there is none.
        self._made: int | None = None
        self._reserving: asyncio.Task[list[Job[Any] | BodyError]] | None = None
        self._ending: asyncio.Task[None] | None = None  # ends that reserve, as the worker stops
        self._attempt: Attempt | None = None
        self._begun_s: float | None = None  # when the attempt began, by the loop's clock; None: there is none

    # --- Called by the worker ---

    async def work(self) -> None:
        """Works until the worker stops and the running handler has ended."""
        pauses = Backoff().for_ever()
        try:
            while not self._context.stopping.is_set():
                try:
                    if (warming := self._executor.warm(self._warmed)) is not None:
                        await first_of(self._context.stopping, warming)
                    await self._work_once()
                    pauses = Backoff().for_ever()
                    continue
                except NotAuthenticatedError as error:
                    self._context.refuse(error)
                except BeanpoleError as error:
                    if isinstance(error, ForbiddenError) and error.right == "reserve":
                        self._context.refuse(error)
                    else:
                        self._context.on_disconnected(error, self._made)
                except Exception:  # noqa: BLE001 - a bug here must not stop the other slots
                    self._context.log.write(events.WORKER_FAILED, exc_info=True)
                await self._disconnect()
                await self._pause(next(pauses))
        finally:
            self._executor.close()
            await self._disconnect()

    def stop_reserving(self) -> None:
        """Ends a waiting reserve. A job that has arrived already is given back."""
        if self._reserving is not None and self._client is not None:
            self._ending = asyncio.create_task(_end_reserve(self._client, self._reserving))

    @property
    def running(self) -> Sequence[Task[Any]]:
        """The jobs that are worked on; there are none, too, if the handler hangs and nobody waits for it."""
        return () if self._attempt is None else self._attempt.tasks

    def interrupt(self) -> None:
        if self._attempt is not None:
            self._attempt.interrupt(Cut.STOP)

    # --- The connection ---

    async def _connected(self) -> WorkerClient:
        if self._client is None:
            await self._dialed.connect()
            self._client = self._dialed
            await self._note_connected(self._client)
        return self._client

    async def _note_connected(self, client: WorkerClient) -> None:
        self._made = self._context.on_connected(client.address)
        await self._context.check_rights(client)
        await self._context.set_schedules(client, self._made)

    def _note_end(self) -> None:
        if self._made is not None:
            self._context.counters.connections -= 1
        self._made = None

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        self._note_end()
        if client is not None:
            await client.close()

    async def _follow(self, client: WorkerClient, attempt: Attempt) -> None:
        """Connects again whenever the connection breaks while a handler runs, as long as jobs wait for that."""
        ids = {task.id for task in attempt.tasks}
        while client.may_return:
            error = await client.ended()
            self._context.on_disconnected(error, self._made)
            self._note_end()
            is_kept = await client.has_kept(*ids)
            attempt.lose({id for id in ids if not client.holds(id)})
            if not is_kept:
                return
            with contextlib.suppress(BeanpoleError):
                await self._note_connected(client)

    async def _pause(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._context.stopping.wait(), pause_s)

    # --- A job ---

    async def _work_once(self) -> None:
        """Reserves a job and runs its handler; returns if none came in `reserve_s`: so a dead connection is noticed.

        Of a handler that has batches it is as many jobs as one may have, as far as they are there.
        """
        client = await self._connected()
        try:
            jobs = await self._take(client, self._handlers[0])
        except ForbiddenError:
            if len(await client.hidden(self._context.handlers)) == len(self._context.handlers):
                raise
            await self._pause(NO_RIGHT_S)  # the other slots have work; the server may read another file of users
            return
        self._context.counters.reserved += len(jobs)
        try:
            await self._work_on(client, jobs)
        finally:
            client.let_go([job.id for job in jobs])

    async def _work_on(self, client: WorkerClient, jobs: Sequence[Job[Any] | BodyError]) -> None:
        tasks: list[Task[Any]] = []
        handler = self._handlers[0]
        for job, info, stats in await self._confirm(client, jobs):
            if isinstance(stats, NotFoundError | ConnectionLostError):
                self._context.counters.count(Outcome.LOST)
                self._context.log.write(events.JOB_LOST, id=job.id, error=str(stats))
                continue
            if isinstance(stats, BeanpoleError):
                raise stats
            handler = self._context.handlers[stats.tube]
            number = attempt_number(stats, handler.max_attempts)
            task = task_of(job, info, stats, number, handler)
            if self._context.stopping.is_set():
                await self._finish(client, task, handler, Cut.STOP)
            elif isinstance(job, BodyError):
                await self._finish(client, task, handler, Dead(str(job)))
            elif not task.counted and is_used_up(stats, number, handler.max_attempts):
                sentence = f"{handler.max_attempts} attempts have begun, and the workers of some died or lost the job"
                await self._finish(client, task, handler, Dead(sentence))
            else:
                tasks.append(task)
        if tasks:
            await self._run(client, tasks, handler)

    async def _take(self, client: WorkerClient, handler: Handler) -> list[Job[Any] | BodyError]:
        """Reserves a job, or a batch for a handler that has them; it may wait for the rest of it."""
        most = handler.batch or 1
        jobs = await self._reserve(client, most, self._context.reserve_s)
        if jobs and handler.linger_s:
            if len(jobs) < most:  # a waiting reserve is given the first job that comes; by now there may be more
                jobs += await self._reserve(client, most - len(jobs), 0)
            if len(jobs) < most:
                await self._pause(handler.linger_s)
                jobs += await self._reserve(client, most - len(jobs), 0)
        return jobs

    async def _reserve(self, client: WorkerClient, count: int, timeout_s: int | None) -> list[Job[Any] | BodyError]:
        if self._context.stopping.is_set():
            return []
        self._reserving = asyncio.ensure_future(client.reserve_described(count, timeout_s))
        try:
            await asyncio.wait({self._reserving})
            return [] if self._reserving.cancelled() else self._reserving.result()
        except (TimedOutError, DeadlineSoonError):
            return []
        finally:
            self._reserving.cancel()
            self._reserving = None

    async def _confirm(
        self, client: WorkerClient, jobs: Sequence[Job[Any] | BodyError]
    ) -> list[tuple[Job[Any] | BodyError, JobInfo | None, StatsJob | BeanpoleError]]:
        """Touches jobs; returns their statistics, for which it asks if they did not come with the job, or an error.

        If a handler has blocked the event loop, the reply to the reserve may be read long after it was sent, when the
        TTR has run out: then the touch fails.
        """
        while True:
            found = await self._ask_of(client, jobs)
            are_lost = any(isinstance(answer, ConnectionLostError) for _, _, answer in found)
            if not (are_lost and await client.has_kept(*(job.id for job in jobs))):
                return found

    async def _ask_of(
        self, client: WorkerClient, jobs: Sequence[Job[Any] | BodyError]
    ) -> list[tuple[Job[Any] | BodyError, JobInfo | None, StatsJob | BeanpoleError]]:
        infos = [job.info if isinstance(job, Job) else None for job in jobs]
        if None not in infos:
            answers = await client.touch_each([job.id for job in jobs]) if jobs else []
            found = [
                (job, info, answer if isinstance(answer, BeanpoleError) else stats_of(info))
                for job, info, answer in zip(jobs, infos, answers, strict=True)
                if info is not None
            ]
            return [*found]
        try:
            async with client.pipeline(raise_errors=False) as both:
                asked = [(both.touch(job.id), both.stats_job(job.id)) for job in jobs]
        except ConnectionLostError as error:
            return [(job, info, error) for job, info in zip(jobs, infos, strict=True)]
        return [
            (job, info, touched.error or stats.error or stats.result())
            for job, info, (touched, stats) in zip(jobs, infos, asked, strict=True)
        ]

    async def _run(self, client: WorkerClient, tasks: list[Task[Any]], handler: Handler) -> None:
        """Runs the handler of a job, or of a batch of them, and sends the outcome to the server."""
        context = self._context
        attempt = self._attempt = Attempt(client, tasks, handler)
        overs = []
        for task in tasks:
            if (before := context.attempts.get(task.id)) is not None:
                before.lose([task.id])
                overs.append(before.over)
            context.attempts[task.id] = attempt
            context.count_begun()
            context.metrics.begin(task.tube, task.attempt)
        earlier = asyncio.gather(*overs) if overs else None
        attempt.over.add_done_callback(lambda _: self._forget(attempt))
        context.counters.running += 1
        loop = asyncio.get_running_loop()
        self._begun_s = loop.time()
        following = loop.create_task(self._follow(client, attempt))
        try:
            result = await attempt.run(self._executor.start, earlier)
            if result is Cut.LOST and (client.may_return or self._made is None):
                following.cancel()
                await self._disconnect()  # the server may keep jobs for this connection, or for the next
            await self._finish_all(client, attempt, handler, result)
            following.cancel()
            if attempt.runs:
                context.log.write(events.HANDLER_HANGS, id=tasks[0].id, tube=tasks[0].tube)
                self._attempt = None
                await context.wait_for_hanging(attempt.over)
        finally:
            following.cancel()
            context.counters.running -= 1
            self._attempt = self._begun_s = None

    def _forget(self, attempt: Attempt) -> None:
        for task in attempt.tasks:
            if self._context.attempts.get(task.id) is attempt:
                del self._context.attempts[task.id]

    async def _finish_all(self, client: WorkerClient, attempt: Attempt, handler: Handler, result: Cut | Ended) -> None:
        """Sends the outcome of each job: what its handler has said of it, else that of the call."""
        results: list[tuple[Task[Any], Cut | Ended]] = []
        for task in attempt.tasks:
            of_it = result if task.mark is None or result is Cut.LOST else task.mark[0]
            results.append((task, Cut.LOST if task.id in attempt.lost else of_it))
        done = [task for task, of_it in results if of_it is None]
        endings = await send_done(client, done) if len(done) > 1 else {}
        for task, of_it in results:
            await self._finish(client, task, handler, of_it, endings.get(task.id))

    # --- The outcome ---

    async def _finish(
        self,
        client: WorkerClient,
        task: Task[Any],
        handler: Handler,
        result: Cut | Ended,
        ending: Ending | None = None,
    ) -> None:
        """Sends the outcome of a job to the server, unless it knows the `ending`; logs it and calls the hooks."""
        error = TimeoutError(f"longer than {handler.timeout_s} s") if result is Cut.TIMEOUT else result
        context = self._context
        took_s = None if self._begun_s is None else asyncio.get_running_loop().time() - self._begun_s
        try:
            if ending is None:
                ending = await client.surely(task.id, lambda: send_outcome(client, task, handler, error, context.log))
        except (NotFoundError, ConnectionLostError) as reason:
            ending = Ending(Outcome.LOST, lost=str(reason))
        outcome = ending.outcome
        context.counters.count(outcome)
        context.metrics.end(task.tube, outcome, took_s)
        write_ending(context.log, task, ending, error, log_done=context.log_done)
        if isinstance(error, BaseException):
            context.counters.failed += 1
            await self._call_hooks(context.hooks.on_error, task, error)
        await self._call_hooks(context.hooks.after, task, outcome)

    async def _call_hooks(self, hooks: list[Function], task: Task[Any], argument: object) -> None:
        """Calls hooks after the outcome was sent; what they raise is logged."""
        for hook in hooks:
            if (error := await self._executor.call_hook(hook, task, argument)) is not None:
                said = {"hook": name_of(hook), **why(error), "exc_info": traceback_of(error)}
                self._context.log.write(events.HOOK_FAILED, **about(task), **said)


def write_stop(context: WorkerContext, slots: list[Slot], grace_s: float | None) -> None:
    """Logs that the worker stops, and for whom it waits: up to `grace_s` seconds, or None: as long as they take."""
    running = [task for slot in slots for task in slot.running]
    jobs = [f"{task.id} of {task.tube}" for task in running[:JOBS_NAMED]]
    sentence = f"stopping: {len(running) or 'no'} {'job' if len(running) < 2 else 'jobs'} running"
    if jobs:
        sentence += f" ({', '.join(jobs)}{', ...' * (len(running) > len(jobs))})"
    if jobs and grace_s is not None:
        sentence += f", up to {grace_s:g} s"
    if jobs and context.why == "signal":
        sentence += "; signal again to end now"
    said = {"running": len(running), "jobs": jobs, "grace_s": grace_s, "why": context.why}
    context.log.write(events.STOPPING, sentence=sentence, **said)


async def _end_reserve(client: WorkerClient, reserving: "asyncio.Task[Any]") -> None:
    """Ends a waiting reserve. Where the server knows how, a job that comes at that moment is not lost, but given back.

    Elsewhere, and if the server does not answer, the connection ends: to a server that counts that is a failed attempt.
    """
    with contextlib.suppress(BeanpoleError, TimeoutError):
        async with asyncio.timeout(CANCEL_S):
            await client.cancel_reserve()
            await asyncio.wait({reserving})
    reserving.cancel()


def task_of(
    job: Job[Any] | BodyError, info: JobInfo | None, stats: StatsJob, number: int, handler: Handler
) -> Task[Any]:
    """What the handler gets: with the server's count of attempts if it has one, else with `number`, which is ours."""
    body = job.data if isinstance(job, BodyError) else job.body
    if info is None or info.attempts is None:
        task = Task(job.id, body, stats, min(number, handler.max_attempts or number), handler.max_attempts)
    else:
        task = Task(job.id, body, stats, info.attempt or 1, info.attempts)
        task.counted = True
    if info is not None:
        task.schedule, task.scheduled_at, task.fire = info.schedule, info.scheduled_at, info.fire
        task.meta = info.meta or {}
    return task
