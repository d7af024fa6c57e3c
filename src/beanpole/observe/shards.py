"""What the servers of a map (docs/shards.md) have, and what of it does not fit the map: ``beanpole shards status``.

A server is asked by a client; all that is said about several is said of what they answered, without asking again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from beanpole.observe.sampling import ask_pages, dead_tubes_of
from beanpole.observe.units import plural
from beanpole.schedules.document import HEADER_BYTES_MAX, header_of
from beanpole.shards.map import Places, ShardMap

if TYPE_CHECKING:
    from beanpole.client import AsyncClient, Stats

NAMED_MAX = 8
"""Tubes that a warning names of those that it is about."""

STATES = ("ready", "reserved", "delayed", "buried")

MAP_EPOCH = "link-map-epoch"
"""The key of the smallest epoch of a map that a router of the server has; 0: no router has a map."""


@dataclass(frozen=True, slots=True)
class ShardSample:
    """What a shard has."""

    stats: "Stats"
    jobs: Mapping[str, int]
    """How many jobs each tube has that has some."""
    rules: Mapping[str, str]
    dead_tubes: Collection[str]
    """The tubes into which its rules send the dead."""
    schedules: Mapping[str, str]
    """The tube of each schedule."""

    @property
    def number(self) -> str:
        """The numbers that it says it was given; a server that was given none is shard 0."""
        return str(self.stats.get("shard", 0))

    @property
    def map_epoch(self) -> int | None:
        """The smallest epoch of a router's map; 0: there is no such router; None: the server doesn't say."""
        epoch = self.stats.get(MAP_EPOCH)
        return int(epoch) if epoch is not None else None


async def take_shard_sample(client: "AsyncClient[bytes]") -> ShardSample:
    """Ask a shard. Raises ConnectionLostError and UnexpectedReplyError, and UnsupportedError: it is no Beanpole."""
    stats = await client.stats()
    tubes, _ = await ask_pages(client, stats.current_tubes)
    rules = await client.list_rules()
    jobs = {name: sum(getattr(each, f"current_jobs_{state}") for state in STATES) for name, each in tubes.items()}
    return ShardSample(
        stats,
        {name: count for name, count in jobs.items() if count},
        {each.pattern: each.text for each in rules},
        dead_tubes_of(rules),
        {
            each.name: header_of(each.document).get("tube", "default")
            for each in await client.all_schedules(HEADER_BYTES_MAX)
        },
    )


class Review:
    """What the shards of a map have, held against it."""

    def __init__(self, newest: ShardMap, samples: Mapping[str, ShardSample]) -> None:
        """`samples` are by the names of shards; those that did not answer are missing."""
        self.map = newest
        self.samples = samples
        self._dead = {name.encode() for each in samples.values() for name in each.dead_tubes}
        self._there = sorted(
            {(name, tube) for name, each in samples.items() for tube in (*each.jobs, *each.schedules.values())}
        )
        self.strays = self.outside(newest)

    def outside(self, chosen: ShardMap) -> list[tuple[str, str]]:
        """Return the tubes that have jobs or schedules where nobody looks by a map, each behind its shard."""
        places = Places(chosen, self._dead)
        return [
            (name, tube) for name, tube in self._there if chosen.shards[name] not in places.place(tube.encode()).shards
        ]

    # --- What is wrong ------------------------------------------------------------------------------------------------

    def warnings(self) -> Iterator[str]:
        """Return what does not fit the map, or should be the same on all shards and is not: a sentence each."""
        for name, each in self.samples.items():
            wanted = ",".join(map(str, self.map.shards[name].numbers))
            if each.number != wanted:
                yield f"{name} has the number {each.number}, and {wanted} in the map: its ids lead elsewhere"
        for (one, first), (two, second) in combinations(self.samples.items(), 2):
            if first.stats.id == second.stats.id:
                yield f"{one} and {two} are one server: its jobs are given out and counted twice"
        sizes = {name: each.stats.max_job_size for name, each in self.samples.items()}
        if len(set(sizes.values())) > 1:
            text = ", ".join(f"{size} on {name}" for name, size in sizes.items())
            yield f"bodies may not have the same size on all shards: {text} bytes"
        if self.strays:
            yield f"nobody looks for the jobs of {named(f'{tube} on {name}' for name, tube in self.strays)}"
        newer = {name: each.map_epoch for name, each in self.samples.items() if (each.map_epoch or 0) > self.map.epoch}
        if newer:
            text = ", ".join(f"{epoch} at {name}" for name, epoch in newer.items())
            yield f"routers go by a newer map: this one has epoch {self.map.epoch}, theirs {text}"
        yield from self._rules()
        yield from self._schedules()

    def _rules(self) -> Iterator[str]:
        patterns = {pattern for each in self.samples.values() for pattern in each.rules}
        unlike = [one for one in sorted(patterns) if len({each.rules.get(one) for each in self.samples.values()}) > 1]
        if unlike:
            yield f"the rules of {named(unlike)} are not the same on all shards; `beanpole rules apply` sets them"

    def _schedules(self) -> Iterator[str]:
        places = Places(self.map)
        owners: dict[str, list[str]] = {}
        for name, each in self.samples.items():
            for schedule, tube in each.schedules.items():
                owners.setdefault(schedule, []).append(name)
                homes = places.place(tube.encode()).homes
                if self.map.shards[name] not in homes:
                    where = " or ".join(home.name for home in homes)
                    yield f"schedule {schedule} is on {name}, and the home of its tube {tube} is {where}; set it there"
        for schedule, names in owners.items():
            if len(names) > 1:
                yield f"schedule {schedule} is on {' and '.join(names)}: each of them fires"

    # --- What may go --------------------------------------------------------------------------------------------------

    def advice(self) -> Iterator[str]:
        """Return of each map before this one, and of each shard without weight, whether it may be taken out now.

        All that may be taken out may be so together: of two maps by which the same jobs lie, one stays.
        """
        missing = [name for name in self.map.shards if name not in self.samples]
        kept = self.map.before
        for older in self.map.before:
            rest = replace(self.map, before=tuple(each for each in kept if each is not older))
            lying = [f"{tube} on {name}" for name, tube in self.outside(rest) if (name, tube) not in self.strays]
            if lying:
                yield f"{older.file} stays in before: {named(lying)}"
            elif missing:
                yield f"{older.file} stays in before: what {named(missing)} has is not known"
            elif why := self._older_routers():
                yield f"{older.file} stays in before: {why}"
            else:
                kept = rest.before
                yield f"{older.file} may leave before: nothing lies by it alone"
        if self.map.before != kept and kept:  # it may be named by one that leaves
            yield f"those that stay stand in the next map: before = {[str(each.file) for each in kept]}"
        needed = {name for older in self.map.before for name in older.shards}
        for shard in self.map.shards.values():
            if not shard.weight and shard.name in self.samples and shard.name not in needed:
                is_empty = all(name != shard.name for name, _ in self._there)
                yield f"{shard.name} " + ("may leave the map: it is empty" if is_empty else "is not empty yet")
        if self.strays:
            yield "jobs for which nobody looks are found when the map by which they were put is named in before"

    def _older_routers(self) -> str:
        """Return which routers may go by an older map, as a reason to keep one; empty: none does."""
        epochs = {name: each.map_epoch for name, each in self.samples.items()}
        silent = [name for name, epoch in epochs.items() if epoch is None]
        late = [
            f"one of {name} has epoch {epoch}" for name, epoch in epochs.items() if epoch and epoch < self.map.epoch
        ]
        if late:
            return f"routers have older maps: {named(late)}"
        return f"which maps the routers of {named(silent)} have is not known" if silent else ""


def named(names: Iterable[str]) -> str:
    """Return names as a list for people, which is not longer than one reads."""
    every = list(names)
    more = len(every) - NAMED_MAX
    return ", ".join(every[:NAMED_MAX]) + (f" and {plural(more, 'other')}" if more > 0 else "")
