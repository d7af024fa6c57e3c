"""Where jobs are: the shards of a map, which of them is the home of a tube, and on which its jobs may lie.

A tube that the map does not name has its home by rendezvous hashing: each shard draws numbers for it, as many as its
weight, and whoever has the greatest has the tube. So a shard that is added takes its share of the tubes, from all
others alike, and no other tube moves. docs/shards.md says the draws to the bit, for all routers must agree on them.

Puts go to the home. Whoever looks for jobs looks at all places: the homes under this map and under each before it.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from operator import itemgetter

from beanpole.address import Address
from beanpole.shard_ids import number_of

WEIGHT_MAX = 16
"""Draws of a shard: as many as the digest has numbers."""

PLACES_KEPT = 65_536
"""Tubes whose places are remembered, at some 300 bytes each: to find them takes microseconds for each shard."""

DRAWS = struct.Struct(f">{WEIGHT_MAX}I")


@dataclass(frozen=True, slots=True)
class Shard:
    """A server, or a cluster, that has a part of the tubes."""

    name: str
    numbers: tuple[int, ...]
    """Those that its ids begin with. The first is what it draws with, as that never changes."""
    nodes: Address
    weight: int = 1
    """How many numbers it draws; 0: it gets no tube, as it is being emptied."""

    def draw(self, name: bytes) -> int:
        """Return the greatest number that it draws for a name; -1: it draws none."""
        digest = digest_of(name, self.numbers[0])
        if self.weight == 1:  # as nearly all have
            return int.from_bytes(digest[:4], "big")
        return max(DRAWS.unpack(digest)[: self.weight], default=-1)


@lru_cache(256)
def digest_of(name: bytes, number: int) -> bytes:
    """Return what a shard draws from, by its number; each map of several asks for the same in turn."""
    return blake2b(b"%b %d" % (name, number)).digest()


def home_of(name: bytes, shards: Iterable[Shard]) -> Shard:
    """Return the shard that gets a name. Of equal draws the one of the smallest number counts."""
    return max([(shard.draw(name), -shard.numbers[0], shard) for shard in shards], key=itemgetter(0, 1))[2]


def base_of(tube: bytes) -> bytes:
    """Return the name that decides where a tube is: what stands before its first ``;``.

    A put into ``mail;42`` may make a job of ``mail``, by a rule of its server; both have one home.
    """
    return tube.partition(b";")[0] or tube


@dataclass(frozen=True)
class ShardMap:
    """What a file of a map says."""

    file: str = field(compare=False)
    epoch: int
    shards: Mapping[str, Shard]
    tubes: Mapping[bytes, tuple[Shard, ...]]
    """Where tubes are whose homes are named, by a tube's name, or the beginning of names with a ``*`` behind it."""
    everywhere: frozenset[bytes]
    """Tubes whose jobs may be on any shard."""
    before: "tuple[ShardMap, ...]" = ()
    """The maps under which jobs may still lie, without any before them, the newest first."""

    @cached_property
    def _prefix_sizes(self) -> list[int]:
        return sorted({len(each) - 1 for each in self.tubes if each.endswith(b"*")}, reverse=True)

    def pattern_of(self, name: bytes) -> bytes | None:
        """Return by which line of `tubes` a name goes: its own, else that of the longest prefix. None: by none."""
        if name in self.tubes:
            return name
        if not self._prefix_sizes:
            return None
        prefixes = (name[:size] + b"*" for size in self._prefix_sizes)
        return next((each for each in prefixes if each in self.tubes), None)

    def homes(self, name: bytes) -> tuple[Shard, ...]:
        """Return where new jobs of a tube go, by what `base_of` returns: one shard, or several if it is spread."""
        pattern = self.pattern_of(name)
        return (home_of(name, self.shards.values()),) if pattern is None else self.tubes[pattern]

    def holds(self, name: bytes) -> Iterable[Shard]:
        """Return where this map lets jobs of a tube be."""
        return self.shards.values() if name in self.everywhere else self.homes(name)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tube is."""

    homes: tuple[Shard, ...]
    """Where new jobs go: one shard, or several if the tube is spread."""
    shards: tuple[Shard, ...]
    """Where its jobs may be; the homes come first."""


class Places:
    """The answers of a map and those before it. They never change: a map that was read again has others."""

    def __init__(self, newest: ShardMap, everywhere: Iterable[bytes] = (), kept_max: int = PLACES_KEPT) -> None:
        """`everywhere` are tubes whose jobs may be on any shard besides those that the maps name so."""
        self.map = newest
        self.everywhere = frozenset(map(base_of, everywhere))
        self._by_number = {number: each for each in newest.shards.values() for number in each.numbers}
        self._kept_max = kept_max
        self._known: dict[bytes, Place] = {}

    def place(self, tube: bytes) -> Place:
        """Return where a tube is."""
        found = self._known.get(tube)
        if found is None:
            if len(self._known) >= self._kept_max:
                self._known.clear()
            found = self._known[tube] = self._find(base_of(tube))
        return found

    def _find(self, name: bytes) -> Place:
        homes = self.map.homes(name)
        shards = {each.name: each for each in homes}  # by their names, as to hash a shard takes a microsecond
        if name in self.everywhere or name in self.map.everywhere:
            shards |= self.map.shards
        for older in self.map.before:
            for each in older.holds(name):
                found = self._by_number[each.numbers[0]]
                shards[found.name] = found
        return Place(homes, tuple(shards.values()))

    def shard_of_id(self, id: int) -> Shard | None:
        """Return the shard that has given out an id; None: none of the map has."""
        return self._by_number.get(number_of(id))
