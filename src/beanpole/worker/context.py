"""What the slots of a running worker share: handlers, counters, the log, and when to stop."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beanpole.client import Address
from beanpole.errors import BeanpoleError
from beanpole.worker import events
from beanpole.worker.client import WorkerClient
from beanpole.worker.handler import Counters, Handler, Hooks
from beanpole.worker.log import Log
from beanpole.worker.metrics import Metrics
from beanpole.worker.schedule import FATAL, Declared, set_all

if TYPE_CHECKING:
    from beanpole.worker.attempt import Attempt


@dataclass(slots=True)
class WorkerContext:
    """The state of one run of a worker, from :meth:`Worker.serve` to its stop, shared by all its slots."""

    handlers: Mapping[str, Handler]  # the handlers by tube
    hooks: Hooks
    counters: Counters
    metrics: Metrics
    log: Log

    log_done: bool  # whether a job that is done is worth a log line
    dial: Callable[[Sequence[str]], WorkerClient]  # makes a client for some tubes that is not connected yet
    reserve_s: int | None  # seconds of a reserve; None: for ever
    slots: int  # calls of handlers at a time
    stuck_timeout_s: float | None  # seconds for which all slots may be occupied by handlers that hang; None: for ever
    schedules: Sequence[Declared] = ()  # what is set on the server
    max_jobs: int | None = None  # how many jobs may begin until the worker stops; None: any number
    begun: int = 0  # how many jobs have begun
    stopping: asyncio.Event = field(default_factory=asyncio.Event)  # set when no more jobs may be taken
    why: str = ""  # why it stops, for the log
    hurry: asyncio.Event = field(default_factory=asyncio.Event)  # set when running handlers have only their grace

    # The latest attempt at each job, by id, until its handler has ended: also after the job was lost or released.
    attempts: "dict[int, Attempt]" = field(default_factory=dict)

    failure: BeanpoleError | None = None  # what has ended the worker: at its start, or a login that is refused
    are_rights_checked: bool = False  # whether it was asked from which tubes the user may reserve
    are_scheduled: bool = False  # whether the schedules were set once
    _scheduled_at: int | None = None  # over which connection they were set last, as a number of losses
    is_stuck: bool = False  # whether the worker stopped because handlers that hang had occupied all slots for too long
    _is_disconnected: bool = False
    _losses: int = 0  # that were logged: a connection that was made before the last one is known to be lost with it
    _hanging_count: int = 0  # slots occupied by handlers that hang
    _stuck_timer: asyncio.TimerHandle | None = None

    async def wait_for_hanging(self, over: "asyncio.Future[None]") -> None:
        """Waits until a handler that hangs has ended, or the worker stops; gives up once every slot waits like this."""
        self._hanging_count += 1
        if self._hanging_count == self.slots and not self.stopping.is_set():
            self.log.write(events.ALL_HANG, slots=self.slots, ends_in_s=self.stuck_timeout_s)
            if self.stuck_timeout_s is not None:
                self._stuck_timer = asyncio.get_running_loop().call_later(self.stuck_timeout_s, self._give_up)
        try:
            await first_of(self.stopping, over)
        finally:
            self._hanging_count -= 1
            if self._stuck_timer is not None:
                self._stuck_timer.cancel()

    def _give_up(self) -> None:
        self.is_stuck = True
        self.stop("stuck")

    def stop(self, why: str) -> None:
        """Takes no more jobs; running handlers have their time of grace."""
        self.why = why
        self.stopping.set()
        self.hurry.set()

    def count_begun(self) -> None:
        """Counts a job that begins. After the last one that may, no more are taken; those that run have their time."""
        self.begun += 1
        if self.begun == self.max_jobs and not self.stopping.is_set():
            self.why = "max_jobs"
            self.stopping.set()

    def on_connected(self, server: Address) -> int:
        """Records that a slot has connected; returns what :meth:`on_disconnected` wants to know of the connection."""
        self.counters.connections += 1
        if self._is_disconnected:
            self._is_disconnected = False
            self.log.write(events.CONNECTED_AGAIN, server=str(server))
        return self._losses

    async def check_rights(self, client: WorkerClient) -> None:
        """Says once from which tubes the user may not reserve; with none to reserve from, the server says it itself.

        Raises ConnectionLostError.
        """
        if not self.are_rights_checked:
            self.are_rights_checked = True
            tubes = await client.hidden(self.handlers)
            if 0 < len(tubes) < len(self.handlers):
                self.log.write(events.NO_RIGHT, tubes=tubes)

    async def set_schedules(self, client: WorkerClient, made: int) -> None:
        """Sets the schedules, once for all slots, when there is a connection, and when there is one again.

        `made` is what :meth:`on_connected` returned. A worker that begins stops for what is wrong with them or with the
        server; later it goes on, for there are jobs to do. Raises ConnectionLostError.
        """
        if not self.schedules or made == self._scheduled_at:
            return
        self._scheduled_at = made
        for each, error in await set_all(client, self.schedules):
            if isinstance(error, FATAL) and not self.are_scheduled:
                self.failure = error
                self.stop("schedule")
                return
            self.log.write(events.NOT_SCHEDULED, schedule=each.name, error=str(error))
        self.are_scheduled = True

    def refuse(self, error: BeanpoleError) -> None:
        """Stops the worker, whom the server does not let reserve: it has to be started again with another login."""
        self.failure = self.failure or error
        self.stop("login")

    def on_disconnected(self, error: Exception, made: int | None) -> None:
        """Logs that a slot has lost its connection: once, though each slot will notice, and some only much later.

        `made` is what :meth:`on_connected` returned; None: the slot could not connect.
        """
        is_new = made is None or made == self._losses
        if is_new and not self._is_disconnected and not self.stopping.is_set():
            self._is_disconnected = True
            self._losses += 1
            self.log.write(events.NO_CONNECTION, error=str(error))


async def first_of(event: asyncio.Event, future: "asyncio.Future[Any]") -> None:
    """Waits for an event or a future."""
    happened: asyncio.Future[Any] = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({happened, future}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        happened.cancel()
