"""What all pages are made of: the servers that this console looks at, how each is reached, and how it is.

A server's sampler has a connection of its own. What is asked besides goes over three more, by its purpose: a page does
not wait for a search. A server that follows passes questions about jobs to its leader: the console asks that itself, as
any client would.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from beanpole.address import SCHEME, TLS_SCHEME
from beanpole.client import Address, AsyncClient, Stats, StatsTube
from beanpole.console.history import History
from beanpole.console.metrics.metered import Meter
from beanpole.console.sampler import Logger, Sampler, client_of
from beanpole.console.settings import Clock, Settings, Source
from beanpole.console.single_flight import AwayError, OnAnswer, SharedAnswer
from beanpole.observe.growth import Change, Rates
from beanpole.observe.sampling import Sample, has_jobs

T = TypeVar("T")


class Purpose(Enum):
    """What a connection is for; the values are the places of a server's pairs."""

    PAGES = 0
    ACTIONS = 1
    SEARCH = 2


def kept_in(there: dict[type, Any], kind: type[T]) -> T:
    """The one object of a class, which is made at its first use."""
    if kind not in there:
        there[kind] = kind()
    found: T = there[kind]
    return found


class Server:
    """A server that the console looks at."""

    def __init__(self, source: Source, settings: Settings, sampler: Sampler) -> None:
        self.source = source
        self.sampler = sampler
        self.meter = Meter(settings.has_metrics)
        sampler.on_sample = self.meter.add
        self.hide_bodies = settings.hide_bodies  # whether nobody sees bodies here
        self._pairs = settings.pairs if source.address is None else None
        self._has_users = settings.users is not None
        self._clients: dict[tuple[Purpose, str], AsyncClient[bytes]] = {}
        self._answers: dict[Any, SharedAnswer[Any]] = {}
        self._kept: dict[type, Any] = {}

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def history(self) -> History:
        return self.sampler.history

    @property
    def own_connections(self) -> int:
        """How many of a server's connections are ours: those of pairs do not count as any."""
        if self._pairs is not None:
            return 0
        ours, stats = 1 + len(self._clients), self.sampler.stats.value
        return ours * int(stats.get("shards", 1)) if stats is not None else ours

    async def client(self, purpose: Purpose = Purpose.PAGES) -> "AsyncClient[bytes]":
        """A client of whoever has the jobs: of the server, or of the leader that it follows.

        Its calls may come at the same time and are answered in their order. Raises AwayError: the server is away, or
        knows no leader.
        """
        stats = await self.sampler.stats.get()
        leader = ""
        if not has_jobs(stats):
            leader = str(stats.get("cluster-leader", ""))
            if not leader:
                raise AwayError("the server follows, and knows no leader")
            if self._pairs is not None and self._has_users:  # of whom the leader knows none of this console
                raise AwayError(f"this node follows {leader}: the console of the node that leads shows the jobs")
        key = (purpose, leader)
        if key not in self._clients:
            self._clients[key] = self._made(purpose, leader)
        return self._clients[key]

    def _made(self, purpose: Purpose, leader: str) -> "AsyncClient[bytes]":
        if leader:
            address, scheme = self.source.address, SCHEME
            if address is not None:
                scheme = address.scheme
            url = leader if leader.startswith(TLS_SCHEME) else scheme + leader
            return client_of(Address.from_url(url), self.source.login)
        if self._pairs is not None:
            return client_of(self._pairs.others[purpose.value])
        assert self.source.address is not None, "a server without an address has handed over pairs"
        return client_of(self.source.address, self.source.login)

    async def shared(self, look: "Callable[[Server, OnAnswer], Awaitable[T]]") -> T:
        """What a look at the server finds, as it was a second ago at most. Raises AwayError, and what the look does."""
        if look not in self._answers:
            loop = asyncio.get_running_loop()
            answer = SharedAnswer(lambda: look(self, answer.heard), lambda: int(loop.time() * 1e9))
            self._answers[look] = answer
        found: T = await self._answers[look].get()
        return found

    def kept(self, kind: type[T]) -> T:
        """What a part of the console keeps of the server: one object of a class, which is made at its first use."""
        return kept_in(self._kept, kind)

    async def stop(self) -> None:
        await self.sampler.stop()
        for each in self._clients.values():
            await each.close()


