"""Rules as templates: ``O{year:02}{month:02}{day:02}{counter:06}``.

A number is the template with its fields filled in. Every field has a fixed width, except the salt that a client sends,
so two numbers are equal only if all their fields are. That makes three conditions, checked when the template is read,
sufficient for never repeating one: it shows the counter, in a width that holds the maximum, and a time that
distinguishes cycles.
"""

import string
from collections.abc import Callable
from datetime import datetime

from beanpole_ids import limits
from beanpole_ids.errors import RuleError
from beanpole_ids.rules.checkdigit import CHECKS
from beanpole_ids.rules.cycle import DAY_S, HOUR_S, Cycle

TIMES: dict[str, tuple[tuple[int, ...], Callable[[datetime], int]]] = {
    "year": ((1, 2, 4), lambda local: local.year),
    "month": ((2,), lambda local: local.month),
    "day": ((2,), lambda local: local.day),
    "yday": ((3,), lambda local: local.timetuple().tm_yday),
    "week": ((2,), lambda local: local.isocalendar().week),
    "week_year": ((1, 2, 4), lambda local: local.isocalendar().year),
    "hour": ((2,), lambda local: local.hour),
    "minute": ((2,), lambda local: local.minute),
    "second": ((2,), lambda local: local.second),
}
"""The fields of time, the widths that each may have, and its value. A year of 1 or 2 digits is the end of the year.

Weeks are those of ISO 8601: the first days of a year may belong to the last week of the year before, and its last days
to the first week of the next. `week_year` is the year to which the week belongs."""

SHOWN = {
    "never": (),
    "year": (("year",),),
    "month": (("year",), ("month", "yday")),
    # `week_year` and `week`, or a date. Not `year` and `week`: 2024-12-30 and 2024-01-01 are both of a week 1.
    "week": (
        ("week_year", "year"),
        ("week", "year"),
        ("week_year", "month", "yday"),
        ("week", "month", "yday"),
        ("week_year", "day", "yday"),
        ("week", "day", "yday"),
    ),
    "day": (("year",), ("month", "yday"), ("day", "yday")),
    "hour": (("year",), ("month", "yday"), ("day", "yday"), ("hour",)),
    "minute": (("year",), ("month", "yday"), ("day", "yday"), ("hour",), ("minute",)),
    "second": (("year",), ("month", "yday"), ("day", "yday"), ("hour",), ("minute",), ("second",)),
}
"""What a template must show to distinguish cycles: at least one field of each group."""


def fields_of(template: str) -> list[tuple[str, str, int]]:
    """Return the parts of a template: the text before a field, the field's name, its width; empty and 0 for none.

    Raises RuleError: it is no template.
    """
    parts = []
    try:
        for literal, name, spec, conversion in string.Formatter().parse(template):
            if name is None:
                parts.append((literal, "", 0))
            elif name == "salt" and not spec and not conversion:
                parts.append((literal, name, 0))
            elif name not in TIMES and name not in {"counter", "salt"}:
                raise RuleError(f"there is no field {name!r}; there are counter, salt, {', '.join(TIMES)}")
            elif conversion or not spec or not spec.startswith("0") or not spec.isdecimal() or not spec.strip("0"):
                raise RuleError(f"the field {name!r} needs a width, as in {{{name}:02}}")
            elif len(spec) > len(str(limits.WIDTH_MAX)) + 1 or int(spec) > limits.WIDTH_MAX:
                raise RuleError(f"the field {name!r} can be {limits.WIDTH_MAX} wide at the most, not {spec[:20]}")
            else:
                parts.append((literal, name, int(spec)))
    except ValueError as error:
        raise RuleError(f"the template {template!r} can't be read: {error}") from error
    return parts


def check_named(name: str | None, alphabet: str) -> Callable[[str], str] | None:
    """Return what makes check digits of numbers with an alphabet.

    Raises RuleError: there is no check digit of this name, or it would not look at all characters.
    """
    if name is None:
        return None
    if name not in CHECKS:
        raise RuleError(f"there is no check digit {name!r}; there are {', '.join(CHECKS)}")
    check, characters = CHECKS[name]
    if blind := set(alphabet) - set(characters):
        raise RuleError(
            f"the check digit {name} does not look at {''.join(sorted(blind))!r} of the alphabet, so it would find no "
            f"mistake there; it looks at {characters}"
        )
    return check


