"""Work that one thread hands over to the event loop of another, which does it in turns.

HTTP has a thread and a loop of its own; the service has one thread, in which everything that it knows is read and
changed. So a request goes over to the service's loop, and its response comes back, by one of these in each direction.
The loop works on what has come for a millisecond at a time, and serves datagrams in between.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from beanpole_ids import limits

HTTP_HANDOVER_MAX = 1_000  # requests that wait for the loop of the service: more than there are connections


class Handover:
    """A queue before a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ns: Callable[[], int]) -> None:
        self._loop = loop
        self._now_ns = now_ns
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_awake = False
        """Whether the loop is going to look at what waits."""

    def add(self, work: Callable[[], None]) -> bool:
        """Have the loop do some work; return whether there was room for it. For another thread."""
        if len(self._waiting) >= HTTP_HANDOVER_MAX:
            return False
        # First the work, then the question: the loop asks for work after it has said that it sleeps.
        self._waiting.append(work)
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._run)
        return True

    def _run(self) -> None:
        self._is_awake = False
        end_ns = self._now_ns() + limits.TURN_US * 1_000
        while self._waiting:
            self._waiting.popleft()()
            if self._now_ns() >= end_ns:
                self._is_awake = True
                self._loop.call_soon(self._run)
                return
