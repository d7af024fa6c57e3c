"""What comes of an attempt that failed: another one later, or the job is buried. Pure: no I/O, no clock.

An attempt begins when a worker reserves the job, and the server counts them: ``reserves`` of ``stats-job``. So the
count outlives the worker, and an attempt that killed its worker counts as well. A job that is kicked has all its
attempts again. One that was given back by a worker that stopped has one more: nobody knows what would have come of it.
"""

import math
import random
from collections.abc import Callable

from beanpole import limits
from beanpole.client.stats import StatsJob
from beanpole.errors import ArgumentError

Delays = Callable[[int], float]
"""Seconds to wait after the failed attempt of a number, from 1 on."""


class Retry(Exception):  # noqa: N818 - it is no error: a handler raises it to say what it wants
    """Raised by a handler: try this job again, after `delay` seconds (None: as the handler's backoff says).

    `reason` is for the log. The job is released (``release``) and ready after whole seconds, rounded up. It counts as
    an attempt; after the last one the job is buried.

    Raises TypeError for a number as the reason, and ArgumentError for a delay that is no number from 0 on.
    """

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        given: tuple[object, object] = (reason, delay)
        if isinstance(given[0], int | float):
            raise TypeError(f"the delay is given by name, Retry(delay={given[0]!r}): the first argument is a reason")
        if delay is not None and not (isinstance(given[1], int | float) and 0 <= delay < math.inf):
            raise ArgumentError(f"a delay is a number of seconds from 0 on, not {delay!r}")
        super().__init__(reason)
        self.delay = delay

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {"delay": self.delay}


class Bury(Exception):  # noqa: N818 - see Retry
    """Raised by a handler: no attempt will help, put this job aside until somebody kicks it (``bury``).

    `reason` is for the log.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


def exponential(
    first_s: float = limits.WORKER_BACKOFF_FIRST_S,
    max_s: float = limits.WORKER_BACKOFF_MAX_S,
    *,
    factor: float = 2.0,
    jitter: float = 0.5,
    chance: Callable[[], float] = random.random,
) -> Delays:
    """Delays that grow by `factor` from `first_s` up to `max_s` seconds.

    Each is cut by up to the share `jitter` at random, so that jobs that failed together do not come back together;
    `chance` gives a number from 0 to 1. The server counts whole seconds, so what comes out is rounded up.

    Raises ArgumentError for numbers that make no sense.
    """
    if not (0 <= first_s <= max_s and factor >= 1 and 0 <= jitter <= 1):
        raise ArgumentError(
            "exponential() takes 0 <= first_s <= max_s, factor >= 1 and jitter from 0 to 1, "
            f"not {first_s=}, {max_s=}, {factor=}, {jitter=}"
        )

    def delay_s(attempt: int) -> float:
        try:
            grown_s = first_s * factor ** (attempt - 1)
        except OverflowError:
            grown_s = max_s
        return min(grown_s, max_s) * (1 - jitter * chance())

    return delay_s


def attempt_number(stats: StatsJob, max_attempts: int | None) -> int:
    """The number of the attempt that the last reserve began, from 1 on.

    A job that was kicked begins again: it was buried after `max_attempts`, or before if its handler said so, and then
    it has some more.
    """
    return max(1, stats.reserves - stats.kicks * (max_attempts or 0))


def is_used_up(stats: StatsJob, number: int, max_attempts: int | None) -> bool:
    """Whether a job has had all its attempts, and not all of them were brought to an end: it may kill its workers.

    Those that ended were buried or released, a stopping worker's included; the others were lost: the connection broke,
    or the TTR ran out.
    """
    lost = stats.reserves - 1 - stats.releases - stats.buries
    return max_attempts is not None and number > max_attempts and lost > 0


def next_delay_s(error: BaseException, attempt: int, max_attempts: int | None, delays: Delays) -> int | None:
    """Whole seconds until the next attempt at a job; None: there is none, it is buried."""
    if isinstance(error, Bury) or (max_attempts is not None and attempt >= max_attempts):
        return None
    given = error.delay if isinstance(error, Retry) else None
    return min(max(0, math.ceil(delays(attempt) if given is None else given)), limits.PRI_MAX)
