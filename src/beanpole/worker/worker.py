"""The worker: handlers for tubes, and the loop that runs them until the worker stops.

``run`` is for a program that is nothing but a worker, ``serve`` for one that has an event loop of its own.
"""

import asyncio
import functools
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

import uvloop

from beanpole.address import Addresses
from beanpole.client import Address, Backoff, Login
from beanpole.client import limits as client_limits
from beanpole.client.base import PATIENCE_S, Given, login_for, own_name
from beanpole.client.codec import BytesCodec, Codec, TextCodec
from beanpole.client.extensions import whole
from beanpole.client.scheduling import NOTHING, ScheduleOptions
from beanpole.errors import ArgumentError, WorkerStuckError
from beanpole.protocol import wire
from beanpole.protocol.limits import KEEP_S_MAX
from beanpole.version import __version__
from beanpole.worker import events
from beanpole.worker.attempt import CANCEL_S
from beanpole.worker.client import WorkerClient
from beanpole.worker.context import WorkerContext, first_of
from beanpole.worker.function import BatchFunction, Connections, JobFunction, handle_of, reads_json
from beanpole.worker.handler import (
    Counters,
    Handler,
    Hooks,
    Task,
    check_for_processes,
    check_middleware,
    in_threads,
    is_count,
    make_handler,
    name_of,
    shares,
)
from beanpole.worker.log import Log, shown
from beanpole.worker.metrics import Metrics, MetricsServer
from beanpole.worker.policy import Delays, exponential
from beanpole.worker.schedule import Declared, declare
from beanpole.worker.slot import Slot, write_stop

CONCURRENCY = 10
"""Jobs that a worker runs at a time, and so its connections, by default."""

ATTEMPTS = 5
"""Attempts at a job until it is dead, unless its handler says otherwise."""

KEEP_S = 10
"""Seconds for which the server keeps the jobs of a worker whose connections are lost, by default."""

GRACE_S = 25
"""Seconds that running handlers have when a worker stops: below the 30 after which Kubernetes kills a process."""

STUCK_S = 60
"""Seconds for which handlers that hang may occupy all slots of a worker until it ends, by default."""

RESERVE_S = 30
"""Seconds of a worker's reserve; then it asks again, so that a server that is gone without a word is noticed."""

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def spans() -> list[Callable[..., Any]]:
    """What makes a span of each attempt. Raises ArgumentError if OpenTelemetry is not there."""
    from beanpole.worker.tracing import process, process_async  # noqa: PLC0415 - for those who ask for it

    return [process, process_async]


class HandlerOptions(TypedDict, total=False):
    """How the jobs of a function are run and retried: arguments of :meth:`Worker.handler`."""

    max_attempts: int | None
    backoff: Delays | None
    timeout: float | None
    process: bool
    concurrency: int | None
    cancellable: bool


