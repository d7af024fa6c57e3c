"""What happens after a failed attempt: the job is retried later, or is dead, or buried. Pure: no I/O, no clock.

An attempt begins when a worker reserves the job, and the server counts reserves (``reserves`` of ``stats-job``). So the
count survives the worker, and an attempt that killed its worker counts too. Kicking a job gives it all its attempts
again. A job released by a worker that stops gets one more attempt: nobody knows how that one would have ended.
"""

import math
import random
from collections.abc import Callable

from beanpole import limits
from beanpole.client.stats import StatsJob
from beanpole.errors import ArgumentError

BACKOFF_FIRST_S = 1
"""Seconds between the first two attempts at a job at the most; then twice as long each time."""

BACKOFF_MAX_S = 3_600
"""Seconds between two attempts at a job at the most, unless its handler says otherwise."""

Delays = Callable[[int], float]
"""From the number of the failed attempt (1, 2, ...) to the seconds to wait before the next."""


class Retry(Exception):  # noqa: N818 - it is no error: a handler raises it to say what it wants
    """Raised by a handler: retry this job after `delay` seconds (None: after what the handler's backoff says).

    `reason` is for the log. The job is released (``release``) and ready after whole seconds, rounded up. It counts as
    an attempt; after the last one the job is dead.

    Raises TypeError for a number as the reason, and ArgumentError for a delay that is negative or not a number.
    """

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        given: tuple[object, object] = (reason, delay)
        if isinstance(given[0], int | float):
            raise TypeError(f"the delay is given by name, Retry(delay={given[0]!r}): the first argument is a reason")
        if delay is not None and not (isinstance(given[1], int | float) and 0 <= delay < math.inf):
            raise ArgumentError(f"a delay must be a number of seconds, 0 or more, not {delay!r}")
        super().__init__(reason)
        self.delay = delay

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {"delay": self.delay}


class Bury(Exception):  # noqa: N818 - see Retry
    """Raised by a handler: put this job aside; it is buried until somebody kicks it.

    `reason` stays with the job where the server keeps one, and buries its dead (``fail-job dead=now``); elsewhere, as
    where a rule of the tube sends the dead away, it is for the log (``bury``).
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Dead(Exception):  # noqa: N818 - see Retry
    """Raised by a handler: no attempt can succeed; this job is dead, whatever attempts are left.

    `reason` stays with the job (``fail-job dead=now``), and so does the traceback of the error behind it (``raise
    Dead("...") from error``). The job is buried, or goes where a rule of its tube sends the dead. A server that has no
    ``fail-job`` buries it, and keeps no reason.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


ON_PURPOSE = (Retry, Bury, Dead)
"""What a handler raises to say what it wants: that is no mistake of its program."""


def exponential(
    first_s: float = BACKOFF_FIRST_S,
    max_s: float = BACKOFF_MAX_S,
    *,
    factor: float = 2.0,
    jitter: float = 0.5,
    chance: Callable[[], float] = random.random,
) -> Delays:
    """Delays that grow by `factor` from `first_s` up to `max_s` seconds.

    Each is cut by up to the share `jitter` at random, so that jobs that failed together do not come back together;
    `chance` gives a number from 0 to 1. The server counts whole seconds, so delays are rounded up.

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
    """The number of the attempt that the last reserve began; the first is 1.

    A kicked job starts again from 1: `max_attempts` are subtracted for each kick. If a handler buried it earlier, the
    attempts that it had left come on top.
    """
    return max(1, stats.reserves - stats.kicks * (max_attempts or 0))


def is_used_up(stats: StatsJob, number: int, max_attempts: int | None) -> bool:
    """Whether a job has used all its attempts and some ended without an outcome: it may be killing its workers.

    An attempt with an outcome was released (also by a worker that stops) or buried. The others were lost: the
    connection broke, or the TTR ran out.
    """
    lost = stats.reserves - 1 - stats.releases - stats.buries
    return max_attempts is not None and number > max_attempts and lost > 0


def next_delay_s(error: BaseException, attempt: int, max_attempts: int | None, delays: Delays) -> int | None:
    """Whole seconds until the next attempt at a job; None: there is none."""
    if isinstance(error, Bury | Dead) or (max_attempts is not None and attempt >= max_attempts):
        return None
    given = error.delay if isinstance(error, Retry) else None
    return min(max(0, math.ceil(delays(attempt) if given is None else given)), limits.PRI_MAX)
