"""Work for HTTP clients, a piece at a time: sources in turn, for as long as their work takes, as datagrams are served.

However many connections have something to do, the event loop comes back to the datagrams after a millisecond.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from beanpole_ids import limits
from beanpole_ids.fair import Fair

T = TypeVar("T")


class Turns(Generic[T]):
    """What waits to be done, some of it in each turn of the event loop."""

    def __init__(self, do: Callable[[T], None], fair: Fair, now_ns: Callable[[], int], least_us: int = 0) -> None:
        """`do`: does a piece of work. `fair`: says whose is next. `least_us`: what a piece takes, with what follows."""
        self._do = do
        self._now_ns = now_ns
        self._fair = fair
        self._least_ns = least_us * 1_000
        self._is_due = False

    def add(self, source: bytes, flow: object, work: T, weight: int = 0) -> bool:
        """Let a piece of work wait for the turn of its source and, within it, of its flow; whether there was room."""
        if not self._fair.add(source, flow, work, weight):
            return False
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._turn)
        return True

    def _turn(self) -> None:
        """Do what is next until the turn is over, one piece at least."""
        fair, do, read_clock = self._fair, self._do, self._now_ns
        left_ns = limits.TURN_US * 1_000
        now_ns = read_clock()
        try:
            while left_ns > 0 and (work := fair.take()) is not None:
                do(work)
                before_ns, now_ns = now_ns, read_clock()
                cost_ns = max(now_ns - before_ns, self._least_ns)
                fair.charge(cost_ns)
                left_ns -= cost_ns
        finally:
            self._is_due = fair.count > 0
            if self._is_due:
                asyncio.get_running_loop().call_soon(self._turn)
