"""Where the handlers of one slot run: on the loop, in its thread, or in its process."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from beanpole.worker.handler import Function, Handler, Place, is_async
from beanpole.worker.middleware import around
from beanpole.worker.process import Child
from beanpole.worker.task import Task
from beanpole.worker.thread import Ended, HandlerThread, call, call_async


@dataclass(frozen=True, slots=True)
class Running:
    """A handler that runs."""

    done: "asyncio.Future[Ended]"
    """Done when the handler has ended; its result is what the handler raised, or None."""

    stop: Callable[[], object] | None
    """Asks the handler to stop; None: it runs in a thread, which can't be stopped."""


class Executor:
    """The thread and the process of a slot, started when they are first needed."""

    def __init__(self, name: str, middleware: Sequence[Function]) -> None:
        self._name = name
        self._middleware = middleware
        self._thread: HandlerThread | None = None
        self._hook_thread: HandlerThread | None = None
        self._child = Child()

    def start(self, handler: Handler, task: Task[object]) -> Running:
        """Starts a handler, and the middleware around it."""
        function = around(self._middleware, handler)
        if handler.place is Place.LOOP:
            done = asyncio.ensure_future(call_async(function, task))
            return Running(done, done.cancel)
        if self._thread is None:
            self._thread = HandlerThread(self._name)
        if handler.place is Place.THREAD:
            return Running(self._thread.submit(partial(call, function, task)), None)
        self._child.reset()
        return Running(self._thread.submit(partial(self._child.run, function, task)), self._child.kill)

    async def call_hook(self, hook: Function, *args: object) -> Ended:
        """Calls a hook and waits for it, in a thread of its own: a handler may hang in the other one."""
        if is_async(hook):
            return await call_async(hook, *args)
        if self._hook_thread is None:
            self._hook_thread = HandlerThread(f"{self._name}-hooks")
        return await self._hook_thread.submit(partial(call, hook, *args))

    def close(self) -> None:
        """Stops the threads and kills the process, without waiting for them."""
        self._child.kill()
        for thread in (self._thread, self._hook_thread):
            if thread is not None:
                thread.end()
