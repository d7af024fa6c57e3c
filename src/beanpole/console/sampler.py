"""Takes samples of one server: when somebody asks and the last is a second old, else every ten seconds.

All that is shown of a server comes from its sampler. A server that has `stats-tubes` is asked with that, any other tube
by tube. One that is away is tried again each time.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from beanpole.client import AsyncClient, Stats, StatsTube
from beanpole.client.errors import ConnectionLostError, NotFoundError
from beanpole.console import limits
from beanpole.console.clients import client_of
from beanpole.console.clock import Clock
from beanpole.console.errors import AwayError
from beanpole.console.latest import MS, Latest
from beanpole.console.live.history import History
from beanpole.console.live.rates import Change
from beanpole.console.metrics.times import Times, TimesDivision
from beanpole.console.metrics.tubes import TUBES_PER_SLICE, Division
from beanpole.console.roles import has_jobs
from beanpole.console.sample import Sample
from beanpole.console.settings import Settings, Source
from beanpole.observe.sampling import pages_for


@dataclass(frozen=True, slots=True)
class Away:
    """Since when a server is away."""

    since: float | None = None
    """Seconds since 1970 when that was found; None: it is there."""
    reason: str = ""


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
        clock: Clock,
    ) -> None:
        self.source = source
        self.stats = Latest(self._ask_stats, clock.now_ns)
        """What the server says of itself: as quick as a server can answer."""
        self.sample = Latest(self._ask_all, clock.now_ns)
        self.lost = asyncio.Event()
        """Set when the connection has broken."""
        self.history = History(clock.unix_s)
        self.change = Change()
        """What happened between the last two samples."""
        self.away = Away()
        """Since when nothing is heard, and why."""
        self._watching: set[asyncio.Event] = set()
        self._watched = asyncio.Event()
        self._client = client
        self._division = Division(settings.tube_patterns)
        self._times = TimesDivision()
        self._logger = logger
        self._now_ns = clock.now_ns
        self._is_away = False
        self._unix_s = clock.unix_s

    async def run(self) -> None:
        """Takes a sample every ten seconds, and each second while somebody looks, until it is cancelled."""
        while True:
            left_ns = self.sample.at_ns + self._pace_ns() - self._now_ns()
            if self.sample.value is None or left_ns <= 0:
                with contextlib.suppress(AwayError):
                    await self.look()
                left_ns = max(self.sample.at_ns + self._pace_ns() - self._now_ns(), limits.FRESH_MS * MS)
            self._watched.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_ns / 1e9):  # wait_for would miss a stop that comes with a watcher
                    await self._watched.wait()

    def _pace_ns(self) -> int:
        return (limits.FRESH_MS if self._watching else limits.IDLE_MS) * MS

    async def look(self) -> Sample:
        """Returns a sample that is no older than a second. Raises AwayError, which `away` keeps."""
        try:
            return await self.sample.get()
        except AwayError as error:
            if self.away.since is None:
                self.away = Away(self._unix_s(), str(error))
                self._ring()
            raise

    @contextlib.contextmanager
    def watch(self, bell: asyncio.Event) -> Iterator[None]:
        """Samples are taken each second for so long, and the event is set at each, and when the server is away."""
        self._watching.add(bell)
        self._watched.set()
        try:
            yield
        finally:
            self._watching.discard(bell)

    def _ring(self) -> None:
        for each in self._watching:
            each.set()

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
        """Takes a sample, and tells those who watch."""
        taken = await self._ask()
        change = Change(self.change, taken)
        for start in range(0, len(taken.tubes), TUBES_PER_SLICE):
            change.add(taken.tubes[start : start + TUBES_PER_SLICE])
            await asyncio.sleep(0)
        self.change, self.away = change, Away()
        self.history.add(taken, self.change)
        asyncio.get_running_loop().call_soon(self._ring)  # when it is there
        return taken

    async def _ask(self) -> Sample:
        try:
            stats = await self.stats.get()
        except AwayError as error:
            self._report(str(error))  # silent, but connected
            raise
        if not has_jobs(stats):
            return Sample(self._now_ns(), stats, [])
        try:
            features = await self._client.features()
            if "stats-tubes" in features:
                tubes, complete = await ask_pages(self._client, stats.current_tubes, self.sample.heard)
            else:
                tubes, complete = await self._ask_each(), True
            named, rest = await self._division.divide(stats.id, tubes, complete=complete)
            times = await self._ask_times(stats.id, tubes, named) if "stats-histograms" in features else None
        except (ConnectionLostError, OSError):
            self.lost.set()
            raise
        return Sample(self._now_ns(), stats, tubes, named, rest, times)

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
        charted = [tube.name for tube in tubes[: limits.HISTOGRAM_TUBES_MAX]]
        return self._times.divide(there, names, replace(found, tubes=of_tubes), charted)

    def _report(self, reason: str) -> None:
        """Logs that a server is away, and that it is back: once each. Our own server logs itself that it ends."""
        if bool(reason) != self._is_away and self.source.address is not None:
            self._is_away = bool(reason)
            if reason:
                self._logger.log("warning", "server away", server=self.source.name, reason=reason)
            else:
                self._logger.log("info", "server back", server=self.source.name)


async def ask_pages(
    client: "AsyncClient[bytes]", tube_count: int, heard: Callable[[], None] = lambda: None
) -> tuple[list[StatsTube], bool]:
    """Asks for the tubes, a page after the other, and calls `heard` after each.

    Returns also whether the last was reached, behind which there is nothing.
    """
    tubes: list[StatsTube] = []
    for _ in range(pages_for(tube_count, limits.TUBES_PER_PAGE)):
        page = await client.stats_tubes(tubes[-1].name if tubes else None, limits.TUBES_PER_PAGE)
        heard()
        if not page:
            return tubes, True
        tubes += page
    return tubes, False


def make_sampler(source: Source, settings: Settings, logger: Logger, clock: Clock) -> Sampler:
    """Returns the sampler of a server, which has sent nothing yet."""
    if source.address is None:
        assert settings.pairs is not None, "a server without an address has handed over pairs"
        client = client_of(settings.pairs.sampling)
    else:
        client = client_of(source.address)
    return Sampler(source, client, settings, logger, clock)
