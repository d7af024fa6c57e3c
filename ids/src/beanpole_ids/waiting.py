"""Requests that wait for their counters, and the order in which counters are loaded for them.

Both are bounded and fair by source, the network of a client: one that asks for thousands of names fills no more than
its part, and delays the counter of another by one at most.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_network
from itertools import chain, zip_longest

from beanpole_ids import limits
from beanpole_ids.request import Request
from beanpole_ids.rules.sequence import Key


@lru_cache(limits.WAITING_MAX)
def network_of(source: str) -> str:
    """Return what one client has of the addresses: all of a /64 of IPv6, and itself of IPv4."""
    if ":" not in source or source.startswith("::ffff:"):
        return source
    return str(ip_network(f"{source.partition('%')[0]}/64", strict=False))


class Line:
    """Requests that wait for one counter: those of a source in the order of arrival, and sources in turn."""

    def __init__(self) -> None:
        self._by_source: OrderedDict[str, deque[Request]] = OrderedDict()
        self.number_count = 0
        """Numbers that they want."""

        self.texts_since_s: float | None = None
        """Since when the first one has waited for the text of its number; None: it waits for the store."""

    def __bool__(self) -> bool:
        return bool(self._by_source)

    def __iter__(self) -> Iterator[Request]:
        return chain.from_iterable(self._by_source.values())

    @property
    def first(self) -> Request:
        """The one whose turn it is."""
        return next(iter(self._by_source.values()))[0]

    def in_turn(self) -> Iterator[Request]:
        """Return the requests in the order in which they will be served."""
        for row in zip_longest(*self._by_source.values()):
            yield from (each for each in row if each is not None)

    def add(self, request: Request, source: str) -> None:
        """Let a request wait behind those of its source."""
        self._by_source.setdefault(source, deque()).append(request)
        self.number_count += request.number_count

    def drop_first(self) -> str:
        """Remove the first request; return its source, whose next one waits for those of others."""
        source, requests = self._by_source.popitem(last=False)
        self.number_count -= requests.popleft().number_count
        if requests:
            self._by_source[source] = requests
        return source


class Waiting:
    """Requests by the counter that they wait for."""

    def __init__(self) -> None:
        self.queues: dict[Key, Line] = {}
        self.count = 0
        self._by_source: dict[str, int] = {}

    def is_full(self, source: str) -> bool:
        """Return whether no more requests of a source may wait."""
        waiting = self._by_source.get(network_of(source), 0)
        return self.count >= limits.WAITING_MAX or waiting >= limits.WAITING_SOURCE_MAX

    def add(self, request: Request) -> Line:
        """Let a request wait behind others for the same counter; return the line that it is in."""
        source = network_of(request.source)
        if (line := self.queues.get(request.key)) is None:
            line = self.queues[request.key] = Line()
        line.add(request, source)
        self.count += 1
        self._by_source[source] = self._by_source.get(source, 0) + 1
        return line

    def drop_first(self, line: Line) -> None:
        """End the waiting of the first request of a line, which stays in `queues` also when it is empty."""
        source = line.drop_first()
        self.count -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def sources(self, key: Key) -> list[str]:
        """Return the proven addresses whose requests want numbers of a counter, the first one first."""
        line = self.queues.get(key, ())
        return list(dict.fromkeys(each.source for each in line if each.is_get and each.is_proven))


class Loads:
    """Counters to load, in turn over the sources that want them."""

    def __init__(self) -> None:
        self._by_source: OrderedDict[str, OrderedDict[Key, bool]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_source)

    def add(self, key: Key, source: str, *, create: bool) -> None:
        """Load a counter soon. `create`: also if nobody has used it."""
        keys = self._by_source.setdefault(network_of(source), OrderedDict())
        keys[key] = create or keys.get(key, False)

    def take(self, count: int) -> dict[Key, bool]:
        """Remove and return the counters that are next, and whether to create those that the store does not have."""
        taken: dict[Key, bool] = {}
        while self._by_source and len(taken) < count:
            source, keys = self._by_source.popitem(last=False)
            key, create = keys.popitem(last=False)
            taken[key] = create or taken.get(key, False)
            if keys:
                self._by_source[source] = keys  # behind the others
        return taken
