"""Jobs of a tube as they arrive, without taking one from a worker.

The protocol has no notification of a put, but ids rise by one with each. So: learn the last id once, by putting a job
into a tube of our own and deleting it; after that, `total-jobs` of `stats` says how far ids have gone, and
`total-jobs` of `stats-tube` whether any of them can be ours. Each new id is asked for once. A job that was deleted
before its turn is missed, and the tube's count says how many were.

A put that fails takes an id on beanstalkd and adds nothing to `total-jobs`, so what is expected can fall behind what is
there. Therefore some more ids are asked for, and one that exists corrects the count.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beanpole import limits
from beanpole.errors import NotFoundError, ReplyError

if TYPE_CHECKING:
    from beanpole.client import AsyncClient, StatsJob

IDS_PER_POLL = 10_000
"""Ids that are asked for in one go; when more have come, the oldest are left out, as they are most likely gone."""

IDS_AHEAD = 64  # ids beyond the expected last one that are asked for, too

PROBE_DELAY_S = limits.PRI_MAX
"""The delay of the job that reveals the last id: nobody reserves it if we can't delete it."""


class NewIds:
    """Which ids are new. Numbers in, numbers out.

    Invariant: every id below `next_id` was asked for, or belongs to a time in which nothing came into the tube.
    """

    def __init__(self, last_id: int, server_total: int, tube_total: int) -> None:
        self.next_id = last_id + 1
        """The first id that was not asked for."""
        self.owed = 0
        """Jobs that came into the tube and were not seen; negative: seen before they were counted."""
        self._offset = last_id - server_total
        """By how much ids were ahead of `total-jobs` in the beginning; they are at least that now."""
        self._drift = 0
        """By how much more they may be ahead by now: what was found beyond the certain ids."""
        self._tube_total = tube_total
        self._certain = last_id

    def due(self, server_total: int, tube_total: int) -> range:
        """The ids to ask for, after both counts were read in this order."""
        self.owed += tube_total - self._tube_total
        self._tube_total = tube_total
        self._certain = server_total + self._offset
        if self.owed <= 0:
            self.next_id = max(self.next_id, self._certain + 1)
            return range(0)
        last = max(self._certain + self._drift, self.next_id)
        return range(max(self.next_id, last + 1 - IDS_PER_POLL), last + 1 + IDS_AHEAD)

    def inspected(self, alive: Iterable[int], seen_count: int) -> int:
        """Records which ids exist, in any tube, and how many jobs of the tube were seen.

        Returns how many were missed.
        """
        last = max(alive, default=0)
        self._drift = max(self._drift, last - self._certain)
        self.next_id = max(self.next_id, last + 1, self._certain + 1)
        self.owed -= seen_count
        missed = max(self.owed, 0)
        self.owed -= missed
        return missed


@dataclass(frozen=True, slots=True)
class Seen:
    """A job that came."""

    body: bytes
    stats: "StatsJob"


class Follower:
    """Follows one tube over a client that uses it, so that the tube stays in being and its count goes on."""

    def __init__(self, client: "AsyncClient[bytes]", tube: str, own_tube: str) -> None:
        self._client = client
        self._tube = tube
        self._own_tube = own_tube
        """The name of a tube that nobody else uses."""
        self._server_id = ""
        self._new_ids = NewIds(0, 0, 0)

    async def poll(self) -> tuple[list[Seen], int]:
        """The jobs that came since the last time, by id, and how many were missed; nothing at the first time.

        Raises DrainingError and OutOfMemoryError if the server takes no job, ConnectionLostError and
        UnexpectedReplyError. After a restart of the server, following begins again when the restart is noticed.
        """
        async with self._client.pipeline() as counts:
            stats, tube = counts.stats(), counts.stats_tube(self._tube)  # in this order: see NewIds.owed
        if stats.result().id != self._server_id:
            await self._begin()
            return [], 0
        ids = self._new_ids.due(stats.result().total_jobs, tube.result().total_jobs)
        if not ids:
            return [], 0
        async with self._client.pipeline(raise_errors=False) as asking:
            asked = [asking.stats_job(id) for id in ids]
        alive = [result.result() for result in asked if not isinstance(result.error, NotFoundError)]
        ours = [job for job in alive if job.tube == self._tube]
        async with self._client.pipeline(raise_errors=False) as peeking:
            peeked = [(job, peeking.peek(job.id)) for job in ours]
        seen = [Seen(found.result().body, job) for job, found in peeked if not isinstance(found.error, NotFoundError)]
        return seen, self._new_ids.inspected((job.id for job in alive), len(seen))

    async def _begin(self) -> None:
        async with self._client.pipeline(raise_errors=False) as probing:
            probe = probing.put(b"", delay=PROBE_DELAY_S, tube=self._own_tube)
            probing.use(self._tube)
            stats, tube = probing.stats(), probing.stats_tube(self._tube)
        if isinstance(probe.error, ReplyError):
            raise type(probe.error)(f"{probe.error}; so nothing new can come") from probe.error
        last_id = probe.result()
        await self._client.delete(last_id)
        self._new_ids = NewIds(last_id, stats.result().total_jobs, tube.result().total_jobs)
        self._server_id = stats.result().id
