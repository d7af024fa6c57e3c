"""An event loop whose time is simulated, and which lets the tasks of one node stand still.

Nothing sleeps: when nothing is ready the clock jumps to the next timer. A callback belongs to the node in whose context
it was made; while that node is paused (as by SIGSTOP) its callbacks are put off to the end of the pause, in order.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from typing import Any

NODE: ContextVar[str] = ContextVar("NODE", default="")
"""The name of the node that a callback belongs to; empty: the world's."""


class NoSelector:
    """What the base class asks about files: there are none, but waiting moves the clock."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self.loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Let time pass."""
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.loop.now_s += max(timeout, 0.0)
        return []

    def close(self) -> None:
        """Do nothing."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs tasks in simulated time."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = NoSelector(self)
        self.now_s = 0.0
        self.paused_until_s: dict[str, float] = {}
        self.put_off_count = 0

    def time(self) -> float:
        return self.now_s

    def _process_events(self, _events: list[Any]) -> None:
        """There are no files."""

    def _write_to_self(self) -> None:
        """There are no threads."""

    def call_soon(  # type: ignore[override]  # typeshed binds the arguments to the callback's
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in this round, unless the node is paused then."""
        context = context or copy_context()
        handle = super().call_soon(self.run_or_put_off, callback, args, context, cell := [None], context=context)
        cell[0] = handle  # type: ignore[call-overload]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time, unless the node is paused then."""
        context = context or copy_context()
        handle = super().call_at(when, self.run_or_put_off, callback, args, context, cell := [None], context=context)
        cell[0] = handle  # type: ignore[call-overload]
        return handle

    def run_or_put_off(
        self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context, cell: list[Any]
    ) -> None:
        """Run a callback, or put it off to the end of its node's pause."""
        if cell[0].cancelled():
            return
        until_s = self.paused_until_s.get(context.get(NODE, ""), 0.0)
        if until_s <= self.now_s:
            callback(*args)
            return
        self.put_off_count += 1
        later_s = until_s + self.put_off_count * 1e-9
        super().call_at(later_s, self.run_or_put_off, callback, args, context, cell, context=context)

    def pause(self, node: str, seconds: float) -> None:
        self.paused_until_s[node] = self.now_s + seconds
