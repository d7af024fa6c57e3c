"""What a program gives to a worker, handlers and functions around them, and what these get: a task, and its outcome."""

import enum
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from beanpole.client.job import Job
from beanpole.client.stats import StatsJob
from beanpole.errors import ArgumentError
from beanpole.protocol.limits import FRAMES_MAX
from beanpole.worker.policy import Delays

if TYPE_CHECKING:
    from datetime import datetime

Function = Callable[..., Any]
B = TypeVar("B")


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
    concurrency: int | None = None  # slots that work for it alone, and no others do; None: those that are for all
    batch: int | None = None  # jobs at most for which it is called once, with a list; None: with one job
    linger_s: float = 0  # seconds that a batch which is not full waits for more
    cancellable: bool = False  # whether it is to hear within seconds that somebody has cancelled its job


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


def make_handler(  # noqa: PLR0913 - all but the first by name
    function: Function,
    *,
    max_attempts: int | None,
    backoff: Delays,
    timeout_s: float | None,
    process: bool,
    concurrency: int | None = None,
    batch: int | None = None,
    linger_s: float = 0,
    cancellable: bool = False,
) -> Handler:
    """A handler from the arguments of :meth:`Worker.handler`. Raises ArgumentError."""
    if not callable(function):
        raise ArgumentError(f"a handler is a function, not {function!r}")
    if max_attempts is not None and not is_count(max_attempts):
        raise ArgumentError(f"max_attempts must be 1 or more, or None for no end, not {max_attempts!r}")
    if timeout_s is not None and not timeout_s > 0:
        raise ArgumentError(f"timeout must be more than 0 seconds, or None, not {timeout_s!r}")
    if concurrency is not None and not is_count(concurrency):
        raise ArgumentError(f"the concurrency of a handler must be 1 or more, or None, not {concurrency!r}")
    if batch is not None and not (is_count(batch) and batch <= FRAMES_MAX):
        raise ArgumentError(f"batch must be from 1 to {FRAMES_MAX} jobs, or None, not {batch!r}")
    if not 0 <= linger_s < math.inf or (linger_s and batch is None):
        raise ArgumentError(f"linger is the seconds, 0 or more, that a batch waits for more jobs, not {linger_s!r}")
    place = Place.PROCESS if process else Place.LOOP if is_async(function) else Place.THREAD
    if place is Place.PROCESS:
        name = getattr(function, "__qualname__", "<object>")
        if is_async(function):
            raise ArgumentError(f"{name} is async, and a process runs plain functions: leave out process=True")
        if "<" in name:
            raise ArgumentError(f"{name} can't be found by another process: define it at the top of a module")
    slots = 1 if concurrency is None and batch is not None else concurrency  # of two that wait, neither batch is full
    return Handler(function, place, max_attempts, backoff, timeout_s, slots, batch, linger_s, cancellable)


def shares(handlers: Mapping[str, Handler], slots: int) -> list[tuple[str, ...]]:
    """The tubes of each slot: those of one handler for its own slots, of all others for the `slots` that they share."""
    tubes: dict[int, list[str]] = {}
    for tube, handler in handlers.items():
        tubes.setdefault(id(handler) if handler.concurrency else 0, []).append(tube)
    return [tuple(each) for each in tubes.values() for _ in range(handlers[each[0]].concurrency or slots)]


def in_threads(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """The same, of which those for a process run in a thread."""
    return {
        tube: replace(each, place=Place.THREAD) if each.place is Place.PROCESS else each
        for tube, each in handlers.items()
    }


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


# --- What goes in, and comes out --------------------------------------------------------------------------------------


class Outcome(enum.StrEnum):
    """How an attempt ended."""

    DONE = "done"
    """The handler returned, and the job is deleted."""

    RETRIED = "retried"
    """The handler failed; the job is ready again after a delay."""

    BURIED = "buried"
    """The handler failed, and there are no more attempts: the job is dead, or its handler has buried it."""

    RELEASED = "released"
    """The worker stops; the job is ready for another one."""

    LOST = "lost"
    """The server has taken the job back: the connection broke, or the TTR ran out. It will be reserved again, unless
    somebody has cancelled it."""


@dataclass(slots=True)
class Counters:
    """What a worker has done so far; `running` and `connections` are current values."""

    reserved: int = 0
    """Jobs reserved."""
    done: int = 0
    failed: int = 0
    """Handlers that raised, or took too long; each is retried, or dead or buried."""
    retried: int = 0
    buried: int = 0
    """Includes jobs whose body could not be decoded, and jobs whose attempts ended without an outcome."""
    released: int = 0
    lost: int = 0
    running: int = 0
    """Handlers that run now, including those that go on in a thread after their timeout."""
    connections: int = 0
    """Open connections to the server."""

    def count(self, outcome: Outcome) -> None:
        setattr(self, outcome.value, getattr(self, outcome.value) + 1)


class Task(Job[B]):
    """A job as its handler sees it: its id and body, and which attempt this is."""

    __slots__ = (
        *("attempt", "cancelled", "counted", "fire", "mark", "max_attempts"),
        *("meta", "schedule", "scheduled_at", "stats"),
    )

    def __init__(self, id: int, body: B, stats: StatsJob, attempt: int, max_attempts: int | None) -> None:
        super().__init__(id, body)
        self.stats = stats
        """What the server said when the job was reserved: priority, age, TTR and so on."""
        self.attempt = attempt
        """The number of this attempt, from 1 to `max_attempts`."""
        self.max_attempts = max_attempts
        """The number of the last attempt; None: no limit."""
        self.cancelled = False
        """Whether nobody waits for the outcome any more, so that a thread may return.

        The job was cancelled or lost, the handler took too long, or the worker stops and its time of grace is over.
        """
        self.counted = False
        """Whether the server counts the attempts, by a rule of the tube, and says when the next one is."""
        self.meta: dict[str, str] = {}
        """Its headers, as they were put."""
        self.schedule: str | None = None
        """The schedule that has put the job; None: no schedule has."""
        self.scheduled_at: datetime | None = None
        """For which of its times, in UTC."""
        self.fire: int | None = None
        """How many of its times had become jobs with this one; None: somebody has fired it by hand."""
        self.mark: tuple[BaseException | None] | None = None
        """What the handler of a batch has said of this one: an error, or None in it: it is done. None: nothing."""

    @property
    def tube(self) -> str:
        """The tube that the job was in."""
        return self.stats.tube

    def done(self) -> None:
        """Says that this job is done, whatever comes of the others of its batch, and of the call."""
        self.mark = (None,)

    def fail(self, error: BaseException) -> None:
        """Says that this job has failed, as if its handler had raised this: an error, or Retry, Dead or Bury.

        Raises TypeError for what can't be raised.
        """
        if not isinstance(error, BaseException):
            raise TypeError(f"what a job fails with is an exception, not {error!r}")
        self.mark = (error,)

    def __repr__(self) -> str:
        return f"beanpole.Task(id={self.id!r}, body={self.body!r}, tube={self.tube!r}, attempt={self.attempt!r})"


Given = Task[Any] | list[Task[Any]]
"""What a handler is called with: a list, if it has batches."""


def tasks_of(given: Given) -> list[Task[Any]]:
    return given if isinstance(given, list) else [given]
