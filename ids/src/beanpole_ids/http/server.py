"""HTTP/1.1 on asyncio, in the event loop that also serves the datagrams: who may connect, and for how long."""

import asyncio
import itertools
from collections.abc import Callable, Iterable

from beanpole_ids import limits
from beanpole_ids.fair import Fair
from beanpole_ids.http.connection import Connection
from beanpole_ids.http.head import Heads
from beanpole_ids.http.listener import Listener
from beanpole_ids.http.routes import Routes
from beanpole_ids.http.turns import Turns
from beanpole_ids.waiting import network_of

SWEEP_S = 0.5
"""Seconds between two looks for connections whose time is over."""


class Server:
    """All HTTP connections.

    One that comes when there are too many takes the place of the one that has waited longest for its client, first of
    those that have never sent a whole request. If all are owed an answer, or its address has too many, it is an extra
    one, which gets one answer and only from /health or /metrics. If no descriptor is left for a connection, another is
    ended that waits for its client.
    """

    def __init__(
        self,
        routes: Routes,
        now_ns: Callable[[], int],
        timeout_ms: int = limits.HTTP_TIMEOUT_MS,
        connections_max: int = limits.HTTP_CONNECTIONS_MAX,
        connections_per_source: int = limits.HTTP_CONNECTIONS_PER_SOURCE_DEFAULT,
    ) -> None:
        self.routes = routes
        self.heads = Heads()
        self.timeout_s = timeout_ms / 1000
        self.head_s = min(timeout_ms, limits.HTTP_HEAD_MS) / 1000
        self.connections_max = connections_max
        self.connections_per_source = connections_per_source
        self.connections: set[Connection] = set()
        self.stopping = False
        self.requests = Turns(Connection.take_turn, Fair(), now_ns)
        """Connections on which something has come."""

        self._refused_count = 0
        self._listener = Listener(
            lambda source: Connection(self, source), now_ns, make_room=lambda: self._cut_off(self.connections)
        )
        self._groups: dict[bytes, int] = {}
        """Connections by address."""

        self._ordinals = itertools.count()
        self._extra_count = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    def open(self, host: str, port: int) -> list[str]:
        """Listen; return the addresses.

        Raises OSError: it can't be listened on the address.
        """
        self.time: Callable[[], float] = asyncio.get_running_loop().time
        return self._listener.open(host, port)

    @property
    def refused_count(self) -> int:
        """Connections that were cut off for others, or were extra ones, or too many to wait."""
        return self._refused_count + self._listener.refused_count

    # --- Connections --------------------------------------------------------------------------------------------------

    def add(self, connection: Connection) -> None:
        """A connection has come."""
        group = connection.group = network_of(connection.source).encode()
        connection.ordinal = next(self._ordinals)
        others = self._groups.get(group, 0)
        ordinary_count = len(self.connections) - self._extra_count
        self.connections.add(connection)
        self._groups[group] = others + 1
        if others >= self.connections_per_source or (
            ordinary_count >= self.connections_max
            and not self._cut_off(each for each in self.connections if each is not connection and not each.is_extra)
        ):
            self._add_extra(connection)
        if self._sweeper is None:
            self._sweep()
        if self.stopping:
            connection.stop()

    def _add_extra(self, connection: Connection) -> None:
        """Accept a connection for which there is no place."""
        connection.is_extra = True
        self._extra_count += 1
        self._refused_count += 1
        if self._extra_count > limits.HTTP_EXTRA_MAX:
            self._cut_off(each for each in self.connections if each.is_extra)

    def _cut_off(self, connections: Iterable[Connection]) -> bool:
        """End the connection that has waited longest for its client; return whether there is one."""
        waiting = [each for each in connections if each.awaits_client]
        if not waiting:
            return False
        last = min(waiting, key=lambda each: (each.is_used, each.since_s, each.ordinal))
        self._refused_count += not last.is_extra
        self.forget(last)
        last.abort()
        return True

    def forget(self, connection: Connection) -> None:
        """A connection has ended."""
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self._extra_count -= connection.is_extra
        self._groups[connection.group] -= 1
        if not self._groups[connection.group]:
            del self._groups[connection.group]
        if self.stopping and not self.connections:
            self._empty.set()

    def _sweep(self) -> None:
        """Cut off connections whose time is over, as long as there are any."""
        self._sweeper = None
        if self.connections:
            wait_s = min(SWEEP_S, self.head_s / 4)
            self._sweeper = asyncio.get_running_loop().call_later(wait_s, self._sweep)
        now_s = self.time()
        for each in list(self.connections):
            if each.until_s <= now_s:
                each.expire()

    # --- The end ------------------------------------------------------------------------------------------------------

    def begin_stop(self) -> None:
        """Accept no connection; requests that have come are answered, then their connections end."""
        self.stopping = True
        self._listener.close()
        for each in list(self.connections):
            each.stop()

    async def finish(self) -> None:
        """End all connections. Clients have a moment to read their last answer."""
        for each in list(self.connections):
            each.give_up()
        if self.connections:
            # Each ends when its time is over at the latest.
            await self._empty.wait()
        if self._sweeper is not None:
            self._sweeper.cancel()
