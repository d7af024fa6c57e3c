"""Ranges: numbers that are fetched ahead and handed out without waiting for the network, millions a second.

The next numbers are fetched while some are left. A process that ends or crashes leaves a gap: the numbers that it has
not handed out. Numbers are made when they are fetched, so they show that time and belong to that cycle. A forked
process begins with an empty range, as the numbers in memory belong to its parent.
"""

import asyncio
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

from beanpole_ids import limits
from beanpole_ids.errors import ArgumentError, IdsError


class Forkable:
    """Something that a forked process must not share with its parent."""

    def __init__(self) -> None:
        _FORKABLES.add(self)

    def after_fork(self) -> None:
        """Forget, in the child, what is the parent's."""
        raise AssertionError("a subclass says what that is")


_FORKABLES: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_FORKABLES):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)


F = TypeVar("F")


class Prefetched(Forkable, Generic[F]):
    """What both kinds of range have in common: where numbers come from, and those that are here."""

    def __init__(self, fetch: F, size: int) -> None:
        if type(size) is not int or size < 1:
            raise ArgumentError(f"size must be 1 or more, not {size!r}")
        super().__init__()
        self._fetch = fetch
        self._size = size
        self._low = size * limits.RANGE_LOW_PERCENT // 100
        self.after_fork()

    def after_fork(self) -> None:
        """Begin with nothing."""
        self._numbers: deque[str] = deque()

    def __len__(self) -> int:
        return len(self._numbers)


class Range(Prefetched[Callable[[int], list[str]]]):
    """Numbers of a rule and an application, an iterator without end. Threads may share it."""

    def after_fork(self) -> None:
        """Begin with nothing."""
        super().after_fork()
        self._fetching = threading.Lock()
        """Held while numbers are fetched: one fetch at a time keeps them in order."""

    def next_id(self) -> str:
        """Return the next number; wait only if none is left.

        Raises IdServiceError, NoNodeError: none is left, and none can be fetched.
        """
        numbers = self._numbers
        try:
            number = numbers.popleft()
        except IndexError:
            return self._wait_for_more()
        if self._low and len(numbers) <= self._low and self._fetching.acquire(blocking=False):
            threading.Thread(target=self._fetch_ahead, name="ids-range", daemon=True).start()
        return number

    def _wait_for_more(self) -> str:
        with self._fetching:
            try:
                return self._numbers.popleft()  # another thread has fetched some
            except IndexError:
                first, *rest = self._fetch(self._size)
                self._numbers.extend(rest)
                return first

    def _fetch_ahead(self) -> None:
        """Fetch more. An error is ignored here: a caller that finds no number left tries again and raises it."""
        try:
            with contextlib.suppress(IdsError, RuntimeError):
                self._numbers.extend(self._fetch(self._size))
        finally:
            self._fetching.release()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return self.next_id()


class AsyncRange(Prefetched[Callable[[int], Coroutine[Any, Any, list[str]]]]):
    """The same for asyncio. Tasks may share it."""

    def after_fork(self) -> None:
        """Begin with nothing."""
        super().after_fork()
        self._task: asyncio.Task[None] | None = None

    async def next_id(self) -> str:
        """Return the next number; wait only if none is left.

        Raises IdServiceError, NoNodeError: none is left, and none can be fetched.
        """
        while not self._numbers:
            # A caller that is cancelled must not cancel the fetch that others wait for.
            await asyncio.shield(self._more())
        number = self._numbers.popleft()
        if len(self._numbers) <= self._low and self._low:
            self._more()
        return number

    def _more(self) -> "asyncio.Task[None]":
        """Return the fetch that is under way, or begin one."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            # An error of a fetch ahead is ignored: a caller that finds no number left begins another one.
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._task

    async def _run(self) -> None:
        self._numbers.extend(await self._fetch(self._size))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        return await self.next_id()
