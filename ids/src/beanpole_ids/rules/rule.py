"""A rule: how it counts, what its numbers look like, and the trial that a rule in Lua has passed.

A template is proven; see `template`. The trial makes numbers of many cycles, counters and salts, which must all differ:
so it finds Lua that leaves out its counter or its date. Lua makes each of them three times, once in a fresh state, and
all must be equal: a number that depends on chance or on a variable that keeps its value is refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from beanpole_ids import limits
from beanpole_ids.errors import NeedRangeError, NoNumberError, RuleCostError, RuleError
from beanpole_ids.rules.cycle import DAY_S, HOUR_S, Cycle
from beanpole_ids.rules.lua import NUMBERS, PROCESS, LuaRule
from beanpole_ids.rules.sequence import Counting
from beanpole_ids.rules.template import Template

TRIED_FROM_S = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
"""Where the trial begins; always the same, so that a rule passes everywhere or nowhere."""

TRIED_AFTER_S = (
    *(seconds for seconds in (0, 1, 59, 60, 3600, 7200, 12 * HOUR_S)),
    *(days * DAY_S for days in (1, 2, 7, 10, 28, 30, 31, 59, 90, 180, 304, 365, 366, 731, 1461, 1500)),
)
"""Seconds after that which are tried: steps that a careless format does not show."""


TRIED_SALTS = (b"", b"1", b"10", b"0", b"A")
"""Salts: one that ends like a counter must not make the number of another counter."""


Maker = Callable[[int, int, int, int, bytes], tuple[list[str], int]]
"""Makes the numbers of a rule: of `first, left, count, time_s, salt`, `count` numbers and how many counters they took.

They are made of the counters from `first` on, of which `left` may be used, at least `count`; show the second `time_s`;
and have the salt of the client. Raises NeedRangeError: it takes more counters than there are left; RuleFailedError: it
can't make a number.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that was found to be safe."""

    name: str
    counting: Counting
    cycle: Cycle
    make: Maker
    source: str  # the template, the file of the Lua code, or the kind
    shared: bool = False  # whether all applications share one counter
    apps: frozenset[str] | None = None  # the applications that get numbers; None: all
    plain: Template | None = None  # the template, if the counter is written in decimal and no check digit follows
    kind: str = "template"  # what it is: also "lua", or the kind of those that begin with the time
    lua: LuaRule | None = None
    """The code, if it is one in Lua: what gives numbers must not wait for `make`; see `beanpole_ids.texts`."""

    read_from: tuple[object, ...] = ()  # all that it was read from: when that is the same again, so is the rule


def read_again(known: Mapping[str, Rule], name: str, read_from: tuple[object, ...], read: Callable[[], Rule]) -> Rule:
    """Return a known rule if it was read from the same, else read it."""
    old = known.get(name)
    return old if old is not None and old.read_from == read_from else replace(read(), read_from=read_from)


def failed(error: NoNumberError | NeedRangeError) -> RuleError:
    """Return why a rule that has so failed is refused."""
    text = str(error).removeprefix("system error: ")
    return RuleError(text or f"it takes more than {limits.BATCH_MAX} counters a number")


def sample(make: Maker, value: int, time_s: int) -> str:
    """Return the number that is made of a value of a counter, and of the values after it if it takes more.

    Raises RuleError: it makes none, or without a counter.
    """
    try:
        return make(value, limits.BATCH_MAX, 1, time_s, b"")[0][0]
    except (NoNumberError, NeedRangeError) as error:
        raise failed(error) from error


def cases(rule: Rule) -> Iterator[tuple[int, int, bytes]]:
    """Return the cases of the trial: counters, moments and salts."""
    shape, seconds = rule.counting.shape, rule.cycle.seconds
    first = shape.after(shape.minimum - 1)
    last = shape.after(shape.maximum - shape.step)
    few = {first, shape.after(first), shape.after(last // 2), last - shape.step, last}
    # Where a counter that is cut, or taken modulo something, comes again.
    many = few | {shape.after(first + base**power - 1) for base in (2, 10) for power in range(63)}
    for after_s in sorted({*TRIED_AFTER_S, seconds, 2 * seconds}):
        for value in sorted(few if after_s else many):
            if first <= value <= last:
                yield from ((value, TRIED_FROM_S + after_s, salt) for salt in TRIED_SALTS)


def samples(code: LuaRule, wanted: Sequence[tuple[int, int, bytes]]) -> list[str | None]:
    """Return the number of each case, or None if the rule does not want its salt.

    Raises RuleError: it makes none without a salt, or takes too long for one.
    """
    calls = [code.call(value, limits.BATCH_MAX, time_s, [(1, salt)]) for value, time_s, salt in wanted]
    found: list[str | None] = []
    for (_, _, salt), result in zip(wanted, PROCESS.results(code, calls), strict=True):
        try:
            found.append(code.made(result)[0][0])
        except (NoNumberError, NeedRangeError) as error:
            if not salt or isinstance(error, RuleCostError):
                raise failed(error) from error
            found.append(None)
    return found


def check_different(rule: Rule, wanted: Sequence[tuple[int, int, bytes]], all_made: Sequence[str | None]) -> None:
    """Check that cases have made different numbers, if they are of different counters or cycles.

    Raises RuleError: they have not.
    """
    cycle = rule.cycle
    seen: dict[str, tuple[int, int]] = {}
    for (value, time_s, _), made in zip(wanted, all_made, strict=True):
        if made is None:
            continue
        start_s = cycle.start_s(time_s)
        before = seen.setdefault(made, (start_s, value))
        if before[1] != value:
            raise RuleError(f"it makes {made!r} of the counters {before[1]} and {value}: numbers would repeat")
        if before[0] != start_s:
            starts = " and ".join(cycle.local(each).isoformat(" ") for each in (before[0], start_s))
            raise RuleError(f"it makes {made!r} in two cycles, which begin {starts}: numbers would repeat")


def tried(rule: Rule, code: LuaRule) -> Rule:
    """Return a rule in Lua that has passed the trial.

    Raises RuleError: it makes the same number twice, or another one of the same counter.
    """
    wanted = list(cases(rule))
    all_made = samples(code, wanted)
    check_different(rule, wanted, all_made)
    fresh = replace(code, number=next(NUMBERS))
    for each in (code, fresh):
        for case, made, again in zip(wanted[::-1], all_made[::-1], samples(each, wanted[::-1]), strict=True):
            if made != again:
                raise RuleError(
                    f"it makes {made!r} and then {again!r} of the counter {case[0]}: its numbers must be "
                    "made of nothing but counter, now and salt, or they would repeat"
                )
    return rule


def preview(rule: Rule, now_s: int) -> dict[str, str]:
    """Return the first number of the cycle of a moment, the one after it, and the last.

    Raises RuleError: it makes none now.
    """
    shape = rule.counting.shape
    try:
        first = rule.counting.first(now_s)
    except NoNumberError as error:
        raise RuleError(str(error)) from error
    values = {"first": first, "next": shape.after(first), "last": shape.after(shape.maximum - shape.step)}
    return {name: sample(rule.make, value, now_s) for name, value in values.items() if value <= shape.maximum}
