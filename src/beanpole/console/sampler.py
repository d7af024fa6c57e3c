"""Takes samples of one server: when somebody asks and the last is a second old, else every ten seconds.

All that is shown of a server comes from its sampler. One that is away is tried again each time.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from beanpole.client import Address, AsyncClient, Backoff, Login, Stats
from beanpole.console import limits
from beanpole.console.history import History
from beanpole.console.settings import Clock, Settings, Source
from beanpole.console.single_flight import MS, AwayError, SharedAnswer
from beanpole.errors import ConnectionLostError
from beanpole.observe.growth import Change
from beanpole.observe.sampling import Sample, has_jobs, take_sample

SILENCE_S = 10
"""Seconds after which a connection counts as broken: a server that hangs for less goes on on the same one."""

CONNECT_S = 2  # seconds that a connection may take


def client_of(way: Address | socket.socket, login: Login | None = None) -> "AsyncClient[bytes]":
    """Returns a client that has sent nothing yet, for an address or a socket that leads to a server.

    A socket that was handed over can't be opened again, so it has no time-out: a late answer is waited for.
    """
    if isinstance(way, socket.socket):
        return AsyncClient(way, None, timeout=None, backoff=Backoff(attempts=1))
    return AsyncClient(
        way,
        None,
        timeout=SILENCE_S,
        connect_timeout=CONNECT_S,
        backoff=Backoff(attempts=1),
        patience=0,
        login=login,
    )


IDLE_MS = 10_000  # milliseconds between samples when nobody asks


@dataclass(frozen=True, slots=True)
class Away:
    """Since when a server is away."""

    since: float | None = None  # seconds since 1970 when that was found; None: it is there
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
        self.stats = SharedAnswer(self._ask_stats, clock.now_ns)
        """What the server says of itself: as quick as a server can answer."""
        self.sample = SharedAnswer(self._ask_all, clock.now_ns)
        self.lost = asyncio.Event()  # set when the connection has broken
        self.history = History(clock.unix_s, settings.has_metrics)
        self.change = Change()  # what happened between the last two samples
        self.away = Away()  # since when nothing is heard, and why
        self.on_sample: Callable[[Sample], Awaitable[None]] | None = None
        """Called with each sample, before anybody sees it."""
        self._watching: set[asyncio.Event] = set()
        self._watched = asyncio.Event()
        self._client = client
        self._has_metrics = settings.has_metrics
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
        return (limits.FRESH_MS if self._watching else IDLE_MS) * MS

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
        tubes = iter(taken.tubes.values())
        while some := list(islice(tubes, limits.TUBES_PER_SLICE)):
            change.add(some)
            await asyncio.sleep(0)
        if self.on_sample is not None:
            await self.on_sample(taken)
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
            return Sample(self._now_ns(), stats, {})
        try:
            return await take_sample(self._client, self._now_ns, stats, self._last_timed, self.sample.heard)
        except (ConnectionLostError, OSError):
            self.lost.set()
            raise

    def _last_timed(self, tubes: Iterable[str]) -> str:
        """The last tube that has histograms of its own."""
        return max(islice(filter(self._has_metrics, tubes), limits.HISTOGRAM_TUBES_MAX), default="")

    def _report(self, reason: str) -> None:
        """Logs that a server is away, and that it is back: once each. Our own server logs itself that it ends."""
        if bool(reason) != self._is_away and self.source.address is not None:
            self._is_away = bool(reason)
            if reason:
                self._logger.log("warning", "server away", server=self.source.name, reason=reason)
            else:
                self._logger.log("info", "server back", server=self.source.name)


def make_sampler(source: Source, settings: Settings, logger: Logger, clock: Clock) -> Sampler:
    """Returns the sampler of a server, which has sent nothing yet."""
    if source.address is None:
        assert settings.pairs is not None, "a server without an address has handed over pairs"
        client = client_of(settings.pairs.sampling)
    else:
        client = client_of(source.address, source.login)
    return Sampler(source, client, settings, logger, clock)
