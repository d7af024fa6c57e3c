"""Pools: clients of several servers, with fail-over, for many threads or many tasks.

A pool lends a client to one user at a time. Which server comes first is the strategy's choice; one that can't be
reached is left out for 1, 2, 4 ... choices and then tried again, so that a dead server costs little and a revived one
is found. When every server has failed, the pool waits as its backoff says and begins again; when one has worked before,
until the patience of its clients is over, which all users of the pool share.

Only what is certain not to have happened is done elsewhere: a command that was never sent, or that a server refused.
"""

import asyncio
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Generic, Literal, Self, TypeVar

from beanpole.address import Address, Addresses
from beanpole.client.aio import AsyncClient
from beanpole.client.base import PATIENCE_S, login_for
from beanpole.client.commands import Awaiting, Blocking
from beanpole.client.recovery import Backoff, Outage
from beanpole.client.sync import Client, complete
from beanpole.errors import ArgumentError, BeanpoleError, CannotConnectError, DrainingError, OutOfMemoryError

POOL_IDLE_CLIENTS_MAX = 16  # idle connections to one server that a pool keeps, by default

POOL_SKIPS_MAX = 64
"""Choices of a server for which a pool leaves out one that failed again and again; after the first failure it is 1."""

B = TypeVar("B")
C = TypeVar("C", Client[Any], AsyncClient[Any])

Strategy = Literal["round-robin", "random", "first"]
"""Which server is chosen: each in its turn, any, or the first that can be reached (the others are spares)."""

Refused = dict[int, BeanpoleError]
"""The servers that have refused a job, and how."""

ONCE = Backoff(attempts=1)  # a client of a pool does not try again by itself: another server may do


class Ring:
    """In which order the servers are tried. No I/O; the caller keeps threads apart."""

    def __init__(self, count: int, strategy: Strategy, chance: Callable[[], float]) -> None:
        if strategy not in {"round-robin", "random", "first"}:
            raise ArgumentError(f"a strategy must be round-robin, random or first, not {strategy!r}")
        self._count = count
        self._strategy = strategy
        self._chance = chance
        self._turn = 0
        self._skips = [0] * count
        """How many choices each server is still left out."""
        self._failures = [0] * count
        """How often in a row each has failed."""

    def order(self) -> list[int]:
        """The servers in the order in which they are to be tried now: those that are left out come last."""
        start = 0
        if self._strategy == "round-robin":
            start = self._turn % self._count
            self._turn += 1
        elif self._strategy == "random":
            start = int(self._chance() * self._count)
        order = [(start + i) % self._count for i in range(self._count)]
        order.sort(key=lambda server: self._skips[server] > 0)
        self._skips = [max(left - 1, 0) for left in self._skips]
        return order

    def failed(self, server: int) -> None:
        self._skips[server] = min(2 ** min(self._failures[server], 30), POOL_SKIPS_MAX)
        self._failures[server] += 1

    def answered(self, server: int) -> None:
        self._skips[server] = self._failures[server] = 0