class Worker:
    """Takes jobs from a server, up to `concurrency` at a time, and calls a handler for each.

    `address` is what :class:`~beanpole.client.sync.Client` takes, except a socket: the worker reconnects whenever a
    connection breaks, at the next address if there are several. `encoding`, `codec`, `timeout`, `connect_timeout` and
    `login` are the client's; who is refused, or may reserve nothing, does not try again: :meth:`serve` ends with
    NotAuthenticatedError or ForbiddenError.

    `grace` is how many seconds running handlers have when the worker stops. If handlers that ran into their timeout and
    did not stop occupy all slots for `stuck_timeout` seconds, :meth:`serve` gives up (None: never). After `max_jobs`
    jobs it stops, for a program around it that starts another: what handlers leak goes with it. `logger` is one of the
    standard library, or has structlog's methods; `log_done` logs a line for each successful job, too. `name` is what
    its connections are called for people who look at the server, instead of ``host:pid worker TUBES version``.

    For `keep` seconds, 1 to 600, the server keeps the jobs of handlers that run when it is restarted or fails over: the
    worker comes back and goes on with them (0: others have them at once). With `keep_always` it does so after any end
    of a connection but the worker's own stop, for workers behind a proxy that is restarted: the jobs of a worker that
    was killed come back so much later then. `patience` is how many seconds the puts of its functions wait for a server
    that is away, as a client's. With `tracing` each attempt is a span of OpenTelemetry in the trace that its job
    carries, and each put of its functions is one; it needs the extra ``otel``.

    Raises ArgumentError.
    """

    def __init__(  # noqa: PLR0913 - everything but the first two is by name
        self,
        address: Given | None = None,
        concurrency: int = CONCURRENCY,
        *,
        encoding: str | None = "utf-8",
        codec: Codec[Any] | None = None,
        timeout: float | None = client_limits.TIMEOUT_MS / 1000,
        connect_timeout: float | None = client_limits.CONNECT_TIMEOUT_MS / 1000,
        grace: float = GRACE_S,
        stuck_timeout: float | None = STUCK_S,
        max_jobs: int | None = None,
        logger: Any = None,  # noqa: ANN401 - see above
        log_done: bool = False,
        name: str | None = None,
        keep: int = KEEP_S,
        keep_always: bool = False,
        patience: float | None = PATIENCE_S,
        tracing: bool = False,
        login: Login | None = None,
    ) -> None:
        if isinstance(address, socket.socket | Addresses):
            raise ArgumentError("a worker makes its connections itself: give it an address, not a socket")
        if max_jobs is not None and not is_count(max_jobs):
            raise ArgumentError(f"max_jobs must be 1 or more, or None for no end, not {max_jobs!r}")
        if stuck_timeout is not None and not stuck_timeout > 0:
            raise ArgumentError(f"stuck_timeout must be more than 0 seconds, or None, not {stuck_timeout!r}")
        self.address = Address.default() if address is None else Address.of(address)
        """The server. It may be changed until the worker serves, as may the attributes below."""
        self.login = login_for(address, login).check(self.address)
        """How the worker shows who it is, and whom it believes."""
        self.concurrency = concurrency
        """Jobs at a time, of all handlers that have no slots of their own."""
        self.processes = True
        """Whether handlers with `process` have processes; False: they run in threads, as a test wants it."""
        self.grace_s = grace
        """Seconds that running handlers have when the worker stops."""
        self.reserve_s: int | None = RESERVE_S
        """Seconds of a reserve; then the worker asks again, and finds out if the server is gone. None: for ever."""
        self.stuck_timeout_s = stuck_timeout
        """Seconds for which handlers that hang may occupy all slots until the worker gives up; None: for ever."""
        self.max_jobs = max_jobs
        """After so many jobs have begun the worker stops, and those that run then have all their time; None: never."""
        self.keep_s, self.keep_always = keep, keep_always  # as above
        self.logger = logger
        """Where events are logged; None: the logger ``beanpole.worker`` of the standard library."""
        self.log_done = log_done
        """Whether successes are logged, too."""
        self.counters = Counters()
        """What the worker has done so far."""
        self.metrics = Metrics()
        """The same for Prometheus: ``worker.metrics.text(worker.counters, worker.slots)``."""
        self.metrics_sockets: Sequence[socket.socket] = ()
        """Listening sockets on which :meth:`serve` answers requests for these over HTTP; it closes them."""
        self.metrics_open: Callable[[], Sequence[socket.socket]] | None = None
        """Makes these later: called each second until it raises no OSError or StartError; None: none are to come."""
        self.name = name
        """What its connections are called on the server; None: the host, the process, its tubes and the version."""
        self._codec = codec or (BytesCodec() if encoding is None else TextCodec(encoding))
        self._timeout_s, self._connect_timeout_s = timeout, connect_timeout
        self._handlers: dict[str, Handler] = {}
        self._schedules: dict[str, Declared] = {}
        self._hooks = Hooks(spans() if tracing else [])
        times = {"timeout": timeout, "connect_timeout": connect_timeout, "patience": patience}
        self._connections = Connections(lambda: (Address.of(self.address), self.login), tracing=tracing, **times)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: WorkerContext | None = None
        self._stop_wanted = False
        self._why = ""
        """Why it is wanted, for the log."""

    def __repr__(self) -> str:
        return f"<Worker {self.address} for {', '.join(self._handlers) or 'no tube'}>"

    # --- Registration ---

    def handler(  # noqa: PLR0913 - everything but the tubes is by name
        self,
        *tubes: str,
        max_attempts: int | None = ATTEMPTS,
        backoff: Delays | None = None,
        timeout: float | None = None,
        process: bool = False,
        concurrency: int | None = None,
        batch: int | None = None,
        linger: float = 0,
        cancellable: bool = False,
    ) -> Callable[[F], F]:
        """Makes a function the handler of the jobs in some tubes; it is called with a :class:`Task`.

        A coroutine function runs on the event loop, a plain one in a thread, or with `process` in a process. When it
        returns, the job is deleted. When it raises, or takes more than `timeout` seconds, the job is retried after
        the delay that `backoff` gives (a function from the number of the attempt to seconds; :func:`exponential` makes
        one), and dead after `max_attempts` (None: never).

        With `concurrency` it has so many slots of its own: no more of its jobs run at once, and none waits for those of
        other handlers. With `batch` it is called with a list of up to so many tasks: what is there, and if that is
        less, what comes within `linger` seconds. It has one slot of its own then, or as many as `concurrency` says.
        :meth:`Task.done` and :meth:`Task.fail` say what came of one; the others follow the call.

        One that is `cancellable` hears within five seconds that its job was cancelled: a coroutine is cancelled, as it
        is whenever its job is lost, a process gets SIGTERM, which raises SystemExit, and a second later SIGKILL, and a
        thread can look at ``task.cancelled``.

        Raises ArgumentError for wrong arguments, and for a tube that has a handler already.
        """

        def register(function: F) -> F:
            made = make_handler(
                function,
                max_attempts=max_attempts,
                backoff=backoff or exponential(),
                timeout_s=timeout,
                process=process,
                concurrency=concurrency,
                batch=batch,
                linger_s=linger,
                cancellable=cancellable,
            )
            for tube in tubes:
                if tube in self._handlers:
                    raise ArgumentError(f"the tube {tube!r} has a handler")
                self._handlers[tube] = made
            return function

        if not tubes or not all(isinstance(tube, str) for tube in tubes):
            raise ArgumentError('name the tubes of the handler: @worker.handler("emails")')
        for tube in tubes:
            wire.tube_name(tube)
        return register

    @overload
    def function(
        self, tube: str, *, batch: None = None, **options: Unpack[HandlerOptions]
    ) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...
    @overload
    def function(
        self, tube: str, *, batch: int, linger: float = ..., **options: Unpack[HandlerOptions]
    ) -> Callable[[Callable[[list[Task[Any]]], R]], BatchFunction[R]]: ...
    def function(
        self, tube: str, *, batch: int | None = None, linger: float = 0, **options: Unpack[HandlerOptions]
    ) -> Callable[[Callable[..., R]], JobFunction[..., R]]:
        """Makes a function the handler of the jobs in a tube, and something that puts such jobs.

        ``send(3)`` calls the function as before, ``send.put(3)`` and ``await send.aput(3)`` put a job whose body is the
        JSON object of the arguments, for which a worker calls ``send(3)``. The other arguments are those of
        :meth:`handler`. See :class:`~beanpole.worker.function.JobFunction`.

        With `batch` it is called with a list of tasks, and ``send.put(body)`` puts one job whose body is that as JSON.

        Raises ArgumentError as :meth:`handler` does, for a function with parameters that have no name of their own
        (``*args``, ``**kwargs``, positional-only ones), and if the worker has a codec that can't read JSON in UTF-8.
        """
        if not reads_json(self._codec):
            raise ArgumentError(f"the jobs of a function are JSON in UTF-8, which {self._codec!r} does not read")
        handler = self.handler(tube, batch=batch, linger=linger, **options)

        def register(function: Callable[..., R]) -> JobFunction[..., R]:
            made = (JobFunction if batch is None else BatchFunction)(function, tube, self._connections)
            handler(handle_of(made, self._connections))
            return made

        return register

    def schedule(
        self,
        *,
        name: str | None = None,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        body: Any = NOTHING,  # noqa: ANN401 - what the codec encodes
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[F], F]:
        """Has the server put a job for a function at certain times: stands above :meth:`function` or :meth:`handler`.

        ``@worker.schedule(cron="0 3 * * *", zone="Europe/Berlin")``: the options are those of
        :meth:`Client.set_schedule`. The job calls the function with `args` and `kwargs`; what a handler gets is `body`.
        `name` is what the server calls the schedule, by default as the tube. A function may have several, each with a
        name of its own. The tube is that of the function.

        :meth:`serve` sets it when it has a connection, and when it has one again, and drops none: one that is no longer
        in the program goes on until somebody drops it.

        Raises ScheduleError or ArgumentError for a line that is wrong, and TypeError for arguments that do not fit the
        function.
        """

        def register(function: F) -> F:
            data, tubes = b"", [tube for tube, handler in self._handlers.items() if handler.function is function]
            if isinstance(function, JobFunction):
                tubes, data = [function.tube], function.encode(*args, **(kwargs or {}))
                if body is not NOTHING:
                    raise ArgumentError("the body of a function's job is made of its args and kwargs")
            elif args or kwargs:
                raise ArgumentError("a handler is called with a job, whose body is `body`")
            elif body is not NOTHING:
                data = self._codec.encode(body)
            if len(tubes) != 1:
                raise ArgumentError("a schedule stands above @worker.function, or above @worker.handler with one tube")
            if options.get("tube") not in (None, tubes[0]):
                raise ArgumentError(
                    f"a schedule above {name_of(function)} puts into its tube {tubes[0]}, not into {options['tube']}"
                )
            made = declare(name or tubes[0], name_of(function), {**options, "tube": tubes[0]}, data)
            if made.name in self._schedules:
                raise ArgumentError(f"there is a schedule {made.name!r} already: give each a name of its own")
            self._schedules[made.name] = made
            return function

        return register

    def middleware(self, function: F) -> F:
        """Puts a function around every handler of its kind; the first that is given is the outermost.

        It is called with the Task and with a function without arguments that calls the rest, where the handler runs: a
        plain one around plain handlers, in their thread or process, a coroutine function around coroutine handlers
        (``await call()``). What it raises counts as raised by the handler. One that does not call has done the job.

        Raises ArgumentError for what is no such function.
        """
        check_middleware(function)
        self._hooks.middleware.append(function)
        return function

    def after(self, hook: F) -> F:
        """Calls a function with each Task and its :class:`Outcome`, after the outcome was sent."""
        self._hooks.after.append(hook)
        return hook

    def on_error(self, hook: F) -> F:
        """Calls a function with the Task and the exception after a failed attempt."""
        self._hooks.on_error.append(hook)
        return hook

    @property
    def tubes(self) -> list[str]:
        """The tubes that have a handler."""
        return list(self._handlers)

    @property
    def slots(self) -> int:
        """Calls of handlers at a time, and so its connections: those of each handler, and what the others share."""
        return len(shares(self._handlers, self.concurrency))

    @property
    def schedules(self) -> list[str]:
        """The names of the schedules that it sets."""
        return list(self._schedules)

    # --- Running ---

    def run(self) -> None:
        """Works until SIGTERM or SIGINT; call it from the main thread.

        The first signal stops the worker as :meth:`stop` does; a second one ends the process at once, with the exit
        code 128 + the signal's number. Raises what :meth:`serve` does.
        """
        with shown(), self._signals(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self.serve())

    async def serve(self) -> None:
        """Works until :meth:`stop` is called. Cancelling it stops the handlers at once, and their jobs are ready again.

        Raises ArgumentError without handlers, or with a concurrency below 1; RuntimeError if the worker runs already;
        WorkerStuckError when handlers that hang have occupied all slots for `stuck_timeout` seconds; ScheduleError or
        UnsupportedError if the server does not take one of its schedules when it begins.
        """
        if self._context is not None:
            raise RuntimeError("this worker serves already")
        if not self._handlers:
            raise ArgumentError('the worker has no handler: register one with @worker.handler("tube")')
        if not is_count(self.concurrency):
            raise ArgumentError(f"concurrency must be 1 or more, not {self.concurrency!r}")
        whole(self.keep_s, KEEP_S_MAX, "keep")
        handlers = self._handlers if self.processes else in_threads(self._handlers)
        check_for_processes(self._hooks.middleware, handlers.values())
        self._loop = asyncio.get_running_loop()
        http = MetricsServer(self.metrics_sockets, self._metrics_text, self._what_is_wrong, self.metrics_open)
        await http.start()
        log = Log(self.logger)
        address = Address.of(self.address)
        context = self._context = WorkerContext(
            handlers=handlers,
            hooks=self._hooks,
            counters=self.counters,
            metrics=self.metrics,
            log=log,
            log_done=self.log_done,
            dial=functools.partial(self._dial, Addresses(address)),
            reserve_s=self.reserve_s,
            slots=self.slots,
            stuck_timeout_s=self.stuck_timeout_s,
            schedules=list(self._schedules.values()),
            max_jobs=self.max_jobs,
        )
        watched = shares(self._handlers, self.concurrency)
        slots = [Slot(context, f"beanpole-{number}", tubes) for number, tubes in enumerate(watched)]
        for tube in self._handlers:
            self.metrics.expect(tube)
        log.write(events.STARTED, server=str(address), tubes=list(self._handlers), concurrency=len(slots))
        if self._stop_wanted:
            context.stop(self._why)
        tasks = {self._loop.create_task(slot.work()) for slot in slots}
        try:
            await self._until_stopped(context, slots, tasks)
        finally:
            self._context = None
            self._stop_wanted = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await http.stop()
        log.write(events.STOPPED, done=self.counters.done, failed=self.counters.failed)
        if context.is_stuck:
            sentence = f"handlers that hang occupied all {context.slots} slots for {context.stuck_timeout_s} s"
            raise WorkerStuckError(sentence)
        if context.failure is not None:
            raise context.failure

    def stop(self) -> None:
        """Stops taking jobs; running handlers have `grace` seconds, then their jobs are released.

        Returns at once, and may be called from any thread; :meth:`run` and :meth:`serve` return when the handlers have
        ended. A worker that does not run yet stops as soon as it does.
        """
        self._stop("stop")

    # --- Inside ---

    def _stop(self, why: str) -> None:
        self._stop_wanted, self._why = True, why
        loop, context = self._loop, self._context
        if loop is not None and context is not None:
            loop.call_soon_threadsafe(context.stop, why)

    async def _until_stopped(self, context: WorkerContext, slots: list[Slot], tasks: set[asyncio.Task[None]]) -> None:
        """Waits for the stop, gives handlers their grace period, then interrupts those that still run."""
        await context.stopping.wait()
        for slot in slots:
            slot.stop_reserving()
        if not context.hurry.is_set():
            write_stop(context, slots, None)
            await first_of(context.hurry, asyncio.gather(*tasks, return_exceptions=True))
        if context.hurry.is_set():
            write_stop(context, slots, self.grace_s)
        _, running = await asyncio.wait(tasks, timeout=self.grace_s)
        if running:
            for slot in slots:
                slot.interrupt()
            await asyncio.wait(running, timeout=2 * CANCEL_S)

    def _dial(self, addresses: Addresses, tubes: Sequence[str]) -> WorkerClient:
        return WorkerClient(
            addresses,
            watch=tubes,
            codec=self._codec,
            timeout=self._timeout_s,
            connect_timeout=self._connect_timeout_s,
            backoff=Backoff(attempts=1, max_s=max(self.keep_s / 4, 0.1)),
            keep=self.keep_s,
            keep_always=self.keep_always,
            login=self.login,
            name=own_name(f"worker {','.join(self._handlers)} {__version__}") if self.name is None else self.name,
        )

    def _metrics_text(self) -> str:
        return self.metrics.text(self.counters, self.slots)

    def _what_is_wrong(self) -> str:
        """Why the worker does not do its work; empty: it does."""
        context = self._context
        if context is None or context.stopping.is_set():
            return "the worker stops"
        return "" if self.counters.connections else "no connection to the server"

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stops the worker on SIGINT and SIGTERM.

        The handlers are Python's, not the loop's: a second signal must end the process even if the loop hangs.
        """
        came = False

        def handle(number: int, _frame: object) -> None:
            nonlocal came
            if came:  # not if it stops for another reason: then this signal is the first
                os._exit(128 + number)
            came = True
            self._stop("signal")

        before = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, each in before.items():
                signal.signal(number, each)