def precision(cycle: Cycle) -> str:
    """Return the finest unit of time that a template must show for a cycle; a key of `SHOWN`."""
    if cycle.unit != "seconds":
        return cycle.unit
    units = (("day", DAY_S), ("hour", HOUR_S), ("minute", 60), ("second", 1))
    return next(unit for unit, length_s in units if cycle.seconds % length_s == 0)


class Template:
    """A template that was found to be safe."""

    def __init__(self, template: str, cycle: Cycle, maximum: int, alphabet: str, check: str | None) -> None:
        """Read a template. Raises RuleError: it could repeat a number, or can't be read."""
        self.cycle = cycle
        self.step = 1  # the distance of two counters
        self.alphabet = alphabet
        self.decimal = alphabet == string.digits
        if len(alphabet) < 2 or len(set(alphabet)) != len(alphabet) or not alphabet.isprintable():
            raise RuleError(f"the alphabet {alphabet!r} must be two or more different characters")
        self.check = check_named(check, alphabet)
        self.is_plain = self.decimal and self.check is None
        self.parts = fields_of(template)
        names = [name for _, name, _ in self.parts]
        for _, name, width in self.parts:
            if name in TIMES and width not in TIMES[name][0]:
                raise RuleError(f"{{{name}}} can be {' or '.join(map(str, TIMES[name][0]))} wide, not {width}")
        if names.count("counter") != 1 or names.count("salt") > 1:
            raise RuleError("a template has {counter} once, and {salt} once or not at all")
        self.width = next(width for _, name, width in self.parts if name == "counter")
        if len(alphabet) ** self.width <= maximum:
            reach = len(alphabet) ** self.width - 1
            raise RuleError(f"{self.width} characters reach {reach}, but the maximum is {maximum}: widen the counter")
        for group in SHOWN[precision(cycle)]:
            if not set(group) & set(names):
                raise RuleError(
                    f"counting starts again each {cycle.seconds or ''} {cycle.unit}".replace("  ", " ")
                    + f", but the template does not show the {group[0]}: numbers would repeat"
                )
        self._cached: tuple[int, bytes] = (-1, b"")
        self._form = ""

    @property
    def length(self) -> int:
        """Characters of each number; 0 if a salt makes it vary."""
        if any(name == "salt" for _, name, _ in self.parts):
            return 0
        return sum(len(literal) + width for literal, _, width in self.parts) + len(self.check("") if self.check else "")

    def make(self, first: int, left: int, count: int, time_s: int, salt: bytes) -> tuple[list[str], int]:
        """Return numbers of a moment, one of each counter from `first` on; see `rule.Maker`."""
        assert count <= left, "the caller has reserved them"
        if self._cached != (time_s, salt):
            self._form = self._fill(time_s, salt)
            self._cached = (time_s, salt)
        form, spell, check = self._form, self._spell, self.check
        if count == 1 and self.is_plain:
            return [form % first], 1
        values = range(first, first + count * self.step, self.step)
        made = [form % value for value in values] if self.decimal else [form % spell(value) for value in values]
        return [text + check(text) for text in made] if check else made, count

    def _fill(self, time_s: int, salt: bytes) -> str:
        """Return the template with everything but the counter, which is left as a field of Python's ``%``."""
        text = salt.decode("utf-8", "surrogateescape")
        before, after = (text.join(pieces).replace("%", "%%") for pieces in self.pieces(time_s))
        return before + (f"%0{self.width}d" if self.decimal else "%s") + after

    def pieces(self, time_s: int) -> tuple[list[str], list[str]]:
        """Return what stands before the counter at a moment and what after it, each with a salt between two texts."""
        local = self.cycle.local(time_s)
        sides: tuple[list[str], list[str]] = ([""], [""])
        pieces = sides[0]
        for literal, name, width in self.parts:
            pieces[-1] += literal
            if name == "counter":
                pieces = sides[1]
            elif name == "salt":
                pieces.append("")
            elif name:
                pieces[-1] += f"{TIMES[name][1](local) % 10**width:0{width}}"
        return sides

    def _spell(self, value: int) -> str:
        """Write a number with the characters of the alphabet."""
        base, characters = len(self.alphabet), []
        for _ in range(self.width):
            value, digit = divmod(value, base)
            characters.append(self.alphabet[digit])
        return "".join(reversed(characters))
