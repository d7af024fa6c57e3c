"""Numbers and times as pages write them: the words of the command line, set so that they do not break."""

import re
from datetime import UTC, datetime

from beanpole.console.reading.bodies import visible
from beanpole.observe import units

NARROW = "\u202f"  # a narrow space at which no line ends
TIME_MAX_S = 253_402_300_799  # the last second of the year 9999, up to which dates are written


def count(number: int) -> str:
    """A whole number, short from a million on."""
    return units.count(number).replace(" ", NARROW)


def exact(number: int) -> str:
    return f"{number:,}".replace(",", NARROW)


def rate(per_second: float) -> str:
    return units.rate(per_second).replace(" ", NARROW)


def duration(seconds: float) -> str:
    """A time in its two largest units; below ten seconds with a digit or more."""
    if 0 < seconds < 9.95 and seconds != int(seconds):
        return units.wait(seconds)
    return units.duration(seconds) if seconds >= 0 else f"-{units.duration(-seconds)}"


SECONDS = re.compile(r'("(?:\\.|[^"\\])*")|([0-9]+(?:\.[0-9]+)?) s\b')
"""A name in quotes, or seconds, in a sentence of `explain`."""


def sentence(text: str) -> str:
    """A sentence of `explain`, in which times are written as everywhere else."""
    return SECONDS.sub(lambda found: found[1] or duration(float(found[2])), text)


def size(number: int) -> str:
    return units.size(number).replace(" ", NARROW)


def date(unix_s: float) -> datetime:
    return datetime.fromtimestamp(min(max(unix_s, 0), TIME_MAX_S), UTC)


def machine_time(unix_s: float) -> str:
    """A time for the machine: of the attribute `datetime`."""
    return date(unix_s).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc(unix_s: float) -> str:
    return date(unix_s).strftime("%Y-%m-%d %H:%M:%S")


FILTERS = {each.__name__: each for each in (count, exact, rate, duration, size, machine_time, utc, sentence, visible)}
"""By their names in templates; ``count`` is no length there."""
