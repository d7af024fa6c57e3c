"""The clocks of the console: nothing else here reads one, so that tests decide what time it is."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Two clocks."""

    now_ns: Callable[[], int]
    """Nanoseconds that never jump: how long something takes, and when it is due."""

    unix_s: Callable[[], float]
    """Seconds since 1970: what people read, and what is kept beyond a restart."""
