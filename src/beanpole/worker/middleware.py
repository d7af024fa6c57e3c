"""Functions around handlers: each gets the task and the rest as a function to call, and runs where the handler does.

A plain function is around plain handlers, in their thread or process; a coroutine function around coroutine handlers.
The first that was given is the outermost. What one raises counts as raised by the handler, and so does what it returns:
one that never calls the rest has done the job.
"""

import inspect
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from beanpole.errors import ArgumentError
from beanpole.worker.handler import Function, Handler, Place, is_async, name_of
from beanpole.worker.task import Task
from beanpole.worker.thread import not_awaited


def check(function: Function) -> None:
    """Raises ArgumentError for what is no middleware."""
    if not callable(function):
        raise ArgumentError(f"a middleware is a function of a task and of what it calls, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ArgumentError(f"{name_of(function)} yields: a middleware calls its second argument instead")


def check_for_processes(middleware: Iterable[Function], handlers: Iterable[Handler]) -> None:
    """Raises ArgumentError if a handler runs in a process, which could not find a middleware."""
    if any(handler.place is Place.PROCESS for handler in handlers):
        for each in middleware:
            if not is_async(each) and "<" in name_of(each):
                sentence = "can't be found by the process of a handler: define it at the top of a module"
                raise ArgumentError(f"the middleware {name_of(each)} {sentence}")


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

    def __call__(self, task: Task[Any]) -> object:
        """Raises TypeError if the handler returned a coroutine."""
        return self._call(0, task)

    def _call(self, at: int, task: Task[Any]) -> object:
        if at < len(self.middleware):
            return self.middleware[at](task, partial(self._call, at + 1, task))
        result = self.function(task)
        if (mistake := not_awaited(self.function, result)) is not None:
            raise mistake
        return result


@dataclass(frozen=True, slots=True)
class AsyncChain:
    """A coroutine handler with middleware around it."""

    middleware: tuple[Function, ...]
    function: Function

    async def __call__(self, task: Task[Any]) -> object:
        """Raises TypeError if a middleware did not await what it called: nobody has done the job then."""
        called: list[tuple[int, Coroutine[Any, Any, object]]] = []

        def call(at: int) -> Coroutine[Any, Any, object]:
            called.append((at, run(at)))
            return called[-1][1]

        async def run(at: int) -> object:
            if at < len(self.middleware):
                return await self.middleware[at](task, partial(call, at + 1))
            return await self.function(task)

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
