"""How long to wait between attempts to connect."""

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from beanpole.client import limits

CONNECT_ATTEMPTS = 5
"""Attempts to connect until a call fails, by default: with the pauses between, a restart's time."""

BACKOFF_FIRST_MS = 50
"""Milliseconds of the pause after the first failed attempt; each later pause is twice as long."""

BACKOFF_MAX_MS = 5_000
"""Milliseconds of the longest pause between two attempts."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Attempts with pauses that double, each cut by up to half at random, so that many clients don't come at once."""

    attempts: int = CONNECT_ATTEMPTS
    """Attempts in all; 1: no second one."""

    first_s: float = BACKOFF_FIRST_MS / 1000
    """Seconds of the pause after the first attempt."""

    max_s: float = BACKOFF_MAX_MS / 1000
    """Seconds of the longest pause."""

    chance: Callable[[], float] = random.random
    """A number from 0 to 1, a new one each time."""

    def for_ever(self) -> Iterator[float]:
        """The seconds to wait after each attempt of a client that has lost its connection, without end.

        They stay short, so that the return of the server is soon noticed.
        """
        most_s = min(self.max_s, limits.RECOVERY_PAUSE_MAX_MS / 1000)
        return replace(self, attempts=sys.maxsize, max_s=most_s).pauses()

    def pauses(self) -> Iterator[float]:
        """The seconds to wait after each attempt but the last."""
        pause_s = self.first_s
        for _ in range(self.attempts - 1):
            yield min(pause_s, self.max_s) * (1 - self.chance() / 2)
            pause_s *= 2