def wholes(servers: Sequence[Server]) -> list[Server]:
    """Those of some servers that have all there is: of a map not its shards, unless nothing else is meant."""
    return [each for each in servers if not each.source.is_shard] or list(servers)


def are_asked(found: Sequence[Stats | None]) -> list[bool]:
    """Which of some servers, by what they say of themselves, are to be asked for jobs: of a cluster only one.

    A node that follows answers with the statistics of its leader, as to any client; only the console that it has
    started itself hears its own. So a leader is known by its ID, whoever has passed it on. Who is away is asked, and so
    missed.
    """
    answers, known = [], set[str]()
    for stats in found:
        key = "" if stats is None else stats.id
        if stats is not None and not has_jobs(stats):
            key = str(stats.get("cluster-leader", ""))
        answers.append(not key or key not in known)
        known.add(key)
    return answers


async def holders(servers: Sequence[Server]) -> list[Server]:
    """Those of some servers that are to be asked for jobs: of a cluster only one, of a map the whole."""
    servers = wholes(servers)

    async def of(server: Server) -> Stats | None:
        try:
            return await server.sampler.stats.get()
        except AwayError:
            return None

    asked = are_asked(await asyncio.gather(*map(of, servers)))
    return [server for server, is_asked in zip(servers, asked, strict=True) if is_asked]


@dataclass(frozen=True, slots=True)
class Console:
    """What all pages are made of."""

    settings: Settings
    servers: dict[str, Server]  # by their names, in the order of the command line
    logger: Logger
    clock: Clock
    _kept: dict[type, Any] = field(default_factory=dict)

    def kept(self, kind: type[T]) -> T:
        """What a part of the console keeps while it runs: one object of a class, which is made at its first use."""
        return kept_in(self._kept, kind)

    def server(self, name: str) -> Server:
        """The server of a name. Raises HTTPException: there is none."""
        if name not in self.servers:
            raise HTTPException(404, f"no server is called {name!r} here; there are {', '.join(self.servers)}")
        return self.servers[name]

    def asked(self, request: Request) -> list[Server]:
        """The servers that a request is about: all, or the one of ``?server=``. Raises HTTPException: there is none."""
        name = request.query_params.get("server")
        return list(self.servers.values()) if name is None else [self.server(name)]


@dataclass(frozen=True, slots=True)
class Seen:
    """A server as a page shows it: its last sample, also if it is away, and what happened since the one before."""

    server: Server
    sample: Sample | None  # the last; None: there never was one
    change: Change
    is_away: bool = False
    away_since: float | None = None  # seconds since 1970; None: it is there
    reason: str = ""  # why it is away

    @property
    def total(self) -> Rates:
        return self.change.total

    def tube(self, name: str) -> StatsTube | None:
        """A tube of the sample; None: there is no such tube."""
        return self.sample.tubes.get(name) if self.sample is not None else None


async def see(server: Server) -> Seen:
    """Returns what is known of a server, no older than a second if it is there. Never raises."""
    sampler = server.sampler
    try:
        sample = await sampler.look()
    except AwayError as error:
        since = sampler.away.since
        return Seen(server, sampler.sample.value, sampler.change, is_away=True, away_since=since, reason=str(error))
    return Seen(server, sample, sampler.change)


def whole_of(seens: Sequence[Seen]) -> list[Seen]:
    """Those of some servers that `wholes` has."""
    whole = wholes([seen.server for seen in seens])
    return [seen for seen in seens if seen.server in whole]


def first_seen(seens: Sequence[Seen]) -> list[Seen]:
    """Those of some servers that are to be asked for jobs, as `holders` has them, and none that was never there."""
    seens = whole_of(seens)
    asked = are_asked([seen.sample.stats if seen.sample else None for seen in seens])
    return [seen for seen, is_asked in zip(seens, asked, strict=True) if is_asked and seen.sample is not None]
