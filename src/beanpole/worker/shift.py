"""What the slots of a serving worker have in common."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beanpole.worker.handler import Handler, Hooks
from beanpole.worker.line import Line
from beanpole.worker.task import Counters

if TYPE_CHECKING:
    from beanpole.worker.attempt import Attempt


@dataclass(slots=True)
class Shift:
    """The time from the start of a worker to its stop, and what its slots share."""

    handlers: Mapping[str, Handler]
    """By tube."""

    hooks: Hooks
    counters: Counters
    logger: Any
    """Has structlog's methods."""

    log_done: bool
    """Whether a job that is done is worth a line."""

    dial: Callable[[], Line]
    """Makes a connection that is not connected yet."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: no further job is taken."""

    attempts: "dict[int, Attempt]" = field(default_factory=dict)
    """The latest for each job that a handler runs for, by id: also when the job is lost or given back meanwhile."""

    _is_away: bool = False

    async def until_stopped_or(self, future: "asyncio.Future[None]") -> None:
        """Waits for a future, or until no further job is taken."""
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({future, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def connected(self) -> None:
        """A slot has a connection."""
        self.counters.connections += 1
        if self._is_away:
            self._is_away = False
            self.logger.info("connected again")

    def away(self, error: Exception) -> None:
        """A slot has no connection. All of them will find out, and one line is enough."""
        if not self._is_away and not self.stopping.is_set():
            self._is_away = True
            self.logger.warning("no connection, trying again until there is one", error=str(error))
