"""A worker's client: one connection, and a second one only to go on with a job that the server has kept for it.

An ordinary client reconnects when its connection breaks. A worker must not send ``delete`` over a new connection unless
the server says that the job waited: else it went back to the queue when the old one broke, and a server that has lost
its data may have given the same id to another job.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from beanpole.client import AsyncClient, Job, JobInfo, StatsJob, batch
from beanpole.client.session import HOLDING
from beanpole.client.stats import lines_of
from beanpole.errors import BatchError, BeanpoleError, BodyError, ConnectionLostError, JobLostError
from beanpole.protocol.replies import Word
from beanpole.protocol.rights import Grants
from beanpole.protocol.wire import Call

if TYPE_CHECKING:
    from beanpole.client.aio_link import Link
    from beanpole.client.plan import Plan

T = TypeVar("T")

OF_HELD = HOLDING | {b"delete"}
"""What a worker says of a job that it holds, and of no other."""


class WorkerClient(AsyncClient[Any]):
    """One connection; once it is over, every command raises ConnectionLostError, unless jobs are kept for the next.

    It can be closed and used again, and takes back then what was on its way to it when a connection broke.
    """

    _was_made = False

    def __init__(self, *args: Any, keep: int = 0, keep_always: bool = False, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self._outage.is_logged = False  # the worker does that, once for all slots
        self._session.keep.seconds, self._session.keep.always = keep, keep_always

    async def close(self) -> None:
        """Closes the connection; the server gives a job that is held to others."""
        self._was_made = False
        await super().close()

    @property
    def may_return(self) -> bool:
        """Whether a job is held for which the server waits if the connection breaks."""
        return self._session.may_return

    async def ended(self) -> BeanpoleError:
        """Waits for the end of the connection; returns what has ended it."""
        link = self._link
        if link is not None:
            await link.wait_closed()
        return (link.error if link is not None else None) or ConnectionLostError("the connection is over")

    async def has_kept(self, *ids: int) -> bool:
        """Whether any of some jobs is still held, over another connection, if that had to be made."""
        try:
            if self.may_return:
                await self.connect()
        except BeanpoleError:
            return False
        return not self._session.held.isdisjoint(ids)

    async def surely(self, id: int, command: Callable[[], Awaitable[T]]) -> T:
        """Runs what is about a job that is held, again if the connection breaks and the job has waited.

        Raises what it does.
        """
        while True:
            try:
                return await command()
            except ConnectionLostError:
                if not await self.has_kept(id):
                    raise

    def holds(self, id: int) -> bool:
        return id in self._session.held

    def let_go(self, ids: Iterable[int]) -> None:
        """Nobody works on some jobs any more: should the server have kept them, they are given back."""
        self._session.forget(ids)

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
        return await _each(ids, self.delete, lambda all_: self._run_batch(self._deletion(all_)))

    def _deletion(self, ids: Sequence[int]) -> "Plan[None]":
        """Raises JobLostError if one of them is lost by the time when they can be sent."""
        if any(self._session.is_lost(id) for id in ids):
            raise JobLostError("the connection that had reserved a job was lost")
        yield from batch.delete_many(self._session, ids)

    async def hidden(self, tubes: Iterable[str]) -> list[str]:
        """Those of some tubes from which the user may not reserve; on a server without users there are none."""
        if "list-rights" not in await self.features():
            return []
        lines = await self._run(Call(b"list-rights\r\n", Word.OK, lambda reply: lines_of(reply.body)))
        if "admin: true" in lines:
            return []
        key = "reserve: "
        patterns: list[str] = next((json.loads(line.removeprefix(key)) for line in lines if line.startswith(key)), [])
        grants = Grants({"reserve": tuple(each.encode() for each in patterns)})
        return [each for each in tubes if not grants.of(each.encode())]

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
        if self._was_made and (self._link is None or self._link.is_over) and not self.may_return:
            raise ConnectionLostError("the connection is over", outcome_unknown=False)
        link = await super()._connected(call)
        self._was_made = True
        return link

    async def _ready(self, call: "Call[Any] | None", *, waits: bool) -> "Link":
        link = await super()._ready(call, waits=waits)
        try:
            if call is not None:
                self._session.check_held(call, OF_HELD)
        except JobLostError:
            link.turn.release()
            raise
        return link

    def _lost(self, error: BaseException, *, worked: bool) -> None:
        super()._lost(error, worked=worked and self.may_return)


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
