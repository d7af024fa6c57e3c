"""What the slots of a running worker share: handlers, counters, the log, and when to stop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beanpole.client import Address
from beanpole.worker.client import WorkerClient
from beanpole.worker.handler import Handler, Hooks
from beanpole.worker.metrics import Metrics
from beanpole.worker.task import Counters

if TYPE_CHECKING:
    from beanpole.worker.attempt import Attempt


@dataclass(slots=True)
class WorkerContext:
    """The state of one run of a worker, from :meth:`Worker.serve` to its stop, shared by all its slots."""

    handlers: Mapping[str, Handler]
    """The handlers by tube."""

    hooks: Hooks
    counters: Counters
    metrics: Metrics
    logger: Any
    """Has structlog's methods."""

    log_done: bool
    """Whether a job that is done is worth a log line."""

    dial: Callable[[], WorkerClient]
    """Makes a client that is not connected yet."""

    reserve_s: int | None
    """Seconds of a reserve; None: for ever."""

    slots: int
    """Jobs at a time."""

    stuck_timeout_s: float | None
    """Seconds for which all slots may be occupied by handlers that hang; None: for ever."""

    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no more jobs may be taken."""

    attempts: "dict[int, Attempt]" = field(default_factory=dict)
    """The latest attempt at each job, by id, until its handler has ended: also after the job was lost or released."""

    is_stuck: bool = False
    """Whether the worker stopped because handlers that hang had occupied all slots for too long."""

    _is_disconnected: bool = False
    _losses: int = 0
    """How often a loss was logged. A connection that was made before the last one is known to be lost with it."""
    _hanging_count: int = 0
    """Slots occupied by handlers that hang."""
    _stuck_timer: asyncio.TimerHandle | None = None

    async def wait_for_hanging(self, over: "asyncio.Future[None]") -> None:
        """Waits until a handler that hangs has ended, or the worker stops; gives up once every slot waits like this."""
        self._hanging_count += 1
        if self._hanging_count == self.slots and not self.stopping.is_set():
            sentence = "all slots are occupied by handlers that hang: this worker takes no jobs"
            self.logger.error(sentence, slots=self.slots, ends_in_s=self.stuck_timeout_s)
            if self.stuck_timeout_s is not None:
                self._stuck_timer = asyncio.get_running_loop().call_later(self.stuck_timeout_s, self._give_up)
        try:
            await self.until_stopped_or(over)
        finally:
            self._hanging_count -= 1
            if self._stuck_timer is not None:
                self._stuck_timer.cancel()

    def _give_up(self) -> None:
        self.is_stuck = True
        self.stopping.set()

    async def until_stopped_or(self, future: "asyncio.Future[None]") -> None:
        """Waits for a future, or until the worker stops."""
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({future, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def on_connected(self, server: Address) -> int:
        """Records that a slot has connected; returns what :meth:`on_disconnected` wants to know of the connection."""
        self.counters.connections += 1
        if self._is_disconnected:
            self._is_disconnected = False
            self.logger.info("connected again", server=str(server))
        return self._losses

    def on_disconnected(self, error: Exception, made: int | None) -> None:
        """Logs that a slot has lost its connection: once, though each slot will notice, and some only much later.

        `made` is what :meth:`on_connected` returned; None: the slot could not connect.
        """
        is_new = made is None or made == self._losses
        if is_new and not self._is_disconnected and not self.stopping.is_set():
            self._is_disconnected = True
            self._losses += 1
            self.logger.warning("no connection, trying again until there is one", error=str(error))
