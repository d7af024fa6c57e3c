"""Times and sizes as people write them: ``90``, ``1h30m``, ``2026-12-31T18:00Z``; ``65536``, ``64KiB``, ``1M``.

One form for everything that people type: the command line, its variables and files, and what `top` asks for. Numbers
are exact: nothing here is a float before the sum is known.
"""

import re
from fractions import Fraction

DURATIONS = {"d": Fraction(86_400), "h": Fraction(3_600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}
"""Seconds of the units of a time, the largest first, as they are written."""

POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

NUMBER = r"([0-9]{1,20}(?:\.[0-9]{1,20})?)"
DURATION = re.compile("".join(f"(?:{NUMBER}{unit})?" for unit in DURATIONS), re.ASCII)
ALONE = re.compile(NUMBER, re.ASCII)
SIZE = re.compile(f"{NUMBER} ?([kmgt]?)(i?b?)", re.ASCII | re.IGNORECASE)

MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)

MOMENT_FORM = "write it as in 2026-12-31T18:00:00Z, 2026-12-31T18:00+02:00, or in seconds since 1970"
DURATION_FORM = "write it as in 90, 10m, 1h30m or 500ms"
SIZE_FORM = "write it as in 65536, 64KiB or 1M"


def seconds_of(text: str, unit: str = "s") -> Fraction | None:
    """Return the seconds of a time; `unit` is what a number alone counts. None: it is no time."""
    if ALONE.fullmatch(text):
        return Fraction(text) * DURATIONS[unit]
    found = DURATION.fullmatch(text)
    if found is None or not text:
        return None
    parts = zip(found.groups(), DURATIONS.values(), strict=True)
    return sum((Fraction(number or 0) * size for number, size in parts), Fraction())


def moment_of(text: str) -> Fraction | None:
    """Return the seconds since 1970 of a time of RFC 3339, or of such seconds themselves. None: it is none of both."""
    if ALONE.fullmatch(text):
        return Fraction(text)
    if not MOMENT.fullmatch(text):
        return None
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415 - most programs read no moment

    try:
        since_1970 = datetime.fromisoformat(text.upper()) - datetime(1970, 1, 1, tzinfo=UTC)
    except ValueError:
        return None
    return Fraction(since_1970 // timedelta(microseconds=1), 1_000_000)


def bytes_of(text: str) -> int | None:
    """Return the bytes of a size. None: it is none, or no whole number of bytes.

    ``K``, ``Ki`` and ``KiB`` are 1024 bytes, ``KB`` is 1000, and so on.
    """
    found = SIZE.fullmatch(text)
    if found is None or (found[3].lower().startswith("i") and not found[2]):
        return None
    is_decimal = found[2] and found[3].lower() == "b"
    number = Fraction(found[1]) * (1000 if is_decimal else 1024) ** POWERS[found[2].lower()]
    return int(number) if number.denominator == 1 else None
