"""The rules of tubes as text: one `name: value` a line, which clients write, the server reads and the log keeps.

:func:`parse` reads them and says which line is wrong; :attr:`Rules.text` writes them back, in one order and with every
number in one way. What the rules mean is the engine's business.
"""

import functools
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

from beanpole.errors import RulesError
from beanpole.protocol import limits
from beanpole.protocol.names import NAME_RULE, TUBE

RATE_INTERVAL_NS_MIN = 1_000
"""Nanoseconds between two tokens of the rule `rate`, which are whole: what is rounded is 0.1 % at most."""

RATE_BURST_MAX = 1_000_000
"""Tokens of the rule `rate` that there may be at once; with one an hour, the time until they are there fits 64 bits."""

SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000
NUMBER_MAX = 2**32 - 1
BYTES_MAX = 2**62

DURATION = re.compile(rb"(\d{1,10})(?:\.(\d{1,3}))?")
RATE = re.compile(rb"(\d{1,10})/([smh])")
WEIGHT_MAX = 1_000  # of a group beside one that has 1
KEY = re.compile(rb"[!-~\x80-\xff]{1,%d}" % limits.KEY_BYTES_MAX)
"""The name of a group, which is made as a key is."""

CONTROL = re.compile(rb"[\0-\x08\n-\x1f\x7f]")
UNITS_NS = {b"s": SECOND_NS, b"m": 60 * SECOND_NS, b"h": 3600 * SECOND_NS}

FACTOR_1000_DEFAULT = 2_000
BACKOFF_MAX_NS_DEFAULT = 3_600 * SECOND_NS

BREAKER_ENDS_MAX = 1_000_000
BREAKER_S_MAX = 86_400
"""Seconds of the window and between the probes of the rule `breaker`: more than any job of a busy tube takes."""

