"""A worker's client: one connection, and never a second one.

An ordinary client reconnects when its connection breaks. A worker must not send ``delete`` over a new connection: the
job that it has finished went back to the queue when the old one broke, and a server that has lost its data may have
given the same id to another job.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from beanpole.client import AsyncClient, Job, JobInfo, StatsJob
from beanpole.errors import BatchError, BeanpoleError, BodyError, ConnectionLostError

if TYPE_CHECKING:
    from beanpole.client.aio_link import Link
    from beanpole.protocol.wire import Call


class WorkerClient(AsyncClient[Any]):
    """One connection; once it is over, every command raises ConnectionLostError."""

    _was_made = False

    async def reserve_described(self, count: int, timeout_s: int | None) -> list[Job[Any] | BodyError]:
        """Waits up to so many seconds for a job, and reserves it and up to `count` that are ready then.

        They have their `info`, if the server has ``reserve-many``. Raises what :meth:`reserve` does, but for a body
        that can't be decoded: that is one of the results.
        """
        try:
            return [*await self.reserve_many(count, timeout_s)]
        except BatchError as error:
            found = [each for each in error.results if isinstance(each, Job | BodyError)]
            if found:
                return found
            raise

    async def touch_each(self, ids: Sequence[int]) -> Sequence[object]:
        """Touches jobs; returns for each an error, or None."""
        return await _each(ids, self.touch, self.touch_many)

    async def delete_each(self, ids: Sequence[int]) -> Sequence[object]:
        """Deletes jobs; returns for each an error, or None."""
        return await _each(ids, self.delete, self.delete_many)

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


async def _each(
    ids: Sequence[int],
    one: Callable[[int], Awaitable[object]],
    many: Callable[[Sequence[int]], Awaitable[object]],
) -> Sequence[object]:
    try:
        await (one(ids[0]) if len(ids) == 1 else many(ids))
    except BatchError as error:
        return error.results
    except BeanpoleError as error:
        return [error] * len(ids)
    return [None] * len(ids)


def stats_of(info: JobInfo) -> StatsJob:
    """What ``stats-job`` would say of a job that was just reserved: whole seconds, and of no file."""
    numbers = {name: int(getattr(info, name)) for name in NUMBERS}
    given: dict[str, Any] = {"tube": info.tube, "state": info.state, **numbers, "time_left": info.ttr}
    return StatsJob(raw={name.replace("_", "-"): value for name, value in given.items()}, **given)


NUMBERS = ("id", "pri", "age", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks")
"""The numbers that both have."""
