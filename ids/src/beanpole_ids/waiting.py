"""Requests that wait for their counters, and the order in which counters are loaded for them.

Both are bounded and fair by source, the network of a client: one that asks for thousands of names fills no more than
its part, and delays the counter of another by one at most.
"""

from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_network
from itertools import chain, zip_longest
from typing import Generic, TypeVar

from beanpole_ids import limits
from beanpole_ids.request import Request
from beanpole_ids.rules.sequence import Key


@lru_cache(limits.WAITING_MAX)
def network_of(source: str) -> str:
    """Return what one client has of the addresses: all of a /64 of IPv6, and itself of IPv4."""
    if ":" not in source or source.startswith("::ffff:"):
        return source
    return str(ip_network(f"{source.partition('%')[0]}/64", strict=False))


T = TypeVar("T")


class Turns(Generic[T]):
    """What sources want: that of a source in the order of arrival, each once, and sources in turn."""

    def __init__(self) -> None:
        self._by_source: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._by_source)

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._by_source.values())

    def append(self, item: T, source: str) -> None:
        """Add something behind what its source wants already."""
        self._by_source.setdefault(source, OrderedDict())[item] = None

    def pop(self) -> tuple[T, str]:
        """Remove what is next; return it and its source, whose next one waits for those of others."""
        source, items = self._by_source.popitem(last=False)
        item, _ = items.popitem(last=False)
        if items:
            self._by_source[source] = items
        return item, source


class Line(Turns[Request]):
    """Requests that wait for one counter."""

    def __init__(self) -> None:
        super().__init__()
        self.number_count = 0
        """Numbers that they want."""

        self.texts_since_s: float | None = None
        """Since when the first one has waited for the text of its number; None: it waits for the store."""

    @property
    def first(self) -> Request:
        return next(iter(self))

    def in_turn(self) -> Iterator[Request]:
        """Return the requests in the order in which they will be served."""
        for row in zip_longest(*self._by_source.values()):
            yield from (each for each in row if each is not None)


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
        line.append(request, source)
        line.number_count += request.number_count
        self.count += 1
        self._by_source[source] = self._by_source.get(source, 0) + 1
        return line

    def drop_first(self, line: Line) -> None:
        """End the waiting of the first request of a line, which stays in `queues` also when it is empty."""
        request, source = line.pop()
        line.number_count -= request.number_count
        self.count -= 1
        self._by_source[source] -= 1
        if not self._by_source[source]:
            del self._by_source[source]

    def sources(self, key: Key) -> list[str]:
        """Return the proven addresses whose requests want numbers of a counter, the first one first."""
        line = self.queues.get(key, ())
        return list(dict.fromkeys(each.source for each in line if each.is_get and each.is_proven))


class Loads(Turns[Key]):
    """Counters to load."""

    def __init__(self) -> None:
        super().__init__()
        self._to_create: set[Key] = set()

    def add(self, key: Key, source: str, *, create: bool) -> None:
        """Load a counter soon. `create`: also if nobody has used it."""
        self.append(key, network_of(source))
        if create:
            self._to_create.add(key)

    def take(self, count: int) -> dict[Key, bool]:
        """Remove and return the counters that are next, and whether to create those that the store does not have."""
        taken: dict[Key, bool] = {}
        while self and len(taken) < count:
            key, _ = self.pop()
            taken[key] = key in self._to_create
        self._to_create -= taken.keys()
        return taken
