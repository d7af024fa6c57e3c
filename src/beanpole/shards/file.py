"""The file of a map: TOML, checked as a whole before anything of it counts, and read again when it changes.

::

    epoch = 7
    before = ["shards-6.toml"]
    everywhere = ["failed"]

    [shard]
    a = { number = 0, nodes = "10.0.0.1:11300,10.0.0.2:11300" }
    b = { number = [1, 5], nodes = "10.0.0.3:11300", weight = 2 }

    [tubes]
    "mail-*" = "a"
    clicks = ["a", "b"]

The maps of `before` are read with it, and theirs, each relative to the file that names it.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from beanpole.address import Address
from beanpole.errors import ArgumentError, MapError
from beanpole.files import TomlFile, stamp
from beanpole.limits import SHARDS_MAX
from beanpole.protocol.names import NAME_RULE, PATTERN, TUBE
from beanpole.shards.map import WEIGHT_MAX, Shard, ShardMap, base_of

MAP_SHARDS_MAX = 64
"""Shards of a map: beyond, a link brings so few commands in a turn that it gains nothing (docs/shards.md)."""

BEFORE_MAX = 16
"""Maps under which jobs may still lie: each is looked at for each tube."""

EPOCH_MAX = 10**18 - 1
"""A link says it with 18 digits at most (docs/link.md)."""

NAME = re.compile("[A-Za-z0-9_-]{1,64}")

KEYS = ("epoch", "before", "everywhere", "shard", "tubes")
SHARD_KEYS = ("number", "nodes", "weight")

# --- Reading ----------------------------------------------------------------------------------------------------------


def load(path: Path, in_use: ShardMap | None = None) -> ShardMap:
    """Read a map, and those before it. It may be the one that is in use, or follow it.

    Raises:
        MapError: something is wrong, in it or in one of them.
    """
    file = TomlFile(path, MapError)
    newest = map_of(file)
    before: dict[Path, ShardMap] = {}
    naming = [(file, newest.epoch)]
    for each, epoch in naming:  # it grows by those that are named
        for name in each.strings("before"):
            where = each.path.parent / name
            if not where.is_file():
                raise each.wrong(f"before: there is no file {where}", "before")
            key = where.resolve()
            if key not in before:
                older = TomlFile(where, MapError)
                before[key] = map_of(older)
                naming.append((older, before[key].epoch))
            if before[key].epoch >= epoch:
                raise each.wrong(f"before: {name} has epoch {before[key].epoch}; it must be below {epoch}", "before")
            if len(before) > BEFORE_MAX:
                raise each.wrong(f"before: with those that they name these are more than {BEFORE_MAX} maps", "before")
    for one in before.values():
        check_same_shards(file, newest, one)
    found = replace(newest, before=tuple(sorted(before.values(), key=lambda each: -each.epoch)))
    for shard in in_use.shards.values() if in_use is not None else ():
        check_number(file, newest.shards.get(shard.name, shard), shard, "the map in use")
    if in_use is not None and found != in_use and found.epoch <= in_use.epoch:
        raise file.wrong(
            f"epoch: another map has {in_use.epoch} and is in use; what changes gets a greater one", "epoch"
        )
    return found


def map_of(file: TomlFile) -> ShardMap:
    """Read one file. Raises MapError."""
    file.check_keys(KEYS, "a map")
    epoch = file.value(int, "epoch")
    if not 0 < epoch <= EPOCH_MAX:
        raise file.wrong(f"epoch: a number from 1 to {EPOCH_MAX} is wanted", *["epoch"] * ("epoch" in file.values))
    shards = shards_of(file)
    everywhere = file.strings("everywhere")
    for name in everywhere:
        if not TUBE.fullmatch(name.encode()):
            raise file.wrong(f"everywhere: {NAME_RULE}: {name[:40]!a}", "everywhere")
    bases = frozenset(base_of(name.encode()) for name in everywhere)
    return ShardMap(str(file.path), epoch, shards, tubes_of(file, shards), bases)


def shards_of(file: TomlFile) -> dict[str, Shard]:
    """Read the table of shards. Raises MapError."""
    shards: dict[str, Shard] = {}
    numbers: dict[int, str] = {}
    nodes: dict[Address, str] = {}
    for name, table in file.value(dict, "shard").items():
        if len(shards) == MAP_SHARDS_MAX:
            raise file.wrong(
                f"shard: more than {MAP_SHARDS_MAX} shards: make several installations of them", "shard", name
            )
        if not NAME.fullmatch(name):
            raise file.wrong(f"shard: a name has 1 to 64 letters, digits, _ and -: {name[:40]!a}", "shard", name)
        shard = shards[name] = shard_of(file, name, table)
        for number in shard.numbers:
            if number in numbers:
                raise file.wrong(f"{name}: number {number} is that of {numbers[number]}", "shard", name, "number")
            numbers[number] = name
        for node in shard.nodes.each():
            if node in nodes:
                raise file.wrong(f"{name}: the node {node} is one of {nodes[node]}", "shard", name, "nodes")
            nodes[node] = name
    if not any(each.weight for each in shards.values()):
        why = "shard: every one has weight 0; one must take new jobs" if shards else "shard: there is none"
        raise file.wrong(why, *["shard"] * ("shard" in file.values))
    return shards


def shard_of(file: TomlFile, name: str, table: object) -> Shard:
    """Read the line of one shard. Raises MapError."""
    if not isinstance(table, dict):
        raise file.wrong(f'{name}: a table is wanted, as {{ number = 0, nodes = "HOST:PORT" }}', "shard", name)
    file.check_keys(SHARD_KEYS, "a shard", "shard", name)
    for key in ("number", "nodes"):
        if key not in table:
            raise file.wrong(f"{name}: it has no {key}", "shard", name)
    given = table["number"]
    numbers = given if isinstance(given, list) else [given]
    is_right = numbers and all(type(each) is int and 0 <= each < SHARDS_MAX for each in numbers)
    if not is_right or numbers != sorted(set(numbers)):
        why = f"{name}: number: from 0 to {SHARDS_MAX - 1} is wanted, or a list of such that rise"
        raise file.wrong(why, "shard", name, "number")
    weight = table.get("weight", 1)
    if type(weight) is not int or not 0 <= weight <= WEIGHT_MAX:
        raise file.wrong(f"{name}: weight: a number from 0 to {WEIGHT_MAX} is wanted", "shard", name, "weight")
    try:
        nodes = Address.of(table["nodes"] if isinstance(table["nodes"], str) else "")
    except ArgumentError as error:
        raise file.wrong(f"{name}: nodes: {error}", "shard", name, "nodes") from None
    return Shard(name, tuple(numbers), nodes, weight)


def tubes_of(file: TomlFile, shards: Mapping[str, Shard]) -> dict[bytes, tuple[Shard, ...]]:
    """Read where tubes are that are named. Raises MapError."""
    tubes: dict[bytes, tuple[Shard, ...]] = {}
    for pattern, value in file.value(dict, "tubes").items():
        at = ("tubes", pattern)
        if isinstance(value, dict):
            raise file.wrong(f'tubes: a name with a dot stands in quotes: "{pattern[:40]}.…"', *at)
        begins = pattern.removesuffix("*")
        if not PATTERN.fullmatch(pattern.encode()):
            raise file.wrong(f"tubes: {NAME_RULE}; a * may end it: {pattern[:40]!a}", *at)
        if base_of(begins.encode()) != begins.encode():
            raise file.wrong(f"tubes: what stands before the first ; says where a tube is: {pattern[:40]!a}", *at)
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(each, str) for each in names):
            raise file.wrong(f"{pattern}: the name of a shard is wanted, or a list of such", *at)
        for each in names:
            if each not in shards:
                raise file.wrong(f"{pattern}: there is no shard {each[:40]!a}", *at)
            if not shards[each].weight:
                raise file.wrong(f"{pattern}: shard {each} has weight 0, so it takes nothing new", *at)
        if len(set(names)) < len(names):
            raise file.wrong(f"{pattern}: a shard is there twice", *at)
        tubes[pattern.encode()] = tuple(shards[each] for each in names)
    return tubes


def check_same_shards(file: TomlFile, newest: ShardMap, older: ShardMap) -> None:
    """Check that a map has the shards of one before it. Raises MapError: jobs of it could not be found."""
    for each in older.shards.values():
        now = newest.shards.get(each.name)
        if now is None:
            why = (
                f"before: {older.file} has a shard {each.name}: keep it, with weight = 0, while its jobs are looked for"
            )
            raise file.wrong(why, "before")
        check_number(file, now, each, older.file)


def check_number(file: TomlFile, now: Shard, before: Shard, where: object) -> None:
    """Check that a shard keeps its numbers. Raises MapError: ids would lead to another."""
    if now.numbers[: len(before.numbers)] != before.numbers:
        had = ", ".join(map(str, before.numbers))
        why = f"{now.name}: number: {where} has {had}; a shard keeps its numbers, and new ones follow"
        raise file.wrong(why, "shard", now.name, "number")


# --- Reading again ----------------------------------------------------------------------------------------------------


class MapFile:
    """A map whose file may change while it is used."""

    def __init__(self, path: Path) -> None:
        """Read it. Raises MapError."""
        self.path = path
        self.map = load(path)
        self._seen = self._state()
        self._read: object = self._seen
        self._said = ""

    def _state(self) -> list[tuple[int, ...]]:
        """Return what changes when a file of the map does."""
        return [stamp(each) for each in (self.path, *[Path(older.file) for older in self.map.before])]

    def look(self, *, at_once: bool = False) -> ShardMap | None:
        """Return another map if the file has one now; None: it has not.

        Call it about once a second: a file must be the same at two looks, as it may be in the middle of being written,
        unless it is to be read `at_once`.

        Raises:
            MapError: what is there is wrong, or may not follow the map in use, which stays; said once for each reason.
        """
        state = self._state()
        is_settled = state == self._seen
        self._seen = state
        if at_once:
            self._said = ""
        elif state == self._read or not is_settled:
            return None
        try:
            found = load(self.path, self.map)
        except MapError as error:
            self._read = None  # the next look reads again: what is missing may be a file that is no part of the state
            if str(error) == self._said:
                return None
            self._said = str(error)
            raise
        self._read, self._said = state, ""
        if found == self.map:
            return None
        self.map = found
        self._seen = self._read = self._state()
        return found
