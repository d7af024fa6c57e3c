"""How users' functions are called: in threads and on the loop, with middleware around them; what they raise is a value.

Middleware gets the task and the rest as a function to call, and runs where the handler does. A plain function is around
plain handlers, in their thread or process; a coroutine function around coroutine handlers. The first that was given is
the outermost. What one raises counts as raised by the handler, and so does what it returns: one that never calls the
rest has done the job.

The threads are daemons: a handler that hangs does not keep the process from its end, as the threads of
`concurrent.futures` would. A user's function may fork: the copy must not go on as a second worker on the same
connections, so it exits as soon as the function returns.
"""

import asyncio
import contextlib
import inspect
import os
import queue
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from beanpole.worker.handler import Function, Given, Handler, Place, is_async, name_of
from beanpole.worker.policy import ON_PURPOSE

Ended = BaseException | None  # what a call raised, or None
FORKED_EXIT_CODE = 70  # the exit code of a forked copy that returned to the worker's code; EX_SOFTWARE of sysexits.h


def stop_if_forked(pid: int) -> None:
    if os.getpid() != pid:
        os._exit(FORKED_EXIT_CODE)


def call(function: Function, *args: object) -> Ended:
    """Calls a function here and now; returns what it raised, whatever that is."""
    pid = os.getpid()
    try:
        result = function(*args)
    except BaseException as error:  # noqa: BLE001 - also sys.exit() of a handler is a failure of the handler only
        return error
    finally:
        stop_if_forked(pid)
    return meant(function, result)


def meant(function: Function, result: object) -> Ended:
    """What a result says: what the function could have raised as well, or what is wrong with it; None: nothing."""
    if isinstance(result, ON_PURPOSE):
        return result
    if not inspect.iscoroutine(result):
        return None
    result.close()
    return TypeError(f"{function!r} returned a coroutine that nobody awaits: define it with async def")


async def call_async(function: Function, *args: object) -> Ended:
    """Awaits a coroutine function; returns what it raised. Being cancelled is one of the things it may raise."""
    pid = os.getpid()
    try:
        result = await function(*args)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        return error
    finally:
        stop_if_forked(pid)
    return meant(function, result)


class HandlerThread:
    """A thread that calls one function after the other."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[asyncio.Future[Ended], Callable[[], Ended]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], Ended]) -> "asyncio.Future[Ended]":
        """Runs a function in the thread; returns a future of its result. Cancelling that does not stop the thread."""
        future: asyncio.Future[Ended] = self._loop.create_future()
        self._queue.put((future, work))
        return future

    def end(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            future, work = item
            ended = work()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the result
                self._loop.call_soon_threadsafe(_set_result, future, ended)
            del item, future, work, ended  # an error holds on to the frames that it went through


def _set_result(future: "asyncio.Future[Ended]", ended: Ended) -> None:
    if not future.done():
        future.set_result(ended)


# --- Middleware -------------------------------------------------------------------------------------------------------


def around(middleware: Iterable[Function], handler: Handler) -> Function:
    """The function of a handler with the middleware that fits around it: a function of a task, too."""
    on_loop = handler.place is Place.LOOP
    fitting = tuple(each for each in middleware if is_async(each) is on_loop)
    if not fitting:
        return handler.function
    return AsyncChain(fitting, handler.function) if on_loop else Chain(fitting, handler.function)


@dataclass(frozen=True, slots=True)
class Chain:
    """A plain handler with middleware around it; a process gets it as it is."""

    middleware: tuple[Function, ...]
    function: Function

    def __call__(self, task: Given) -> object:
        """Raises what the handler returned to say what it wants, and TypeError if that is a coroutine."""
        return self._call(0, task)

    def _call(self, at: int, task: Given) -> object:
        if at < len(self.middleware):
            return self.middleware[at](task, partial(self._call, at + 1, task))
        result = self.function(task)
        if (ended := meant(self.function, result)) is not None:
            raise ended
        return result


@dataclass(frozen=True, slots=True)
class AsyncChain:
    """A coroutine handler with middleware around it."""

    middleware: tuple[Function, ...]
    function: Function

    async def __call__(self, task: Given) -> object:
        """Raises TypeError if a middleware did not await what it called: nobody has done the job then."""
        called: list[tuple[int, Coroutine[Any, Any, object]]] = []

        def call(at: int) -> Coroutine[Any, Any, object]:
            called.append((at, run(at)))
            return called[-1][1]

        async def run(at: int) -> object:
            if at < len(self.middleware):
                return await self.middleware[at](task, partial(call, at + 1))
            result = await self.function(task)
            if (ended := meant(self.function, result)) is not None:
                raise ended
            return result

        forgotten: list[int] = []
        try:
            result = await run(0)
        finally:
            for at, coroutine in called:
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.close()
                    forgotten.append(at)
        if forgotten:  # an error of its own says more
            raise TypeError(f"{name_of(self.middleware[forgotten[0] - 1])} calls what it does not await")
        return result
