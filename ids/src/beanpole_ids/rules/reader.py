"""Rules read from tables of a configuration and verified; one that could repeat a number is refused with the reason."""

import os
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, tzinfo
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.rules import timed
from beanpole_ids.rules.cycle import UNITS, Cycle
from beanpole_ids.rules.fingerprint import Fingerprint, digest, zone_shape
from beanpole_ids.rules.lua import LocalZone, LuaRule
from beanpole_ids.rules.rule import TRIED_FROM_S, Maker, Rule, read_again, tried
from beanpole_ids.rules.sequence import Counting, Shape
from beanpole_ids.rules.template import Template

EPOCH = date(2020, 1, 1)  # when the time of a snowflake begins, unless the rule says otherwise

T = TypeVar("T")
CALLED = {str: "a string", int: "a whole number", list: "a list", dict: "a table", bool: "true or false"}


class Table:
    """A table of a configuration. Each key is taken once, with its type."""

    def __init__(self, found: object, what: str) -> None:
        if not isinstance(found, dict):
            raise RuleError(f"{what} must be a table")
        self.rest: dict[str, Any] = dict(found)
        self.what = what

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return the value of a key; without a default it must be there."""
        value = self.rest.pop(key, default)
        if value is None:
            raise RuleError(f"{self.what} lacks {key}")
        if type(value) is not kind:
            raise RuleError(f"{self.what}: {key} must be {CALLED.get(kind, kind.__name__)}, not {value!r}")
        return value

    def optional(self, key: str, kind: type[T]) -> T | None:
        return self.take(key, kind) if key in self.rest else None

    def count(self, key: str, default: int, maximum: int) -> int:
        """Return the value of a key that is 1 to a maximum."""
        value = self.take(key, int, default)
        if not 1 <= value <= maximum:
            raise RuleError(f"{key} must be 1 to {maximum}, not {value}")
        return value

    def end(self) -> None:
        """Refuse keys that were not taken."""
        if self.rest:
            raise RuleError(f"{self.what} has an unknown key {next(iter(self.rest))!r}")


def unique(rules: list[Rule]) -> dict[str, Rule]:
    """Return rules by name."""
    if not rules:
        raise RuleError("there is no rule")
    found: dict[str, Rule] = {}
    for rule in rules:
        if rule.name in found:
            raise RuleError(f"there are two rules {rule.name!r}")
        if not rule.name or len(rule.name.encode()) > limits.NAME_BYTES_MAX:
            raise RuleError(f"the name of a rule has 1 to {limits.NAME_BYTES_MAX} bytes")
        found[rule.name] = rule
    return found


def zone_named(name: str) -> tzinfo:
    """Return a time zone; ``local`` is the machine's."""
    try:
        if name == "local":
            name = os.environ.get("TZ", "").removeprefix(":")
            if not name:
                local = Path("/etc/localtime")
                if not local.exists():
                    return ZoneInfo("UTC")
                return local_zone(local.read_bytes())
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        raise RuleError(f"there is no time zone {name!r}") from error


@lru_cache(1)
def local_zone(data: bytes) -> tzinfo:
    """Return the zone of a file: the same object for the same content, by which rules are compared."""
    zone = LocalZone.from_file(BytesIO(data), key="local")
    zone.data = data
    return zone


@dataclass(frozen=True, slots=True)
class Common:
    """What rules of both kinds have."""

    name: str
    step: int
    offset: int
    batch: int | None  # numbers that are reserved at a time; None: as many as are no large part of a cycle
    zone: tzinfo
    accept: str = ""

    def batch_for(self, shape: Shape) -> int:
        """Return how many numbers are reserved at a time."""
        small = shape.remaining(shape.minimum - 1) * limits.BATCH_CYCLE_PERCENT // 100
        return min(max(1, small), limits.BATCH_DEFAULT) if self.batch is None else self.batch

    def fingerprint(self, length: int, cycle: Cycle, *shaping: str | None) -> Fingerprint:
        """Return what numbers look like that these strings and the cycle shape; length 0: it is not fixed."""
        begins = (cycle.unit, cycle.seconds, zone_shape(cycle.zone)) if cycle.unit != "never" else ()
        return Fingerprint(digest(shaping, begins), length, self.accept)


@dataclass(frozen=True, slots=True)
class Around:
    """What rules of a configuration have in common."""

    folder: Path
    step: int
    offset: int
    zone: str
    known: Mapping[str, Rule]  # rules that were read before


def read_rule(table: Table, around: Around) -> Rule:
    """Read a rule of our own configuration; if nothing of it has changed, return the known one."""
    written = repr(table.rest)
    name, step, offset = table.take("name", str), around.step, around.offset
    table.what = f"rule {name!r}"
    try:
        place = UTC if "kind" in table.rest else zone_named(table.take("time_zone", str, around.zone))
        path = around.folder / table.take("lua", str) if "lua" in table.rest and "kind" not in table.rest else None
        code = b"" if path is None else read_code(path)

        def read() -> Rule:
            apps = read_apps(table)
            if "kind" in table.rest:
                return replace(timed_rule(table, name, step, offset), apps=apps)
            common = Common(name, step, offset, table.optional("batch", int), place, table.take("accept", str, ""))
            if path is None:
                return replace(template_rule(table, common), apps=apps)
            table.end()
            return lua_rule(common, path, code, apps)

        return read_again(around.known, name, (written, step, offset, place, code), read)
    except (RuleError, ValueError) as error:
        raise RuleError(f"rule {name!r}: {str(error).removeprefix(table.what + ': ')}") from error


