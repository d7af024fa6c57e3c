"""One thing that a server says, taken when it is asked for and the last is too old, and once at a time.

Many may ask at once: they share what one asking brings, so that scrapers cost a server no more than one does. Nobody
waits for a server that is silent, but what it was asked goes on: the connection stays as it is, and a server that comes
back is heard.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from beanpole.console import limits
from beanpole.errors import BeanpoleError


class AwayError(BeanpoleError):
    """A server does not answer; the text says why."""


ANSWER_MS = 1_000  # milliseconds that a server may be silent before it counts as away

SCRAPE_MS = 5_000
"""Milliseconds that a scrape waits for a sample, however busily the server answers: half of what Prometheus waits."""

LOOK_MS = 150
"""Milliseconds for which a page looks for jobs that failed, for held ones or for sessions: half of what it may take."""

T = TypeVar("T")

MS = 1_000_000

OnAnswer = Callable[[], None]
"""Called each time the server has answered a part of a question."""


def look_ends_at() -> float:
    """The moment of the loop's clock at which a look that begins now ends."""
    return asyncio.get_running_loop().time() + LOOK_MS / 1000


class SharedAnswer(Generic[T]):
    """The last answer of a server to one question."""

    def __init__(self, ask: Callable[[], Awaitable[T]], now_ns: Callable[[], int]) -> None:
        self._ask = ask
        self._now_ns = now_ns
        self._task: asyncio.Task[T] | None = None
        self._heard_at_ns = 0
        self.value: T | None = None  # the last that came; None: nothing ever did
        self.at_ns = 0  # when it was complete
        self._changes = 0  # how often something was changed
        self._task_of = self._value_of = 0  # how often it had, when the task began, and when `value` was asked for

    def heard(self) -> None:
        """The server has answered a part of the question: it is there, and there is more to come."""
        self._heard_at_ns = self._now_ns()

    def outdate(self) -> None:
        """Something was changed: from now on, `get` returns only an answer that was asked for after this call."""
        self._changes += 1

    async def get(self) -> T:
        """Returns an answer that is no older than a second, and than the last change that is known of.

        Raises AwayError: the server can't be reached, or is silent.
        """
        now_ns, changes = self._now_ns(), self._changes
        if self.value is not None and now_ns - self.at_ns < limits.FRESH_MS * MS and self._value_of == changes:
            return self.value
        give_up_at_ns = now_ns + SCRAPE_MS * MS
        if self._task is not None and self._task_of < changes:
            await self._wait(self._task, give_up_at_ns)
        task = self._task if self._task is not None and self._task_of >= changes else self._begin()
        await self._wait(task, give_up_at_ns)
        try:
            return task.result()
        except AwayError:
            raise
        except (BeanpoleError, OSError) as error:
            raise AwayError(str(error) or type(error).__name__) from error
        except asyncio.CancelledError:
            raise AwayError("the console stops") from None

    async def _wait(self, task: asyncio.Task[T], give_up_at_ns: int) -> None:
        """Waits until a task is done. Raises AwayError: the server is silent."""
        while not task.done():
            left_ns = min(self._heard_at_ns + ANSWER_MS * MS, give_up_at_ns) - self._now_ns()
            if left_ns <= 0:
                raise AwayError(f"no answer within {ANSWER_MS / 1000:g} s")
            await asyncio.wait({task}, timeout=left_ns / 1e9)

    def _begin(self) -> asyncio.Task[T]:
        self.heard()
        self._task_of = self._changes
        self._task = task = asyncio.get_running_loop().create_task(self._take())
        task.add_done_callback(self._ended)
        return task

    async def _take(self) -> T:
        changes = self._task_of
        value = await self._ask()
        self.value, self.at_ns, self._value_of = value, self._now_ns(), changes
        return value

    def _ended(self, task: asyncio.Task[T]) -> None:
        if self._task is task:
            self._task = None
        if not task.cancelled():
            task.exception()  # read, or asyncio logs it when nobody waits for the answer any more

    async def stop(self) -> None:
        if self._task is not None:
            task = self._task
            task.cancel()
            await asyncio.wait({task})
