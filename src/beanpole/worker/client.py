"""A worker's client: one connection, and never a second one.

An ordinary client reconnects when its connection breaks. A worker must not send ``delete`` over a new connection: the
job that it has finished went back to the queue when the old one broke, and a server that has lost its data may have
given the same id to another job.
"""

from typing import TYPE_CHECKING, Any

from beanpole.client import AsyncClient, Job, JobInfo, StatsJob
from beanpole.errors import BatchError, BodyError, ConnectionLostError

if TYPE_CHECKING:
    from beanpole.client.aio_link import Link
    from beanpole.protocol.wire import Call


class WorkerClient(AsyncClient[Any]):
    """One connection; once it is over, every command raises ConnectionLostError."""

    _was_made = False

    async def reserve_described(self, timeout_s: int | None) -> Job[Any]:
        """Waits up to so many seconds for a job, and reserves it: with its `info`, if the server has ``reserve-many``.

        Raises what :meth:`reserve` does.
        """
        try:
            return (await self.reserve_many(1, timeout_s))[0]
        except BatchError as error:
            if isinstance(error.__cause__, BodyError):
                raise error.__cause__ from None
            raise

    async def give_back(self, id: int, pri: int) -> None:
        """Gives a job back on which nobody has failed: where the server knows that, it is no attempt.

        Raises NotFoundError if it is lost, BuriedError if an older server had no room.
        """
        if "snooze-job" in await self.features():
            await self.snooze_job(id)
        else:
            await self.release(id, pri, 0)

    async def _connected(self, call: "Call[Any] | None" = None) -> "Link":
        self._session.asks = True  # a new connection begins with the question what the server has
        if self._was_made and (self._link is None or self._link.is_over):
            raise ConnectionLostError("the connection is over", outcome_unknown=False)
        link = await super()._connected(call)
        self._was_made = True
        return link


def stats_of(info: JobInfo) -> StatsJob:
    """What ``stats-job`` would say of a job that was just reserved: whole seconds, and of no file."""
    numbers = {name: int(getattr(info, name)) for name in NUMBERS}
    given: dict[str, Any] = {"tube": info.tube, "state": info.state, **numbers, "time_left": info.ttr}
    return StatsJob(raw={name.replace("_", "-"): value for name, value in given.items()}, **given)


NUMBERS = ("id", "pri", "age", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks")
"""The numbers that both have."""
