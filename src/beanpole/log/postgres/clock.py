"""The clocks of a machine, which the log of a cluster reads; a simulation puts its own in place."""

import time
from typing import Protocol


class Clock(Protocol):
    """All in nanoseconds."""

    def now_ns(self) -> int:
        """Return the monotonic clock, by which the server lives. It may stand still while the machine sleeps."""

    def boot_ns(self) -> int:
        """Return the monotonic clock that goes on while the machine sleeps."""

    def wall_ns(self) -> int:
        """Return the time of day."""


class MachineClock:
    """The clocks of this machine."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def boot_ns(self) -> int:
        return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def wall_ns(self) -> int:
        return time.time_ns()
