"""An event loop for which time passes when nothing else happens: tests of hours end at once."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from beanpole.console.settings import Clock

T = TypeVar("T")
P = ParamSpec("P")

UNIX_S = 1_000_000_000.0  # what people's clocks show when a test begins


class Instant(selectors.DefaultSelector):
    """Waits by setting the clock."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns what is ready; waits in truth only if there is no end to it."""
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.now_s += timeout
        return ready


class Loop(asyncio.SelectorEventLoop):
    """The loop."""

    def __init__(self) -> None:
        self._instant = Instant()
        super().__init__(self._instant)

    def time(self) -> float:
        return self._instant.now_s


def clock() -> Clock:
    """The clocks that belong to the running loop."""
    loop = asyncio.get_running_loop()
    return Clock(lambda: round(loop.time() * 1e9), lambda: UNIX_S + loop.time())


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(main)


def instant(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test in such a loop."""

    @functools.wraps(test)
    def runs(*given: P.args, **named: P.kwargs) -> None:
        run(test(*given, **named))

    return runs


def in_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test in an ordinary loop."""

    @functools.wraps(test)
    def runs(*given: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*given, **named))

    return runs
