"""Runs users' functions in threads and coroutines, and returns what they raise as a value.

The threads are daemons: a handler that hangs does not keep the process from its end, as the threads of
`concurrent.futures` would.

A user's function may fork. The copy must not go on as a second worker on the same connections, so it exits as soon as
the function returns.
"""

import asyncio
import contextlib
import inspect
import os
import queue
import threading
from collections.abc import Callable

from beanpole.worker.handler import Function

Ended = BaseException | None
"""What a call raised, or None."""

FORKED_EXIT_CODE = 70
"""The exit code of a forked copy that returned to the worker's code; EX_SOFTWARE of sysexits.h."""


def stop_if_forked(pid: int) -> None:
    """Exits if this process is a fork: if its id is not `pid`."""
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
    return not_awaited(function, result)


def not_awaited(function: Function, result: object) -> TypeError | None:
    """What is wrong with the result of a plain function; None: nothing."""
    if not inspect.iscoroutine(result):
        return None
    result.close()
    return TypeError(f"{function!r} returned a coroutine that nobody awaits: define it with async def")


async def call_async(function: Function, *args: object) -> Ended:
    """Awaits a coroutine function; returns what it raised. Being cancelled is one of the things it may raise."""
    pid = os.getpid()
    try:
        await function(*args)
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - see above
        return error
    finally:
        stop_if_forked(pid)
    return None


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
        """Ends the thread after the work that was submitted."""
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
