"""Cron expressions: which minutes of which days one names.

What is meant is cron(5) of Debian, with `L`, `FRI#2` and `5L` besides. A time here is *local seconds*: seconds from
1970-01-01T00:00 by the calendar and the clock on the wall, as if no clock was ever changed. What becomes of that in a
zone is `timing`'s business. The fields of an expression are sets of bits, and days are counted from 1970-01-01, so that
the next time takes a few steps of whole numbers.
"""

import re

import cython
from cython.cimports.libc.stdint import int64_t, uint64_t

from beanpole.errors import ArgumentError

NEVER: int = -(2**62)
"""What stands for no time, and for no day."""

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

PARTS_MAX = 200
"""Numbers, ranges and steps in all fields: more than there are of different ones. Each takes some microseconds."""

FIELDS = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(MONTHS, 1)}),
    ("weekday", 0, 7, {name: number for number, name in enumerate(WEEKDAYS)}),
)
"""The fields in their order: what each is called, its least and greatest number, and names for numbers."""

PART = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d{1,4}))?")
NTH = re.compile(r"(?P<weekday>[0-7]|[A-Z]{3})(?:#(?P<nth>[1-5])|(?P<last>L))")


@cython.cclass
class Cron:
    """One expression. The fields stand in ``cron.pxd``.

    Args:
        text: the five fields, or an alias as `@daily`.
        weeks: only each n-th week counts.
        first_week: a day (days since 1970-01-01) of a week that counts.
        excepted: days that don't count.

    Raises:
        ArgumentError: the text is no expression; it says why.
    """

    def __init__(self, text: str, weeks: int = 1, first_week: int = 0, excepted: frozenset[int] = frozenset()) -> None:
        words = [word.upper() for word in text.split()]
        if len(words) == 1 and words[0].startswith("@"):
            alias = words[0].lower()
            if alias not in ALIASES:
                reason = (
                    "a schedule knows nothing of starts"
                    if alias == "@reboot"
                    else f"it is none of {', '.join(ALIASES)}"
                )
                raise ArgumentError(f"{text.strip()[:40]!a}: {reason}")
            words = ALIASES[alias].split()
            self.text = alias
        else:
            self.text = " ".join(words)
        if len(words) != len(FIELDS):
            raise ArgumentError(f"a cron expression has {len(FIELDS)} fields, this one has {len(words)}")
        if self.text.count(",") + len(FIELDS) > PARTS_MAX:
            raise ArgumentError(f"the lists of a cron expression have {PARTS_MAX} parts at most")
        minute, hour, day, month, weekday = words
        self.minutes = numbers(0, minute)
        self.hours = numbers(1, hour)
        parts = day.split(",")
        self.last_day = "L" in parts
        self.days = numbers(2, ",".join([part for part in parts if part != "L"]) if self.last_day else day)
        self.months = numbers(3, month)
        plain = []
        for part in weekday.split(","):
            found = NTH.fullmatch(part)
            if found is None:
                plain.append(part)
                continue
            self.nth_weekdays |= cython.cast(uint64_t, 1) << (
                8 * (number(4, found["weekday"]) % 7) + int(found["nth"] or 0)
            )
        bits: uint64_t = numbers(4, ",".join(plain)) if plain else 0
        self.weekdays = (bits | bits >> 7) & 0x7F
        self.needs_both = day.startswith("*") or weekday.startswith("*")
        self.by_clock = not (minute.startswith("*") or hour.startswith("*"))
        self.weeks = weeks
        self.first_week = monday_of(first_week)
        self.excepted = excepted

    def names_day(self, day):
        """Whether a day (days since 1970-01-01) is one of the expression's."""
        date: Date = date_of(day)
        if not self.months >> date.month & 1:
            return False
        month_days: cython.int = days_in(date.year, date.month)
        by_day: cython.bint = self.days >> date.day & 1 or (self.last_day and date.day == month_days)
        weekday: cython.int = (day + 4) % 7  # 1970-01-01 was a Thursday
        by_weekday: cython.bint = self.weekdays >> weekday & 1
        if self.nth_weekdays:
            of_weekday: cython.int = cython.cast(cython.int, self.nth_weekdays >> 8 * weekday & 0xFF)
            by_weekday = by_weekday or of_weekday >> (date.day + 6) // 7 & 1
            by_weekday = by_weekday or (of_weekday & 1 and date.day + 7 > month_days)
        if not (by_day and by_weekday if self.needs_both else by_day or by_weekday):
            return False
        if self.weeks > 1 and (monday_of(day) - self.first_week) // 7 % self.weeks != 0:
            return False
        return not self.excepted or day not in self.excepted

    def day_from(self, day, step):
        """Return the first of the expression's days from this one on, by steps of 1 or -1; `NEVER`: there is none."""
        end: int64_t = day + step * DAYS_MAX
        while (end - day) * step > 0:
            date: Date = date_of(day)
            if not self.months >> date.month & 1:  # the whole month can be passed over
                day += days_in(date.year, date.month) - date.day + 1 if step > 0 else -date.day
            elif self.names_day(day):
                return day
            else:
                day += step
        return NEVER

    def first_from(self, local_s):
        """Return the earliest time at or after one, in local seconds; `NEVER`: there is none within 50 years."""
        return self.search((local_s + MINUTE_S - 1) // MINUTE_S, 1)

    def last_until(self, local_s):
        """Return the latest time at or before one, in local seconds; `NEVER`: there is none within 50 years."""
        return self.search(local_s // MINUTE_S, -1)

    def search(self, minute, step):
        """Return the first time from a minute on, in local seconds: later for a `step` of 1, earlier for -1."""
        day: int64_t = minute // DAY_MINUTES
        of_day: cython.int = minute % DAY_MINUTES
        if self.names_day(day):
            hour: cython.int = of_day // 60
            at: cython.int = bit_from(self.minutes, of_day % 60, step) if self.hours >> hour & 1 else -1
            if at < 0:
                hour = bit_from(self.hours, hour + step, step)
                at = bit_from(self.minutes, 0 if step > 0 else 59, step)
            if hour >= 0:
                return day * DAY_S + (hour * 60 + at) * MINUTE_S
        day = self.day_from(day + step, step)
        if day == NEVER:
            return NEVER
        hour = bit_from(self.hours, 0 if step > 0 else 23, step)
        return day * DAY_S + (hour * 60 + bit_from(self.minutes, 0 if step > 0 else 59, step)) * MINUTE_S


# --- The calendar -----------------------------------------------------------------------------------------------------


def date_of(day):
    """Return the date of a day. Years are taken to begin in March, so that the day of the leap year is the last."""
    date: Date
    shifted: int64_t = day + 719_468  # from 0000-03-01
    era: int64_t = shifted // 146_097  # of 400 years
    of_era: int64_t = shifted - era * 146_097
    year: int64_t = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year: int64_t = of_era - (365 * year + year // 4 - year // 100)
    month: int64_t = (5 * of_year + 2) // 153
    date.day = cython.cast(cython.int, of_year - (153 * month + 2) // 5 + 1)
    date.month = cython.cast(cython.int, month + 3 if month < 10 else month - 9)
    date.year = cython.cast(cython.int, year + era * 400 + (date.month <= 2))
    return date


def days_in(year, month):
    """Return how many days a month has."""
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def monday_of(day: int) -> int:
    """Return the Monday of a day's week."""
    return day - (day + 3) % 7


# --- Sets of bits -----------------------------------------------------------------------------------------------------


def bit_from(bits, at, step):
    """Return the first bit that is set, from one on by steps of 1 or -1; -1: there is none."""
    while 0 <= at < 64:
        if bits >> at & 1:
            return at
        at += step
    return -1


# --- The text ---------------------------------------------------------------------------------------------------------


def number(field: int, word: str) -> int:
    """Read a number of a field, or a name for one."""
    name, least, most, names = FIELDS[field]
    found = names.get(word, int(word) if re.fullmatch("[0-9]{1,4}", word) else -1)
    if not least <= found <= most:
        also = f" or {', '.join(names)}" if names else ""
        raise ArgumentError(f"{name}: {word[:40]!a} is not a number from {least} to {most}{also}")
    return found


def numbers(field: int, text: str) -> int:
    """Read a field: numbers, ranges and steps with commas between them. Return a bit for each number that it names."""
    name, least, most, _ = FIELDS[field]
    bits = 0
    for part in text.split(",") if text else ():
        found = PART.fullmatch(part)
        if found is None or (found["first"] == "*" and found["last"]):
            raise ArgumentError(f"{name}: {part[:40]!a} is no number, range or step")
        if found["first"] == "*":
            first, last = least, min(most, 6) if name == "weekday" else most
        else:
            first = number(field, found["first"])
            last = number(field, found["last"]) if found["last"] else first
            if name == "weekday" and found["last"] == "SUN":
                last = 7  # the end of a week, as in FRI-SUN
        if first > last:
            raise ArgumentError(f"{name}: the range {part[:40]!a} ends before it begins")
        step = int(found["step"] or 1)
        if found["step"] and not found["last"] and found["first"] != "*":
            raise ArgumentError(f"{name}: a step is of * or of a range: {part[:40]!a}")
        if not 1 <= step <= most - least + 1:
            raise ArgumentError(f"{name}: a step is from 1 to {most - least + 1}: {part[:40]!a}")
        for each in range(first, last + 1, step):
            bits |= 1 << each
    return bits
