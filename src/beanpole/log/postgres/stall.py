"""Waiting between two attempts to reach the server, and the report that it can't be reached."""

import asyncio

from beanpole.log.postgres.clock import Clock
from beanpole.log.postgres.observer import Observer

RETRY_S_MIN = 0.02
"""Seconds until a leader tries again what the server could not do, the first time."""

RETRY_S_MAX = 0.5
"""The same after many times."""


class Stall:
    """How long nothing has been confirmed."""

    def __init__(self, clock: Clock, observer: Observer) -> None:
        self.clock = clock
        self.observer = observer
        self.since_ns = 0
        self.pause_s = RETRY_S_MIN

    def note(self, reason: str) -> None:
        """Note that nothing is confirmed now."""
        if self.since_ns == 0:
            self.since_ns = self.clock.now_ns()
        self.observer.stalled(reason, self.seconds)

    async def wait(self, reason: str) -> None:
        """Wait a little, longer each time."""
        self.note(reason)
        await asyncio.sleep(self.pause_s)
        self.pause_s = min(2 * self.pause_s, RETRY_S_MAX)

    def end(self) -> None:
        """Note that a row is confirmed."""
        if self.since_ns:
            self.observer.stall_ended(self.seconds)
            self.since_ns = 0
            self.pause_s = RETRY_S_MIN

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return (self.clock.now_ns() - self.since_ns) / 1e9 if self.since_ns else 0.0