class _Pool(ABC, Generic[C]):
    """What both pools share: the idle clients, and the order of the servers."""

    def __init__(
        self,
        urls: Sequence[str] | None = None,
        *,
        strategy: Strategy = "round-robin",
        idle_max: int = POOL_IDLE_CLIENTS_MAX,
        backoff: Backoff | None = None,
        chance: Callable[[], float] = random.random,
        **options: Any,  # noqa: ANN401 - a client's
    ) -> None:
        if isinstance(urls, str) or (urls is not None and not urls):
            raise ArgumentError("a pool needs a list of at least one address")
        self._options = {**options, "login": login_for(urls, options.get("login"))}
        self._addresses = [Address.default()] if urls is None else [Address.of(url) for url in urls]
        self._shared = [Addresses(each) for each in self._addresses]
        """Which node of each server is tried next, known to all its clients."""
        self._backoff = backoff or Backoff()
        self._idle_max = idle_max
        self._idle: list[list[C]] = [[] for _ in self._addresses]
        self._lock = threading.Lock()
        self._ring = Ring(len(self._addresses), strategy, chance)
        self._closed = False
        self._outage = Outage(options.get("patience", PATIENCE_S), self._backoff, is_logged=False)
        self._worked = False
        """Whether there was ever a connection: a wrong address is found at once."""
        self._make(self._shared[0])  # so that a wrong argument is found here, not in the first call

    @abstractmethod
    def _make(self, address: Addresses) -> C:
        """A client that is not connected yet."""

    def _order(self, url: str | None, refused: Refused) -> list[int]:
        if url is not None:
            try:
                return [self._addresses.index(Address.of(url))]
            except ValueError:
                raise ArgumentError(f"{url} is not a server of this pool") from None
        with self._lock:
            return [server for server in self._ring.order() if server not in refused]

    def _take(self, server: int) -> C:
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._idle[server]:
                return self._idle[server].pop()
        return self._make(self._shared[server])

    async def _give_back(self, server: int, client: Any) -> None:  # noqa: ANN401 - one of either kind
        """Keeps a client for others, or closes it: it is not what it was, or not needed."""
        with self._lock:
            is_kept = not self._closed and client.untouched and len(self._idle[server]) < self._idle_max
            if is_kept:
                self._idle[server].append(client)
        if not is_kept:
            await self._done(client.close())

    def _note(self, server: int, *, answered: bool) -> None:
        with self._lock:
            if answered:
                self._ring.answered(server)
                self._worked = True
                self._outage.end(self._addresses[server])
            else:
                self._ring.failed(server)

    def _pause_s(self, pauses: Iterator[float], error: CannotConnectError | None, refused: Refused) -> float | None:
        """How long to wait when no server can be reached; None: no longer."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._worked and error is not None and not refused:
                self._outage.begin(self._addresses[0], error)
                if self._outage.is_bearable:
                    return self._outage.pause_s(None)
            return next(pauses, None)

    def _close_all(self) -> list[C]:
        with self._lock:
            self._closed = True
            idle = [client for clients in self._idle for client in clients]
            for clients in self._idle:
                clients.clear()
        return idle

    # As the clients do, see `BaseClient`: what a Pool calls is done when it returns.
    _done: Any
    _sleep: Any

    async def _acquire(self, url: str | None, refused: Refused) -> tuple[int, C]:
        pauses = self._backoff.pauses()
        error: CannotConnectError | None = None
        while True:
            for server in self._order(url, refused):
                client: Any = self._take(server)
                try:
                    await self._done(client._connected())  # noqa: SLF001 - tried once: another server may do
                except CannotConnectError as reason:
                    error = reason
                    self._note(server, answered=False)
                else:
                    self._note(server, answered=True)
                    return server, client
            pause_s = self._pause_s(pauses, error, refused)
            if pause_s is None:
                if refused:
                    raise next(reversed(refused.values()))
                if error is not None and len(self._addresses) == 1:
                    raise error
                raise CannotConnectError(f"no server of {len(self._addresses)} can be reached; the last: {error}")
            await self._done(self._sleep(pause_s))

    async def _put(self, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - as Client.put
        refused: Refused = {}
        while True:
            server, client = await self._acquire(None, refused)
            try:
                id: int = await self._done(client.put(*args, **kwargs))
            except (DrainingError, OutOfMemoryError) as refusal:
                refused[server] = refusal
                if len(refused) == len(self._addresses):
                    raise
            else:
                return id
            finally:
                await self._give_back(server, client)


class Pool(_Pool[Client[Any]], Blocking):
    """Clients of several servers for many threads.

    `urls` are the addresses of the servers, as a Client takes them; without any there is one server, that of a Client.
    `strategy` says which is chosen next: ``round-robin`` each in its turn, ``random`` any, ``first`` the first of the
    list that can be reached, so that the others are spares. One that can't be reached is left out for some choices.
    When none can be reached, the pool pauses and tries all again, as `backoff` says, or if one was reached before, for
    `patience` seconds from then on. `idle_max` is how many unused connections to each server are kept.
    `options` are the other arguments of :class:`~beanpole.client.sync.Client`: `use`, `watch`, `codec`, `timeout` and
    so on.

    Raises ArgumentError for an invalid address, strategy or option.
    """

    def _make(self, address: Addresses) -> Client[Any]:
        return Client(address, backoff=ONCE, **self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the idle clients; those that are lent are closed when they come back."""
        for client in self._close_all():
            client.close()

    @contextmanager
    def client(self, url: str | None = None) -> Iterator[Client[Any]]:
        """Lends a connected client: of the server at `url`, or of the next that can be reached.

        Jobs that it still holds at the end of the with block are given to others. Raises CannotConnectError when no
        server can be reached, ArgumentError for a URL that is not in the pool, RuntimeError if the pool is closed.
        """
        server, client = complete(self._acquire(url, {}))
        try:
            yield client
        finally:
            complete(self._give_back(server, client))

    def put(self, body: Any, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - as Client.put
        """Puts a job as :meth:`Client.put` does, on the next server that takes it. The id is that server's.

        A server that can't be reached, drains or has no space is passed over (``put``). Raises ConnectionLostError when
        it is not known whether the job was put, and tries no other server then; CannotConnectError, DrainingError or
        OutOfMemoryError when no server takes it; and what else :meth:`Client.put` raises.
        """
        return complete(self._put(body, *args, **kwargs))

    _sleep = staticmethod(time.sleep)


class AsyncPool(_Pool[AsyncClient[Any]], Awaiting):
    """Clients of several servers for many tasks: the arguments and methods of :class:`Pool`, as coroutines."""

    def _make(self, address: Addresses) -> AsyncClient[Any]:
        return AsyncClient(address, backoff=ONCE, **self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the idle clients; those that are lent are closed when they come back."""
        for client in self._close_all():
            await client.close()

    @asynccontextmanager
    async def client(self, url: str | None = None) -> AsyncIterator[AsyncClient[Any]]:
        """Does what :meth:`Pool.client` does."""
        server, client = await self._acquire(url, {})
        try:
            yield client
        finally:
            await self._give_back(server, client)

    async def put(self, body: Any, *args: Any, **kwargs: Any) -> int:  # noqa: ANN401 - as AsyncClient.put
        """Does what :meth:`Pool.put` does."""
        return await self._put(body, *args, **kwargs)

    _sleep = staticmethod(asyncio.sleep)