def read_apps(table: Table) -> frozenset[str] | None:
    """Read which applications a rule is for; None: all."""
    found = table.optional("apps", list)
    if found is None:
        return None
    if not found or not all(isinstance(each, str) for each in found):
        raise RuleError(f"{table.what}: apps must be names of applications, not {found!r}")
    return frozenset(found)


def read_cycle(table: Table, key: str, zone: tzinfo) -> Cycle:
    """Read a cycle: the name of a unit, or a number of seconds."""
    unit: Any = table.rest.pop(key, "never")
    seconds = 0
    if type(unit) is int and unit > 0:
        unit, seconds = "seconds", unit
    if unit not in UNITS or (unit == "seconds" and not seconds):
        raise RuleError(f"{key} must be {', '.join(UNITS[:-1])} or a number of seconds, not {unit!r}")
    return Cycle(unit, seconds, zone)


def template_rule(table: Table, common: Common) -> Rule:
    if "template" not in table.rest:
        raise RuleError("it needs a template, a kind or a lua")
    text = table.take("template", str)
    cycle = read_cycle(table, "cycle", common.zone)
    alphabet = table.take("alphabet", str, string.digits)
    check = table.optional("check", str)
    minimum = table.take("minimum", int, 0)
    maximum = table.optional("maximum", int)
    table.end()
    width = Template(text, cycle, 0, alphabet, check).width
    reach = min(len(alphabet) ** width - 1, limits.NUMBER_MAX)
    shape = Shape(minimum, reach if maximum is None else maximum, common.step, common.offset)
    template = Template(text, cycle, shape.maximum, alphabet, check)
    template.step = common.step
    fingerprint = common.fingerprint(template.length, cycle, text, alphabet, check)
    counting = Counting(shape, cycle, common.batch_for(shape), fingerprint=fingerprint)
    return Rule(common.name, counting, cycle, template.make, text, plain=template if template.is_plain else None)


def timed_rule(table: Table, name: str, step: int, offset: int) -> Rule:
    kind = table.take("kind", str)
    reserve_s = table.count("reserve_s", limits.RESERVE_S_DEFAULT, limits.RESERVE_S_MAX)
    make: Maker
    if kind == "snowflake":
        time_bits, node_bits = table.take("time_bits", int, 41), table.take("node_bits", int, 10)
        sequence_bits, unit_ms = table.take("sequence_bits", int, 12), table.take("unit_ms", int, 1)
        timed.check_bits(time_bits, node_bits, sequence_bits, step)
        if not 1 <= unit_ms <= 1000:
            raise RuleError(f"unit_ms must be 1 to 1000, not {unit_ms}")
        epoch_ms = epoch_of(table)
        named = f"snowflake {time_bits}/{node_bits}/{sequence_bits} of {unit_ms} ms since {epoch_ms}"
        layout = timed.Layout(named, epoch_ms, unit_ms, sequence_bits)
        make = timed.Snowflake(layout, node_bits, offset).make
    elif kind == "uuid7":
        time_bits, layout = 48, timed.Layout("uuid7", 0, 1, timed.UUID7_SEQUENCE_BITS)
        make = timed.Uuid7().make
    elif kind == "ulid":
        time_bits, layout = 48, timed.Layout("ulid", 0, 1, timed.ULID_SEQUENCE_BITS)
        make = timed.Ulid().make
    else:
        raise RuleError(f"there is no kind {kind!r}; there are snowflake, uuid7, ulid")
    table.end()
    if (end_ms := layout.epoch_ms + (layout.unit_ms << time_bits)) < TRIED_FROM_S * 1000:
        end = datetime.fromtimestamp(end_ms / 1000, UTC)
        raise RuleError(f"its time_bits run out on {end:%Y-%m-%d}")
    shape = Shape(0, (1 << time_bits + layout.sequence_bits) - 1)
    window = (reserve_s * 1000 // layout.unit_ms or 1) << layout.sequence_bits
    cycle = Cycle("never", 0, UTC, layout.kind)
    counting = timed.Timing(shape, cycle, window, layout, fingerprint=Fingerprint(digest(layout.kind)))
    return Rule(name, counting, cycle, make, layout.kind, shared=True, kind=kind)


def epoch_of(table: Table) -> int:
    """Return the epoch of a rule in Unix milliseconds; it is a date of UTC, or these milliseconds."""
    found: Any = table.rest.pop("epoch", EPOCH)
    if type(found) is date:
        return int(datetime.combine(found, time(), UTC).timestamp()) * 1000
    if type(found) is int and found >= 0:
        return found
    raise RuleError(f"epoch must be a date as in epoch = {EPOCH}, or Unix milliseconds, not {found!r}")


def read_code(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RuleError(f"cannot read {path}: {error.strerror}") from error


def lua_rule(common: Common, path: Path, source: bytes, apps: frozenset[str] | None = None) -> Rule:
    code = LuaRule(source, path.name, common.name, Cycle("never", 0, common.zone), common.step)
    if (seconds := code.ask("reset_seconds")) > 0:
        code.cycle = Cycle("seconds", seconds, common.zone)
    cycle = code.cycle
    shape = Shape(code.ask("min_counter"), code.ask("max_counter"), common.step, common.offset)
    if shape.maximum > limits.LUA_NUMBER_MAX:
        raise RuleError(f"max_counter() is above 2^53, where numbers of Lua are not exact: {shape.maximum}")
    # Numbers show the zone's time even if counting never starts again.
    fingerprint = common.fingerprint(0, cycle, source.decode("latin-1"), digest(zone_shape(cycle.zone)))
    counting = Counting(shape, cycle, common.batch_for(shape), fingerprint=fingerprint)
    rule = Rule(common.name, counting, cycle, code.make, str(path), kind="lua", apps=apps, lua=code)
    return tried(rule, code)
