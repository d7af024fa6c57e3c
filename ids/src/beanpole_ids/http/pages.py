"""Answers that take milliseconds to make, such as metrics and lists: one at a time, of sources in turn.

The event loop does other work between two of them, however many clients ask.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from beanpole_ids import limits
from beanpole_ids.fair import Fair
from beanpole_ids.http.response import ProblemError
from beanpole_ids.waiting import network_of


class Pages:
    """The answer that is being made, and the clients that wait for theirs."""

    def __init__(self) -> None:
        self._fair = Fair(limits.HTTP_PAGES_WAITING_MAX, limits.HTTP_PAGES_WAITING_MAX)
        self._is_busy = False

    @asynccontextmanager
    async def turn(self, source: str) -> AsyncIterator[None]:
        """Wait until an answer to a client may be made, and make it within.

        Raises ProblemError: too many of this client's wait.
        """
        if self._is_busy:
            begins = asyncio.get_running_loop().create_future()
            if not self._fair.add(network_of(source).encode(), None, begins, 1):
                raise ProblemError("busy", "too many requests of this client for metrics and lists wait")
            await begins
        self._is_busy = True
        try:
            await asyncio.sleep(0)  # the next one that asks finds it busy, and waits
            yield
        finally:
            following = self._fair.take()
            self._fair.charge(limits.FAIR_SHARE_US * 1_000)
            while following is not None and following.done():  # the process ends
                following = self._fair.take()
            self._is_busy = following is not None
            if following is not None:
                following.set_result(None)
