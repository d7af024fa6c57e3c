"""A rule: how it counts, what its numbers look like, and whether it was found to be safe.

Trying out means to make numbers of many cycles with the smallest and the largest counters, and to see that they are all
different; this finds Lua that leaves out its counter or its date.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from beanpole import limits
from beanpole.errors import NeedRangeError, NoNumberError, RuleError
from beanpole.ids.cycle import DAY_S, HOUR_S, Cycle
from beanpole.ids.sequence import Counting

TRIED_FROM_S = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
"""Where trying out begins; the same for everybody, so that a rule is good or bad everywhere."""

TRIED_AFTER_S = (
    *(seconds for seconds in (0, 1, 59, 60, 3600, 7200, 12 * HOUR_S)),
    *(days * DAY_S for days in (1, 2, 7, 10, 28, 30, 31, 59, 90, 180, 304, 365, 366, 731, 1461)),
)
"""Seconds after that: steps that a careless format does not show."""


class Maker(Protocol):
    """What makes numbers of a rule."""

    def __call__(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:
        """Return `count` numbers and how many counters they took.

        They are made of the counters from `first` on, of which `left` may be used, at least `count`; show the
        second `time_s`; and have the salt of the client.

        Raises:
            NeedRangeError: it takes more counters than there are left.
            RuleFailedError: it can't make a number.
        """


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that was found to be safe."""

    name: str
    counting: Counting
    cycle: Cycle
    make: Maker
    source: str
    """The template, the file of the Lua code, or the kind."""

    shared: bool = False
    """Whether all applications share one counter."""


def sample(rule: Rule, value: int, time_s: int) -> str:
    """Return the number that a rule makes of a value of its counter, and of the values after it if it takes more.

    Raises:
        RuleError: it makes none, or without a counter.
    """
    try:
        return rule.make(value, limits.IDS_BATCH_MAX, 1, time_s, b"")[0][0]
    except (NoNumberError, NeedRangeError) as error:
        raise RuleError(str(error) or f"it takes more than {limits.IDS_BATCH_MAX} counters a number") from error


def tried(rule: Rule) -> Rule:
    """Try a rule out.

    Raises:
        RuleError: it makes the same number twice.
    """
    shape, cycle = rule.counting.shape, rule.cycle
    first = shape.after(shape.minimum - 1)
    last = shape.after(shape.maximum - shape.step)
    tried_values = {first, shape.after(first), shape.after(last // 2), last - shape.step, last}
    values = sorted(each for each in tried_values if first <= each <= last)
    seen: dict[str, tuple[int, int]] = {}
    for after_s in sorted({*TRIED_AFTER_S, cycle.seconds, 2 * cycle.seconds}):
        time_s = TRIED_FROM_S + after_s
        start_s = cycle.start_s(time_s)
        for value in values:
            made = sample(rule, value, time_s)
            before = seen.setdefault(made, (start_s, value))
            if before[1] != value:
                raise RuleError(f"it makes {made!r} of the counters {before[1]} and {value}: numbers would repeat")
            if before[0] != start_s:
                starts = " and ".join(cycle.local(each).isoformat(" ") for each in (before[0], start_s))
                raise RuleError(f"it makes {made!r} in two cycles, which begin {starts}: numbers would repeat")
    return rule


def preview(rule: Rule, now_s: int) -> dict[str, str]:
    """Return the first number of the cycle of a moment, the one after it, and the last.

    Raises:
        RuleError: it makes none now.
    """
    shape = rule.counting.shape
    try:
        first = rule.counting.first(now_s)
    except NoNumberError as error:
        raise RuleError(str(error)) from error
    values = {"first": first, "next": shape.after(first), "last": shape.after(shape.maximum - shape.step)}
    return {name: sample(rule, value, now_s) for name, value in values.items() if value <= shape.maximum}
