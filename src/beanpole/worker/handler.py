"""What a program gives to a worker: handlers for tubes, and functions around and after them."""

import enum
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from beanpole.errors import ArgumentError
from beanpole.worker.policy import Delays

Function = Callable[..., Any]


class Place(enum.Enum):
    """Where a handler runs."""

    LOOP = "loop"  # a coroutine function, on the event loop
    THREAD = "thread"  # a function, in a thread
    PROCESS = "process"  # a function, in a process of its own


@dataclass(frozen=True, slots=True)
class Handler:
    """A function, and how its jobs are run and retried."""

    function: Function
    place: Place
    max_attempts: int | None  # attempts until a job is dead; None: no limit
    backoff: Delays
    timeout_s: float | None  # seconds that an attempt may take; None: no limit


@dataclass(slots=True)
class Hooks:
    """Functions that are called with every handler, in the order in which they were given."""

    middleware: list[Function] = field(default_factory=list)
    after: list[Function] = field(default_factory=list)
    on_error: list[Function] = field(default_factory=list)


def is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - an object may be callable


def name_of(function: Function) -> str:
    """What a function is called in its program: ``tasks.send``, or ``tasks.main.<locals>.send``."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1


def make_handler(
    function: Function, *, max_attempts: int | None, backoff: Delays, timeout_s: float | None, process: bool
) -> Handler:
    """A handler from the arguments of :meth:`Worker.handler`. Raises ArgumentError."""
    if not callable(function):
        raise ArgumentError(f"a handler is a function, not {function!r}")
    if max_attempts is not None and not is_count(max_attempts):
        raise ArgumentError(f"max_attempts must be 1 or more, or None for no end, not {max_attempts!r}")
    if timeout_s is not None and not timeout_s > 0:
        raise ArgumentError(f"timeout must be more than 0 seconds, or None, not {timeout_s!r}")
    place = Place.PROCESS if process else Place.LOOP if is_async(function) else Place.THREAD
    if place is Place.PROCESS:
        name = getattr(function, "__qualname__", "<object>")
        if is_async(function):
            raise ArgumentError(f"{name} is async, and a process runs plain functions: leave out process=True")
        if "<" in name:
            raise ArgumentError(f"{name} can't be found by another process: define it at the top of a module")
    return Handler(function, place, max_attempts, backoff, timeout_s)


def check_middleware(function: Function) -> None:
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
