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

    reserve_s: int | None
    """Seconds of a reserve; None: for ever."""

    slots: int
    """Jobs at a time."""

    stuck_timeout_s: float | None
    """Seconds for which all slots may be occupied by handlers that hang; None: for ever."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: no further job is taken."""

    attempts: "dict[int, Attempt]" = field(default_factory=dict)
    """The latest for each job that a handler runs for, by id: also when the job is lost or given back meanwhile."""

    is_stuck: bool = False
    """Whether the shift stopped as handlers that hang occupied all slots for too long."""

    _is_away: bool = False
    _hanging: int = 0
    """Slots that are occupied by handlers that hang."""
    _stuck_timer: asyncio.TimerHandle | None = None

    async def until_it_ends(self, over: "asyncio.Future[None]") -> None:
        """Waits for the end of a handler that hangs, or until no further job is taken; watches whether all slots do."""
        self._hanging += 1
        if self._hanging == self.slots and not self.stopping.is_set():
            sentence = "all slots are occupied by handlers that hang: this worker takes no jobs"
            self.logger.error(sentence, slots=self.slots, ends_in_s=self.stuck_timeout_s)
            if self.stuck_timeout_s is not None:
                self._stuck_timer = asyncio.get_running_loop().call_later(self.stuck_timeout_s, self._give_up)
        try:
            await self.until_stopped_or(over)
        finally:
            self._hanging -= 1
            if self._stuck_timer is not None:
                self._stuck_timer.cancel()

    def _give_up(self) -> None:
        self.is_stuck = True
        self.stopping.set()

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
