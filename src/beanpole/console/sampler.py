"""Takes samples of one server: when somebody asks and the last is a second old, else every ten seconds.

All that is shown of a server comes from its sampler. A server that has `stats-tubes` is asked with that, any other tube
by tube. One that is away is tried again each time.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from beanpole.client import AsyncClient, Backoff, Stats, StatsTube
from beanpole.client.errors import ConnectionLostError, NotFoundError
from beanpole.console import limits
from beanpole.console.errors import AwayError
from beanpole.console.families import role_of
from beanpole.console.latest import MS, Latest
from beanpole.console.sample import Sample
from beanpole.console.settings import Settings, Source
from beanpole.console.times import Times, TimesDivision
from beanpole.console.tubes import Division
from beanpole.monitor.sampling import pages_for


class Logger(Protocol):
    """What is needed of a log."""

    def log(self, level: str, event: str, exc_info: object = None, **about: object) -> None:
        """Writes a line."""


class Sampler:
    """Takes samples of one server."""

    def __init__(
        self,
        source: Source,
        client: "AsyncClient[bytes]",
        settings: Settings,
        logger: Logger,
        now_ns: Callable[[], int],
    ) -> None:
        self.source = source
        self.stats = Latest(self._ask_stats, now_ns)
        """What the server says of itself: as quick as a server can answer."""
        self.sample = Latest(self._ask_all, now_ns)
        self.lost = asyncio.Event()
        """Set when the connection has broken."""
        self._client = client
        self._division = Division(settings.tube_patterns)
        self._times = TimesDivision()
        self._logger = logger
        self._now_ns = now_ns
        self._is_away = False

    async def run(self) -> None:
        """Takes a sample every ten seconds, until it is cancelled."""
        while True:
            due_ns = self.sample.at_ns + limits.IDLE_MS * MS
            with contextlib.suppress(AwayError):
                if self.sample.value is None or self._now_ns() >= due_ns:
                    await self.sample.get()
                    due_ns = self._now_ns() + limits.IDLE_MS * MS
            await asyncio.sleep(max(due_ns - self._now_ns(), limits.FRESH_MS * MS) / 1e9)

    async def stop(self) -> None:
        """Ends what is under way, and the connection."""
        await self.sample.stop()
        await self.stats.stop()
        await self._client.close()

    # --- Questions ---

    async def _ask_stats(self) -> Stats:
        try:
            stats = await self._client.stats()
        except (ConnectionLostError, OSError) as error:
            self._report(str(error))
            self.lost.set()
            raise
        self._report("")
        return stats

    async def _ask_all(self) -> Sample:
        try:
            stats = await self.stats.get()
        except AwayError as error:
            self._report(str(error))  # silent, but connected
            raise
        if role_of(stats) not in {"", "leader"}:
            return Sample(self._now_ns(), stats, [])
        try:
            features = await self._client.features()
            if "stats-tubes" in features:
                tubes, complete = await self._ask_pages(stats.current_tubes)
            else:
                tubes, complete = await self._ask_each(), True
            named, rest = await self._division.divide(stats.id, tubes, complete=complete)
            times = await self._ask_times(stats.id, tubes, named) if "stats-histograms" in features else None
        except (ConnectionLostError, OSError):
            self.lost.set()
            raise
        return Sample(self._now_ns(), stats, tubes, named, rest, times)

    async def _ask_pages(self, tube_count: int) -> tuple[list[StatsTube], bool]:
        """Asks for a page after the other; returns also whether the last was reached, behind which there is nothing."""
        tubes: list[StatsTube] = []
        for _ in range(pages_for(tube_count, limits.TUBES_PER_PAGE)):
            after = tubes[-1].name if tubes else None
            page = await self._client.stats_tubes(after, limits.TUBES_PER_PAGE)
            self.sample.heard()
            if not page:
                return tubes, True
            tubes += page
        return tubes, False

    async def _ask_each(self) -> list[StatsTube]:
        """Asks for one tube after the other, many in a pipeline. One that has gone since is left out."""
        names = sorted(await self._client.tubes())
        tubes: list[StatsTube] = []
        for start in range(0, len(names), limits.TUBES_PER_PAGE):
            async with self._client.pipeline(raise_errors=False) as asked:
                results = [asked.stats_tube(name) for name in names[start : start + limits.TUBES_PER_PAGE]]
            self.sample.heard()
            tubes += [each.result() for each in results if not isinstance(each.error, NotFoundError)]
        return tubes

    async def _ask_times(self, server_id: str, tubes: list[StatsTube], named: list[StatsTube]) -> Times:
        """Asks for histograms, up to those of the last tube that has some of its own."""
        names = [tube.name for tube in named[: limits.HISTOGRAM_TUBES_MAX]]
        found = await self._client.stats_histograms(None, limits.HISTOGRAM_TUBES_MAX)
        of_tubes = dict(found.tubes)
        for _ in range(pages_for(len(tubes), limits.TUBES_PER_PAGE)):
            if not found.tubes or not names or (after := list(found.tubes)[-1]).encode() >= names[-1].encode():
                break
            self.sample.heard()
            found = await self._client.stats_histograms(after, limits.TUBES_PER_PAGE)
            of_tubes |= found.tubes
        if server_id != self._times.server_id:
            self._times = TimesDivision(server_id)
        there = frozenset(tube.name for tube in tubes) | of_tubes.keys()  # some came since their page was read
        return self._times.divide(there, names, replace(found, tubes=of_tubes))

    def _report(self, reason: str) -> None:
        """Logs that a server is away, and that it is back: once each. Our own server logs itself that it ends."""
        if bool(reason) != self._is_away and self.source.address is not None:
            self._is_away = bool(reason)
            if reason:
                self._logger.log("warning", "server away", server=self.source.name, reason=reason)
            else:
                self._logger.log("info", "server back", server=self.source.name)


def make_sampler(source: Source, settings: Settings, logger: Logger, now_ns: Callable[[], int]) -> Sampler:
    """Returns the sampler of a server, which has sent nothing yet.

    A pair of sockets that was handed over can't be opened again, so it has no time-out: a late answer is waited for.
    """
    if source.address is None:
        assert settings.pairs is not None, "a server without an address has handed over pairs"
        client = AsyncClient(settings.pairs.sampling, None, timeout=None, backoff=Backoff(attempts=1))
    else:
        client = AsyncClient(
            source.address,
            None,
            timeout=limits.SILENCE_S,
            connect_timeout=limits.CONNECT_S,
            backoff=Backoff(attempts=1),
        )
    return Sampler(source, client, settings, logger, now_ns)