BREAKER_PROBE_NS_DEFAULT = 30 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Rate:
    """So many tokens in a time, and how many there may be at once."""

    count: int
    unit: bytes
    """s, m or h."""

    burst: int

    @property
    def interval_ns(self) -> int:
        """Nanoseconds from one token to the next, rounded up: there are never too many."""
        return -(-UNITS_NS[self.unit] // self.count)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a tube; 0, None or False: there is no such rule."""

    attempts: int = 0
    dead: bytes | None = None
    backoff_ns: int = 0
    backoff_factor_1000: int = FACTOR_1000_DEFAULT
    backoff_max_ns: int = BACKOFF_MAX_NS_DEFAULT
    expire_ns: int = 0
    expire_dead: bool = False
    unique: bool = False
    unique_until_reserve: bool = False
    unique_replace: bool = False
    jobs_max: int = 0
    bytes_max: int = 0
    rate: Rate | None = None
    concurrency: int = 0
    breaker_percent: int = 0
    breaker_count: int = 0
    breaker_window_ns: int = 0
    breaker_probe_ns: int = BREAKER_PROBE_NS_DEFAULT
    breaker_by_group: bool = False
    groups_fair: bool = False
    groups_split: bool = False
    group_concurrency: int = 0
    group_rate: Rate | None = None
    group_strict: bool = False
    group_hold_buried: bool = False
    group_jobs_max: int = 0
    group_weights: dict[bytes, int] | None = None

    @property
    def rate_interval_ns(self) -> int:
        return 0 if self.rate is None else self.rate.interval_ns

    @property
    def rate_burst(self) -> int:
        return 0 if self.rate is None else self.rate.burst

    @property
    def group_rate_interval_ns(self) -> int:
        return 0 if self.group_rate is None else self.group_rate.interval_ns

    @property
    def group_rate_burst(self) -> int:
        return 0 if self.group_rate is None else self.group_rate.burst

    @property
    def text(self) -> bytes:
        """The rules as lines, each with its LF."""
        found = [(name, row.write(self)) for name, row in RULES.items()]
        return b"".join([b"%b: %b\n" % (name.encode(), value) for name, value in found if value])


NUMBERS = tuple(each.name for each in fields(Rules) if each.name not in {"rate", "group_rate"})
"""What the engine needs of rules besides their rates, each of which is a field of its `RuleSet`."""


def parse(text: bytes) -> Rules:
    """Read rules. Raise RulesError where a line is wrong."""
    values: dict[str, Any] = {}
    seen: dict[str, int] = {}
    if len(text) > limits.RULES_BYTES_MAX:
        raise RulesError(0, f"rules have {limits.RULES_BYTES_MAX} bytes at most")
    for number, each in enumerate(text.split(b"\n"), 1):
        line = each.strip(b" \t\r")
        if not line:
            continue
        try:
            name, found = read_line(line, RULES, seen, "rule")
        except ValueError as wrong:
            raise RulesError(number, str(wrong)) from None
        seen[name] = number
        values |= found
    if "breaker" in seen and not {"attempts", "backoff"} & seen.keys():
        raise RulesError(
            seen["breaker"], "breaker: attempts or backoff is wanted besides, or each probe is the same job"
        )
    return Rules(**values)


class Readable(Protocol):
    """The row of a line in a table of lines."""

    @property
    def read(self) -> Callable[[list[bytes]], dict[str, Any]]:
        """What reads the words behind the colon."""


def read_line(
    line: bytes, rows: Mapping[str, Readable], seen: Container[str], what: str, hint: str = ""
) -> tuple[str, dict[str, Any]]:
    """Read a line `name: value` by the row of its name; return the name, and what the row reads.

    Raises:
        ValueError: it is wrong, or the name was seen; it says why, calling the line `what`.
    """
    if CONTROL.search(line):
        raise ValueError("no control character may stand in a line")
    name_bytes, colon, value = line.partition(b":")
    name = name_bytes.decode("ascii", "backslashreplace")
    if not colon or not value.split():
        raise ValueError(f"a {what} is a name, a colon and a value{hint}")
    if name not in rows:
        raise ValueError(f"there is no {what} {name[:40]!a}")
    if name in seen:
        raise ValueError(f"{name} is there twice")
    try:
        return name, rows[name].read(value.split())
    except ValueError as wrong:
        raise ValueError(f"{name}: {wrong}") from None


def is_pattern(text: bytes) -> bool:
    """Whether rules can be set for this: a tube's name, a beginning of one with `*` behind it, or `*`."""
    return text == b"*" or TUBE.fullmatch(text.removesuffix(b"*")) is not None


# --- values -----------------------------------------------------------------------------------------------------------


def number(word: bytes, most: int = NUMBER_MAX) -> int:
    """Read a whole number from 1."""
    if not re.fullmatch(rb"\d{1,20}", word) or not 1 <= int(word) <= most:
        raise ValueError(f"a whole number from 1 to {most} is wanted")
    return int(word)


def thousandths(word: bytes, what: str) -> int:
    """Read a number with up to three decimals, as so many thousandths; 0 is none."""
    found = DURATION.fullmatch(word)
    if found is None or int(found[1]) > NUMBER_MAX:
        raise ValueError(f"{what} is wanted, with three decimals at most")
    value = int(found[1]) * 1000 + int((found[2] or b"").ljust(3, b"0"))
    if value == 0:
        raise ValueError(f"{what} above 0 is wanted")
    return value


def duration_ns(word: bytes) -> int:
    """Read seconds above 0 with up to three decimals, as nanoseconds."""
    return thousandths(word, "a number of seconds") * MILLISECOND_NS


def decimal(value_1000: int) -> bytes:
    """Write so many thousandths as a number with as few decimals as it needs."""
    whole, rest = divmod(value_1000, 1000)
    return (b"%d.%03d" % (whole, rest)).rstrip(b"0") if rest else b"%d" % whole


def seconds(duration: int) -> bytes:
    """Write nanoseconds as seconds; nothing for 0."""
    return decimal(duration // MILLISECOND_NS) if duration else b""


def options(words: list[bytes], **readers: Callable[[bytes], int]) -> dict[str, int]:
    """Read what follows a first value: names with a value behind each, every one once."""
    found: dict[str, int] = {}
    while words:
        name = words.pop(0).decode("ascii", "backslashreplace")
        if name not in readers or name in found or not words:
            raise ValueError(f"behind the first value may follow {' and '.join(readers)}, each with a value")
        found[name] = readers[name](words.pop(0))
    return found


def only(words: list[bytes]) -> bytes:
    """Return the one word that there must be."""
    if len(words) != 1:
        raise ValueError("one value is wanted")
    return words[0]


def read_dead(words: list[bytes]) -> dict[str, Any]:
    """Read `dead: TUBE`."""
    if not TUBE.fullmatch(only(words)):
        raise ValueError(NAME_RULE)
    return {"dead": words[0]}


def factor(word: bytes) -> int:
    """Read the factor of a backoff."""
    value = thousandths(word, "a number")
    if not 1000 <= value <= 1_000_000:
        raise ValueError("a factor is from 1 to 1000")
    return value


def read_backoff(words: list[bytes]) -> dict[str, Any]:
    """Read `backoff: S [factor F] [max M]`."""
    first, *rest = words
    found = options(rest, factor=factor, max=duration_ns)
    return {
        "backoff_ns": duration_ns(first),
        "backoff_factor_1000": found.get("factor", FACTOR_1000_DEFAULT),
        "backoff_max_ns": found.get("max", BACKOFF_MAX_NS_DEFAULT),
    }


def write_backoff(rules: Rules) -> bytes:
    """Write what `read_backoff` reads, without what is so by default."""
    text = seconds(rules.backoff_ns)
    if text and rules.backoff_factor_1000 != FACTOR_1000_DEFAULT:
        text += b" factor " + decimal(rules.backoff_factor_1000)
    if text and rules.backoff_max_ns != BACKOFF_MAX_NS_DEFAULT:
        text += b" max " + seconds(rules.backoff_max_ns)
    return text


def read_expire(words: list[bytes]) -> dict[str, Any]:
    """Read `expire: S [dead]`."""
    first, *rest = words
    if rest not in ([], [b"dead"]):
        raise ValueError("behind the seconds may follow dead")
    return {"expire_ns": duration_ns(first), "expire_dead": bool(rest)}


def write_expire(rules: Rules) -> bytes:
    return seconds(rules.expire_ns) + (b" dead" if rules.expire_dead else b"")


def read_unique(words: list[bytes]) -> dict[str, Any]:
    """Read `unique: body [until reserve] [replace]`."""
    first, *rest = words
    until_reserve = rest[:2] == [b"until", b"reserve"]
    left = rest[2:] if until_reserve else rest
    if first != b"body" or left not in ([], [b"replace"]):
        raise ValueError("body is wanted, and behind it may follow until reserve, and replace")
    return {"unique": True, "unique_until_reserve": until_reserve, "unique_replace": bool(left)}


def write_unique(rules: Rules) -> bytes:
    if not rules.unique:
        return b""
    until = b" until reserve" if rules.unique_until_reserve else b""
    return b"body" + until + (b" replace" if rules.unique_replace else b"")


def read_rate(words: list[bytes], field: str = "rate") -> dict[str, Any]:
    """Read `rate: N/s [burst B]`, of which the burst is one second's worth by default."""
    first, *rest = words
    found = RATE.fullmatch(first)
    count = int(found[1]) if found else 0
    if found is None or count == 0 or UNITS_NS[found[2]] // count < RATE_INTERVAL_NS_MIN:
        raise ValueError("a number from 1 to a million a second is wanted, as 10/s, 10/m or 10/h")
    burst = -(-count * SECOND_NS // UNITS_NS[found[2]])
    burst = options(rest, burst=lambda word: number(word, RATE_BURST_MAX)).get("burst", burst)
    return {field: Rate(count, found[2], burst)}


def write_rate(rate: Rate | None) -> bytes:
    return b"" if rate is None else b"%d/%b burst %d" % (rate.count, rate.unit, rate.burst)


def whole_seconds(word: bytes) -> int:
    """Read seconds of the rule `breaker`, as nanoseconds."""
    try:
        return number(word.removesuffix(b"s"), BREAKER_S_MAX) * SECOND_NS
    except ValueError:
        raise ValueError(f"behind in and probe whole seconds from 1s to {BREAKER_S_MAX}s are wanted") from None


def ends(word: bytes) -> int:
    """Read of how many attempts the rule `breaker` takes a share."""
    try:
        return number(word, BREAKER_ENDS_MAX)
    except ValueError:
        raise ValueError(f"behind of a whole number from 1 to {BREAKER_ENDS_MAX} is wanted") from None


def read_breaker(words: list[bytes]) -> dict[str, Any]:
    """Read `breaker: P% of N in Ws [probe Ps] [by group]`."""
    by_group = len(words) > 2 and words[-2:] == [b"by", b"group"]
    first, *rest = words[:-2] if by_group else words
    if not re.fullmatch(rb"\d{1,3}%", first) or not 1 <= int(first[:-1]) <= 100:
        raise ValueError("a share from 1% to 100% is wanted first")
    found = options(rest, **{"of": ends, "in": whole_seconds, "probe": whole_seconds})
    if not {"of", "in"} <= found.keys():
        raise ValueError("of and in are wanted, as in 50% of 20 in 60s")
    return {
        "breaker_percent": int(first[:-1]),
        "breaker_count": found["of"],
        "breaker_window_ns": found["in"],
        "breaker_probe_ns": found.get("probe", BREAKER_PROBE_NS_DEFAULT),
        "breaker_by_group": by_group,
    }


def write_breaker(rules: Rules) -> bytes:
    """Write what `read_breaker` reads, without what is so by default."""
    if not rules.breaker_percent:
        return b""
    window_s, probe_ns = rules.breaker_window_ns // SECOND_NS, rules.breaker_probe_ns
    probe = b"" if probe_ns == BREAKER_PROBE_NS_DEFAULT else b" probe %ds" % (probe_ns // SECOND_NS)
    by_group = b" by group" if rules.breaker_by_group else b""
    return b"%d%% of %d in %ds%b%b" % (rules.breaker_percent, rules.breaker_count, window_s, probe, by_group)


def count(
    field: str, most: int = NUMBER_MAX
) -> tuple[Callable[[list[bytes]], dict[str, Any]], Callable[[Rules], bytes]]:
    """Return how a rule that is one whole number is read and written."""

    def read(words: list[bytes]) -> dict[str, Any]:
        return {field: number(only(words), most)}

    def write(rules: Rules) -> bytes:
        value = getattr(rules, field)
        return b"%d" % value if value else b""

    return read, write


def read_groups(words: list[bytes]) -> dict[str, Any]:
    """Read `groups: [fair] [split]`."""
    if not set(words) <= {b"fair", b"split"} or len(set(words)) < len(words):
        raise ValueError("fair or split is wanted, or both")
    return {"groups_fair": b"fair" in words, "groups_split": b"split" in words}


def write_groups(rules: Rules) -> bytes:
    return b" ".join([b"fair"] * rules.groups_fair + [b"split"] * rules.groups_split)


def read_order(words: list[bytes]) -> dict[str, Any]:
    """Read `group-order: strict [hold-buried]`."""
    if words not in ([b"strict"], [b"strict", b"hold-buried"]):
        raise ValueError("strict is wanted, and behind it may follow hold-buried")
    return {"group_strict": True, "group_hold_buried": len(words) > 1}


def write_order(rules: Rules) -> bytes:
    return b"strict" * rules.group_strict + b" hold-buried" * rules.group_hold_buried


def read_weights(words: list[bytes]) -> dict[str, Any]:
    """Read `group-weight: G=W...`."""
    weights = {}
    for word in words:
        name, sign, weight = word.rpartition(b"=")
        if not sign or not KEY.fullmatch(name) or name in weights:
            raise ValueError("names of groups are wanted, each once with = and its weight behind")
        weights[name] = number(weight, WEIGHT_MAX)
    return {"group_weights": weights}


def write_weights(rules: Rules) -> bytes:
    return b" ".join([b"%b=%d" % pair for pair in (rules.group_weights or {}).items()])


class Row(NamedTuple):
    """What there is to know of a rule."""

    read: Callable[[list[bytes]], dict[str, Any]]
    """Reads the words behind the colon."""

    write: Callable[[Rules], bytes]
    """Writes them; nothing if there is no such rule."""

    form: str
    """What stands behind the colon, as people read it."""

    effect: str
    """What it does, in a few words."""


RULES = {
    "attempts": Row(*count("attempts"), "N", "a job whose N-th attempt fails is dead"),
    "dead": Row(
        read_dead,
        lambda rules: rules.dead or b"",
        "TUBE",
        "where the dead go; without it they are buried where they are",
    ),
    "backoff": Row(
        read_backoff,
        write_backoff,
        "S [factor F] [max M]",
        "a job that failed waits S seconds, then F times as long, at most M",
    ),
    "expire": Row(read_expire, write_expire, "S [dead]", "a job that has waited S seconds is deleted, or dead"),
    "unique": Row(
        read_unique,
        write_unique,
        "body [until reserve] [replace]",
        "a job whose body is there already is not put again",
    ),
    "jobs-max": Row(*count("jobs_max"), "N", "nothing is put while so many jobs are ready or delayed"),
    "bytes-max": Row(*count("bytes_max", BYTES_MAX), "N", "nothing is put with which all bodies would have more bytes"),
    "rate": Row(
        read_rate,
        lambda rules: write_rate(rules.rate),
        "N/s [burst B]",
        "so many jobs are handed out in a second (/m: a minute, /h: an hour)",
    ),
    "concurrency": Row(*count("concurrency"), "N", "so many jobs are held at a time"),
    "breaker": Row(
        read_breaker,
        write_breaker,
        "P% of N in Ws [probe Ps] [by group]",
        "while so many of the last attempts fail, one job is tried at a time, every P seconds",
    ),
    "groups": Row(
        read_groups,
        write_groups,
        "[fair] [split]",
        "fair: priorities don't count between groups; split: a put into A;B is one into A, of group B",
    ),
    "group-concurrency": Row(*count("group_concurrency"), "N", "so many jobs of a group are held at a time"),
    "group-rate": Row(
        functools.partial(read_rate, field="group_rate"),
        lambda rules: write_rate(rules.group_rate),
        "N/s [burst B]",
        "so many jobs of a group are handed out in a second (/m, /h)",
    ),
    "group-order": Row(
        read_order,
        write_order,
        "strict [hold-buried]",
        "what was handed out of a group ends before its next begins; buried is no end with hold-buried",
    ),
    "group-jobs-max": Row(
        *count("group_jobs_max"), "N", "nothing is put while so many jobs of the group are ready or delayed"
    ),
    "group-weight": Row(
        read_weights, write_weights, "G=W...", "group G gets W times as much as others, from 1 to 1000"
    ),
}
"""Every rule in the order in which they are written; the engine keeps them all."""
